//! Row 16: an operator changes the listener, or replaces Envoy, while sessions are open.

use harness::client::Session;
use harness::envoy::DRAIN_S;
use harness::{Fleet, Prober, Promise, RunningFleet, close_all};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SESSIONS: usize = 10;

async fn with_sessions() -> (RunningFleet, Vec<Session>) {
    let fleet = Fleet::new().as_shipped().watched_listeners();
    let fleet = fleet.max_concurrent(2 * SESSIONS as u32).up().await;
    let sessions = fleet.sessions(SESSIONS).await;
    (fleet, sessions)
}

fn manager(listener: &mut Value) -> &mut Value {
    &mut listener["filter_chains"][0]["filters"][0]["typed_config"]
}

/// Old sessions go on until the old listener is drained; new ones come in; every session has
/// exactly one lease all the time.
async fn assert_changes_in_flight(fault: &'static str, change: impl FnOnce(&mut Value)) {
    let (fleet, mut old) = with_sessions().await;
    let start = Instant::now();
    fleet.envoys[0].change_listener(change);
    let changed = async || {
        fleet.envoys[0]
            .stat("listener_manager.lds.update_success")
            .await
            >= 2
    };
    harness::eventually("Envoy has taken the change", changed).await;
    let promise = Promise::new(16, fault, 2000);
    let served = async || fleet.admits(0).await;
    promise.kept_since(start, served).await;
    let new = fleet.sessions(SESSIONS / 2).await;
    assert_eq!(fleet.alive(&mut old).await, SESSIONS);
    let all = (SESSIONS + SESSIONS / 2) as u64;
    fleet
        .sees("every session has its place", |pool| pool.active == all)
        .await;
    // Envoy closes what is left when the old listener's time is over.
    fleet
        .stays(
            Duration::from_secs(DRAIN_S + 5),
            "as many places as sessions",
            |pool| pool.active as usize >= fleet.open_at_workers(),
        )
        .await;
    let open = fleet.open_at_workers() as u64;
    fleet
        .sees("as many places as sessions", |pool| pool.active == open)
        .await;
    close_all(new).await;
    close_all(old).await;
    fleet
        .sees("all places are free", |pool| pool.active == 0)
        .await;
    fleet.assert_consistent().await;
}

#[tokio::test]
async fn a_changed_listener_loses_no_lease_and_doubles_none() {
    let change = |listener: &mut Value| manager(listener)["server_name"] = json!("changed");
    assert_changes_in_flight("listener changed", change).await;
}

#[tokio::test]
async fn a_changed_filter_loses_no_lease_and_doubles_none() {
    let change = |listener: &mut Value| {
        let filter = &mut manager(listener)["http_filters"][0]["typed_config"]["config"];
        let settings = &mut filter["configuration"]["value"];
        let text = settings.as_str().unwrap_or_default();
        *settings = json!(text.replacen('{', r#"{"release_delay_ms": 5, "#, 1));
    };
    assert_changes_in_flight("filter's settings changed", change).await;
}

/// The next process takes over while the former goes on with its sessions, until it is ended.
#[tokio::test]
async fn a_hot_restart_loses_no_lease_and_doubles_none() {
    let fleet = Fleet::new().as_shipped().hot_restarts();
    let mut fleet = fleet.max_concurrent(2 * SESSIONS as u32).up().await;
    let mut old = fleet.sessions(SESSIONS).await;
    let prober = Prober::start(fleet.client());
    let former = fleet.envoys[0].hot_restart().await;
    let probes = prober.stop().await;
    Promise::new(16, "hot restart: without an admission", 2000).kept_in(probes.longest_gap());
    let mut new = fleet.sessions(SESSIONS).await;
    fleet.assert_full(0).await;
    assert_eq!(fleet.alive(&mut old).await, SESSIONS);
    assert!(former.ended().is_none(), "both go on side by side");
    let ended = async || {
        let view = fleet.view().await;
        // Sessions only end now: those that are open after the look were open before.
        let open = fleet.open_at_workers() as u64;
        assert!(view.active >= open, "{open} sessions; {view:#?}");
        former.ended().is_some()
    };
    harness::eventually("the former process ends", ended).await;
    let promise = Promise::new(16, "hot restart: places of the former process", 3000);
    let all_back = async || fleet.is_exact(SESSIONS).await;
    promise.kept_since(Instant::now(), all_back).await;
    assert_eq!(
        fleet.alive(&mut new).await,
        SESSIONS,
        "all with the next process"
    );
    let more = fleet.sessions(SESSIONS).await;
    let view = fleet.view().await;
    assert_eq!(view.repaired("overcommitted"), 0, "{view:#?}");
    close_all(new).await;
    close_all(more).await;
    fleet
        .sees("all places are free", |pool| pool.active == 0)
        .await;
    fleet.assert_consistent().await;
}
