//! Row 14: the network to Redis swallows, delays, resets and refuses.

use harness::client::Session;
use harness::fault_proxy::FaultProxy;
use harness::prober::Probes;
use harness::{Fleet, Prober, Promise, RunningFleet};
use std::time::{Duration, Instant};

const SESSIONS: usize = 20;

async fn with_sessions() -> (RunningFleet, Vec<Session>) {
    let fleet = Fleet::new().as_shipped().redis_through_proxy();
    let fleet = fleet.max_concurrent(100).up().await;
    let sessions = fleet.sessions(SESSIONS).await;
    (fleet, sessions)
}

/// What clients were answered while the link was bad; afterwards all is as before.
async fn survive(
    lasting: Duration,
    fault: &'static str,
    harm: impl AsyncFnOnce(&FaultProxy),
) -> Probes {
    let (fleet, sessions) = with_sessions().await;
    harm(&fleet.redis_links[0]).await;
    let prober = Prober::start(fleet.client());
    tokio::time::sleep(lasting).await;
    let probes = prober.stop().await;
    fleet.redis_links[0].heal().await;
    let promise = Promise::new(14, fault, 2000);
    let served = async || fleet.admits(0).await;
    promise.kept_since(Instant::now(), served).await;
    fleet.assert_unharmed(sessions).await;
    probes.assert_typed_in_time();
    probes
}

#[tokio::test]
async fn a_network_that_swallows_everything_is_an_outage_within_the_budget() {
    let harm = async |link: &FaultProxy| link.black_hole();
    let probes = survive(Duration::from_secs(4), "black hole for 4 s", harm).await;
    assert_eq!(probes.admitted(), 0);
}

#[tokio::test]
async fn a_network_that_is_50_ms_late_is_no_outage() {
    let harm = async |link: &FaultProxy| link.delay(Duration::from_millis(25));
    let probes = survive(Duration::from_secs(3), "50 ms late for 3 s", harm).await;
    // A busy machine may add what makes some of them too late; an outage would refuse all.
    assert!(4 * probes.admitted() > probes.0.len(), "{probes:?}");
}

#[tokio::test]
async fn a_network_that_is_500_ms_late_is_an_outage_within_the_budget() {
    let harm = async |link: &FaultProxy| link.delay(Duration::from_millis(250));
    let probes = survive(Duration::from_secs(4), "500 ms late for 4 s", harm).await;
    assert_eq!(probes.admitted(), 0);
}

#[tokio::test]
async fn a_reply_that_is_cut_short_is_no_answer() {
    let harm = async |link: &FaultProxy| link.cut_after(10);
    survive(Duration::from_secs(1), "reset in a reply", harm).await;
}

#[tokio::test]
async fn connections_that_are_reset_are_made_again() {
    let harm = async |link: &FaultProxy| link.cut().await;
    survive(Duration::from_secs(1), "connections reset", harm).await;
}

#[tokio::test]
async fn a_redis_that_refuses_is_an_outage_within_the_budget() {
    let harm = async |link: &FaultProxy| link.refuse().await;
    let probes = survive(Duration::from_secs(3), "refused for 3 s", harm).await;
    assert_eq!(probes.admitted(), 0);
}
