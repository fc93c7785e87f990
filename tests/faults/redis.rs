//! Rows 8, 10, 13 and 15: Redis stands still, restarts, is harmed by an operator, or its clock jumps.

use harness::client::Session;
use harness::{Fault, Fleet, Part, Prober, Promise, RunningFleet, scenario};
use std::time::{Duration, Instant};

const SESSIONS: usize = 20;
const PLACES: u32 = 100;

async fn with_sessions(fleet: Fleet) -> (RunningFleet, Vec<Session>) {
    let fleet = fleet.as_shipped().max_concurrent(PLACES).up().await;
    let sessions = fleet.sessions(SESSIONS).await;
    (fleet, sessions)
}

/// Serves again in time; nobody lost anything meanwhile.
async fn assert_well(fleet: &RunningFleet, sessions: Vec<Session>, promise: Promise) {
    scenario::serves_again(fleet, promise).await;
    fleet.assert_unharmed(sessions).await;
}

async fn assert_survives_standstill(stopped: Duration, name: &'static str) {
    let (mut fleet, sessions) = with_sessions(Fleet::new()).await;
    let promise = Promise::new(8, name, 2000);
    let fault = Fault::Stopped(Part::Redis);
    scenario::outage_costs_nothing(&mut fleet, fault, stopped, (promise, sessions)).await;
}

#[tokio::test]
async fn a_redis_stopped_for_1_s_costs_nobody_a_place() {
    assert_survives_standstill(Duration::from_secs(1), "Redis stopped for 1 s").await;
}

#[tokio::test]
async fn a_redis_stopped_for_5_s_costs_nobody_a_place() {
    assert_survives_standstill(Duration::from_secs(5), "Redis stopped for 5 s").await;
}

#[cfg(feature = "full")]
#[tokio::test]
async fn a_redis_stopped_for_20_s_costs_nobody_a_place() {
    assert_survives_standstill(Duration::from_secs(20), "Redis stopped for 20 s").await;
}

#[tokio::test]
async fn scripts_that_were_flushed_are_brought_again() {
    let (fleet, sessions) = with_sessions(Fleet::new()).await;
    fleet.redis.told("SCRIPT FLUSH").await;
    fleet.redis.told("FUNCTION FLUSH").await;
    let promise = Promise::new(13, "scripts and functions flushed", 2000);
    assert_well(&fleet, sessions, promise).await;
}

#[tokio::test]
async fn connections_that_redis_closes_are_made_again() {
    let (fleet, sessions) = with_sessions(Fleet::new()).await;
    fleet.redis.told("CLIENT KILL TYPE normal").await;
    let promise = Promise::new(13, "connections killed", 2000);
    assert_well(&fleet, sessions, promise).await;
}

#[tokio::test]
async fn a_redis_without_memory_is_an_outage_and_loses_nothing() {
    let (fleet, sessions) = with_sessions(Fleet::new()).await;
    fleet.redis.told("CONFIG SET maxmemory 100000").await;
    let prober = Prober::start(fleet.client());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let probes = prober.stop().await;
    fleet.redis.told("CONFIG SET maxmemory 0").await;
    probes.assert_typed_in_time();
    assert_eq!(probes.admitted(), 0, "{probes:?}");
    let promise = Promise::new(13, "no memory for 2 s", 2000);
    assert_well(&fleet, sessions, promise).await;
}

#[tokio::test]
async fn a_redis_that_is_busy_for_2_s_is_an_outage_and_loses_nothing() {
    let (fleet, sessions) = with_sessions(Fleet::new()).await;
    let prober = Prober::start(fleet.client());
    fleet.redis.told("DEBUG SLEEP 2").await;
    let probes = prober.stop().await;
    probes.assert_typed_in_time();
    assert!(probes.refused("outage") > 0, "{probes:?}");
    let promise = Promise::new(13, "Redis busy for 2 s", 2000);
    assert_well(&fleet, sessions, promise).await;
}

#[tokio::test]
async fn a_clock_that_jumps_an_hour_expires_nothing() {
    const HOUR_S: i64 = 3600;
    let fleet = Fleet::new().redis_with_jumping_clock();
    let (fleet, sessions) = with_sessions(fleet).await;
    for (offset_s, fault) in [
        (HOUR_S, "clock an hour ahead"),
        (0, "clock an hour back"),
        (-HOUR_S, "clock another hour back"),
    ] {
        fleet.redis.clock().jump_to(offset_s);
        let start = Instant::now();
        let promise = Promise::new(15, fault, 2000);
        let served = async || fleet.admits(0).await;
        promise.kept_since(start, served).await;
        fleet
            .sees("who only asked is gone", |pool| {
                pool.active == SESSIONS as u64
            })
            .await;
        // More than a beat and many rounds of reaping.
        let lasting = Duration::from_secs(4);
        fleet
            .stays(lasting, "nothing expires", |pool| {
                pool.active == SESSIONS as u64 && pool.available() == 1 && pool.reclaimed() == 0
            })
            .await;
    }
    fleet.assert_unharmed(sessions).await;
}
