//! Row 7: the sidecar dies, stands still, is ended, or comes and goes; with a spare and without.

use harness::client::Session;
use harness::{Fault, Fleet, Link, Part, Prober, Promise, RunningFleet, scenario};
use std::time::{Duration, Instant};

const SESSIONS: usize = 20;

async fn with_sessions(fleet: Fleet) -> (RunningFleet, Vec<Session>) {
    let fleet = fleet.as_shipped().max_concurrent(100).up().await;
    let sessions = fleet.sessions_of(0, SESSIONS).await;
    (fleet, sessions)
}

#[tokio::test]
async fn a_killed_sidecar_is_an_outage_and_takes_no_place_with_it() {
    let (mut fleet, sessions) = with_sessions(Fleet::new().envoys(2)).await;
    fleet.sidecars[0].process.kill();
    let prober = Prober::start(fleet.client());
    let others = fleet.sidecars[1].api();
    // Below lease_ttl_ms less a beat, a sidecar may be away.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(others.view().await.unwrap().active, SESSIONS as u64);
    let probes = prober.stop().await;
    probes.assert_typed_in_time();
    assert_eq!(probes.admitted(), 0);
    fleet.sidecars[0].restart().await;
    let start = Instant::now();
    let promise = Promise::new(7, "sidecar killed, started again", 2000);
    let served = async || fleet.admits(0).await;
    promise.kept_since(start, served).await;
    fleet.assert_unharmed(sessions).await;
}

#[tokio::test]
async fn a_stopped_sidecar_is_an_outage_and_takes_no_place_with_it() {
    let (fleet, sessions) = with_sessions(Fleet::new().envoys(2)).await;
    fleet.sidecars[0].process.freeze().await;
    let prober = Prober::start(fleet.client());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let others = fleet.sidecars[1].api().view().await.unwrap();
    assert_eq!(others.active, SESSIONS as u64);
    let probes = prober.stop().await;
    probes.assert_typed_in_time();
    fleet.sidecars[0].process.thaw();
    let promise = Promise::new(7, "sidecar stopped for 5 s", 2000);
    let served = async || fleet.admits(0).await;
    promise.kept_since(Instant::now(), served).await;
    fleet.assert_unharmed(sessions).await;
}

#[tokio::test]
async fn a_sidecar_that_is_asked_to_end_takes_no_place_with_it() {
    let (mut fleet, sessions) = with_sessions(Fleet::new().envoys(2)).await;
    fleet.sidecars[0].process.terminate();
    harness::eventually("it ends", async || {
        fleet.sidecars[0].process.ended().is_some()
    })
    .await;
    // The other sidecar reaps meanwhile: the presence that ended was the sidecar's own doing.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let others = fleet.sidecars[1].api().view().await.unwrap();
    assert_eq!(others.active, SESSIONS as u64);
    fleet.sidecars[0].restart().await;
    fleet.assert_unharmed(sessions).await;
}

#[tokio::test]
async fn a_sidecar_that_comes_and_goes_takes_no_place_with_it() {
    let (mut fleet, sessions) = with_sessions(Fleet::new().envoys(2)).await;
    let prober = Prober::start(fleet.client());
    for _ in 0..6 {
        fleet.sidecars[0].restart().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let promise = Promise::new(7, "sidecar restarted 6 times", 2000);
    let served = async || fleet.admits(0).await;
    promise.kept_since(Instant::now(), served).await;
    prober.stop().await.assert_typed_in_time();
    fleet.assert_unharmed(sessions).await;
}

/// The sidecar is away for longer than a holder is believed: only the spare can keep the places.
async fn assert_spare_serves(name: &'static str, fault: Fault) {
    let fleet = Fleet::new().spare();
    let fleet = fleet.redis_through_proxy().sidecars_through_proxy();
    let fleet = fleet.policy(|policy| policy.lease_ttl_ms = 5000);
    let (mut fleet, mut sessions) = with_sessions(fleet).await;
    let promise = Promise::new(7, name, 2000);
    let lasting = Duration::from_secs(8);
    scenario::spare_serves(&mut fleet, fault, lasting, (promise, &mut sessions)).await;
}

#[tokio::test]
async fn a_spare_serves_when_the_sidecar_is_killed() {
    let fault = Fault::Killed(Part::Sidecar(0));
    assert_spare_serves("sidecar killed, with a spare", fault).await;
}

#[tokio::test]
async fn a_spare_serves_when_the_sidecar_is_stopped() {
    let fault = Fault::Stopped(Part::Sidecar(0));
    assert_spare_serves("sidecar stopped, with a spare", fault).await;
}

#[tokio::test]
async fn a_spare_serves_when_the_sidecar_cannot_be_reached() {
    let fault = Fault::Cut(Link::ToSidecar(0));
    assert_spare_serves("proxy cut off from its sidecar, with a spare", fault).await;
}

#[tokio::test]
async fn a_spare_serves_when_the_sidecar_cannot_reach_redis() {
    let fault = Fault::Cut(Link::ToRedis(0));
    assert_spare_serves("sidecar cut off from Redis, with a spare", fault).await;
}

/// `on_lease_lost: close`: a proxy that is cut off ends its sessions while their places are still its
/// own, so that no worker sees two sessions on one place.
#[tokio::test]
async fn a_proxy_that_is_cut_off_closes_its_sessions_before_their_places_are_given_away() {
    let fleet = Fleet::new().envoys(2).filter(|filter| {
        filter["on_lease_lost"] = serde_json::json!("close");
    });
    let fleet = fleet.policy(|policy| policy.lease_ttl_ms = 6000);
    let (fleet, _sessions) = with_sessions(fleet).await;
    fleet.sidecars[0].process.kill();
    let others = fleet.sidecars[1].api();
    harness::eventually("all sessions are closed", async || {
        fleet.open_at_workers() == 0
    })
    .await;
    assert_eq!(others.view().await.unwrap().active, SESSIONS as u64);
    assert_eq!(fleet.envoys[0].stat("berth.closed").await, SESSIONS as u64);
    fleet
        .sees("the places are given away", |pool| pool.active == 0)
        .await;
}
