//! Rows 1 to 4: a proxy dies, is ended, stands still, or loses its VM.

use harness::client::{Session, close_all};
use harness::envoy::POISON_HEADER;
use harness::{Fault, Fleet, Part, Promise, Raised, RunningFleet, eventually, scenario};
use hyper::header::{HeaderMap, HeaderValue};
use std::time::{Duration, Instant};

const SESSIONS: usize = 1000;
const FIRST: Part = Part::Envoy(0);

/// Two Envoys; the sessions are all with the first.
async fn fleet_with_sessions(count: usize) -> (RunningFleet, Vec<Session>) {
    let fleet = Fleet::new().as_shipped().envoys(2).workers(4);
    let fleet = fleet.max_concurrent(count as u32 / 4).up().await;
    let sessions = fleet.sessions_of(0, count).await;
    fleet
        .sees("all hold a place", |pool| pool.active == count as u64)
        .await;
    (fleet, sessions)
}

#[tokio::test]
async fn a_killed_proxy_gives_a_thousand_places_back_and_none_too_early() {
    let (mut fleet, _sessions) = fleet_with_sessions(SESSIONS).await;
    let promise = Promise::new(1, "proxy killed, 1,000 sessions", 3000);
    scenario::places_return(&mut fleet, Fault::Killed(FIRST), promise).await;
}

#[tokio::test]
async fn a_proxy_that_is_asked_to_end_gives_a_thousand_places_back() {
    let (mut fleet, _sessions) = fleet_with_sessions(SESSIONS).await;
    let promise = Promise::new(2, "proxy terminated, 1,000 sessions", 3000);
    scenario::places_return(&mut fleet, Fault::Ended(FIRST), promise).await;
}

/// A proxy and the sidecar beside it are gone at the same moment, so nobody tells: only time does, from the
/// proxy's last beat on.
#[tokio::test]
async fn a_host_that_is_lost_without_a_word_gives_its_places_back() {
    const HELD: usize = 20;
    let fleet = Fleet::new().as_shipped().envoys(2).max_concurrent(100);
    let fleet = fleet.up().await;
    let _sessions = fleet.sessions_of(1, HELD).await;
    fleet.told().await;
    let host = [&fleet.sidecars[1].process, &fleet.envoys[1].process];
    for process in host {
        process.freeze().await;
    }
    let start = Instant::now();
    for process in host {
        process.kill();
    }
    // What was heard last is believed; a beat may be 3.6 s old.
    let believed = Duration::from_secs(8);
    fleet
        .stays(believed, "all places are kept", |pool| {
            pool.active == HELD as u64
        })
        .await;
    let promise = Promise::new(1, "host lost without a word, 20 sessions", 16_000);
    let all_back = async || fleet.is_exact(0).await;
    promise.kept_since(start, all_back).await;
    assert!(fleet.view().await.repaired("reclaimed_ttl") >= 1);
    fleet.assert_consistent().await;
}

/// A stopped proxy keeps its places for as long as it takes.
async fn assert_keeps_places_stopped_for(stopped: Duration) {
    let (mut fleet, sessions) = fleet_with_sessions(40).await;
    let fault = Fault::Stopped(FIRST);
    scenario::places_are_kept(&mut fleet, fault, stopped, &sessions).await;
    if stopped > Duration::from_secs(16) {
        // Its worker thread's VM, and the one that its main thread has.
        assert_eq!(fleet.view().await.quarantined_holders, 2);
    }
    fleet.heal(fault).await;
    fleet.assert_unharmed(sessions).await;
}

#[tokio::test]
async fn a_proxy_stopped_for_5_s_keeps_its_places() {
    assert_keeps_places_stopped_for(Duration::from_secs(5)).await;
}

#[cfg(feature = "full")]
#[tokio::test]
async fn a_proxy_stopped_for_30_s_is_in_quarantine_and_keeps_its_places() {
    assert_keeps_places_stopped_for(Duration::from_secs(30)).await;
}

/// The VM dies of a header. Its sessions stay open, and end with their next byte: Envoy lets nothing
/// through a filter that is no more. So whoever is to live on here keeps quiet. The
/// answer to that request is Envoy's business.
async fn poison(fleet: &RunningFleet) {
    let mut headers = HeaderMap::new();
    headers.insert(POISON_HEADER, HeaderValue::from_static("1"));
    let answer = fleet.client().get_with("/", headers).await;
    assert_eq!(answer.status(), 503, "the VM was to die of this");
}

/// Quarantine comes after 5 s in place of 15: more than a beat, less than a coffee.
async fn poisonable_fleet(heartbeat_ms: u64) -> RunningFleet {
    let fleet = Fleet::new().as_shipped().max_concurrent(8).poisonable();
    let fleet = fleet.heartbeat_ms(heartbeat_ms);
    fleet.policy(|policy| policy.lease_ttl_ms = 5000).up().await
}

#[tokio::test]
async fn a_dead_vm_is_replaced_and_its_sessions_keep_their_places_until_they_end() {
    let fleet = poisonable_fleet(100).await;
    let sessions = fleet.sessions(4).await;
    let start = Instant::now();
    poison(&fleet).await;
    let promise = Promise::new(4, "VM died: new requests", 1000);
    let served = async || fleet.admits(0).await;
    promise.kept_since(start, served).await;
    let kept = Duration::from_secs(8);
    fleet
        .stays(kept, "all places are kept", |pool| pool.active >= 4)
        .await;
    assert_eq!(fleet.open_at_workers(), 4);
    let start = Instant::now();
    close_all(sessions).await;
    let promise = Promise::new(4, "VM died: places after the last session", 3000);
    let all_back = async || fleet.is_exact(0).await;
    promise.kept_since(start, all_back).await;
}

/// Envoy's doing: it lets no byte through a filter that is no more, and ends the stream. The dead VM
/// itself goes when its last session has ended and a request has called for the next one.
#[tokio::test]
async fn a_session_of_a_dead_vm_ends_with_its_next_byte_and_frees_its_place() {
    let fleet = poisonable_fleet(100).await;
    let mut sessions = fleet.sessions(4).await;
    poison(&fleet).await;
    let served = async || fleet.admits(0).await;
    eventually("another VM serves", served).await;
    fleet
        .sees("it is gone again", |pool| pool.active == 4)
        .await;
    assert_eq!(fleet.open_at_workers(), 4);
    let start = Instant::now();
    assert_eq!(fleet.alive(&mut sessions).await, 0, "none gets its echo");
    eventually("the worker has seen them end", async || {
        fleet.open_at_workers() == 0
    })
    .await;
    let promise = Promise::new(4, "VM died: places after every session's next byte", 3000);
    let all_back = async || fleet.is_exact(0).await;
    promise.kept_since(start, all_back).await;
}

async fn assert_freed_by_sessions(heartbeat_ms: u64) {
    let fleet = poisonable_fleet(heartbeat_ms).await;
    let mut sessions = fleet.sessions(4).await;
    // What no beat has told of is never taken from a silent VM.
    fleet.told().await;
    poison(&fleet).await;
    close_all(sessions.split_off(1)).await;
    eventually("the worker has seen them end", async || {
        fleet.open_at_workers() == 1
    })
    .await;
    fleet
        .sees("only the open one holds a place", |pool| pool.active == 1)
        .await;
    assert!(fleet.view().await.repaired("freed_by_sessions") >= 3);
    assert_eq!(fleet.open_at_workers(), 1);
}

#[tokio::test]
async fn places_of_a_dead_vm_are_freed_above_what_the_worker_reports() {
    assert_freed_by_sessions(2000).await;
}

#[tokio::test]
async fn places_of_a_dead_vm_are_freed_above_what_an_eager_worker_reports() {
    assert_freed_by_sessions(100).await;
}

/// A dead VM cannot hang up its line, and Envoy keeps a pointer to it (docs/decisions/0024).
#[tokio::test]
async fn a_dead_vm_whose_sidecar_ends_takes_nobody_with_it() {
    let mut fleet = poisonable_fleet(100).await;
    let served = async |fleet: &RunningFleet| fleet.admits(0).await;
    eventually("a line is up", async || {
        served(&fleet).await
            && fleet.sidecars[0]
                .api()
                .metrics()
                .await
                .is_ok_and(|it| it.contains("berth_lines 1"))
    })
    .await;
    let sessions = fleet.sessions(4).await;
    poison(&fleet).await;
    fleet.sidecars[0].process.kill();
    fleet.sidecars[0].restart().await;
    eventually("another VM serves", async || served(&fleet).await).await;
    close_all(sessions).await;
    eventually("all places are back", async || fleet.is_exact(0).await).await;
    eventually("it serves on", async || served(&fleet).await).await;
    fleet.envoys[0].process.expect_running();
}
