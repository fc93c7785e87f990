//! When sidecar or Redis are gone: a typed answer in time, and living sessions go on.

use harness::api::PoolView;
use harness::client::Refused;
use harness::{Fleet, RunningFleet, eventually};
use std::time::{Duration, Instant};

/// What the filter gives one question, by default.
const BUDGET: Duration = Duration::from_millis(300);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_millis(200);

/// Five attempts one after the other: their refusals, and how long the middle one took.
async fn five_refusals(fleet: &RunningFleet) -> (Vec<Refused>, Duration) {
    let (mut refusals, mut times) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let start = Instant::now();
        refusals.push(fleet.client().websocket("/").await.refused());
        times.push(start.elapsed());
    }
    times.sort_unstable();
    (refusals, times[2])
}

fn assert_typed(refusals: &[Refused], reason: &str) {
    for refused in refusals {
        assert_eq!(
            (refused.status, refused.reason.as_deref()),
            (503, Some(reason))
        );
        assert_eq!(refused.retry_after_s, Some(1));
    }
}

/// Clients come in again.
async fn assert_recovers(fleet: &RunningFleet) {
    eventually("clients are admitted again", async || {
        let (admitted, _) = harness::split(vec![fleet.client().websocket("/").await]);
        !admitted.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_dead_sidecar_is_an_outage_until_it_is_back() {
    let mut fleet = Fleet::new().impatient().max_concurrent(10).up().await;
    let mut session = fleet.client().websocket("/").await.admitted();
    fleet.sidecars[0].process.kill();
    let (refusals, median) = five_refusals(&fleet).await;
    assert_typed(&refusals, "outage");
    assert!(median <= BUDGET, "refused after {median:?}");
    assert!(session.echoes("the session goes on").await);
    assert_eq!(
        fleet.client().get("/").await.status(),
        200,
        "no lease, no outage"
    );

    fleet.sidecars[0].restart().await;
    assert_recovers(&fleet).await;
    assert!(session.echoes("and on").await);
    let one_left = |pool: &PoolView| pool.active == 1;
    fleet
        .sees("nothing but the living session holds a place", one_left)
        .await;
}

#[tokio::test]
async fn a_session_that_ends_while_the_sidecar_is_dead_gives_its_place_back_later() {
    let mut fleet = Fleet::new().impatient().max_concurrent(1).up().await;
    let session = fleet.client().websocket("/").await.admitted();
    fleet.sidecars[0].process.kill();
    session.close().await;
    fleet.sidecars[0].restart().await;
    fleet
        .sees("the place is free", |pool| pool.active == 0)
        .await;
    fleet.client().websocket("/").await.admitted();
}

#[tokio::test]
async fn a_frozen_sidecar_is_an_outage_within_the_budget() {
    let fleet = Fleet::new().impatient().max_concurrent(10).up().await;
    let mut session = fleet.client().websocket("/").await.admitted();
    fleet.sidecars[0].process.freeze().await;
    let (refusals, median) = five_refusals(&fleet).await;
    assert_typed(&refusals, "outage");
    assert!(median <= BUDGET + SLACK, "refused after {median:?}");
    assert!(session.echoes("the session goes on").await);

    fleet.sidecars[0].process.thaw();
    assert_recovers(&fleet).await;
    let one_left = |pool: &PoolView| pool.active == 1;
    fleet
        .sees("what was asked for and given up holds no place", one_left)
        .await;
}

#[tokio::test]
async fn the_watchdog_answers_when_the_sidecar_may_take_for_ever() {
    let fleet = Fleet::new()
        .impatient()
        .filter(|filter| {
            filter["ask_timeout_ms"] = 10_000.into();
            filter["watchdog_ms"] = 300.into();
        })
        .up()
        .await;
    fleet.sidecars[0].process.freeze().await;
    let (refusals, median) = five_refusals(&fleet).await;
    assert_typed(&refusals, "overdue");
    assert!(median <= 2 * BUDGET + SLACK, "refused after {median:?}");
    fleet.sidecars[0].process.thaw();
    fleet
        .sees("what was given up holds no place", |pool| pool.active == 0)
        .await;
    assert_recovers(&fleet).await;
}

#[tokio::test]
async fn a_frozen_redis_is_an_outage_within_the_budget() {
    let fleet = Fleet::new().impatient().max_concurrent(10).up().await;
    let mut session = fleet.client().websocket("/").await.admitted();
    fleet.redis.process.freeze().await;
    let (refusals, median) = five_refusals(&fleet).await;
    assert_typed(&refusals, "outage");
    assert!(median <= BUDGET + SLACK, "refused after {median:?}");
    assert!(session.echoes("the session goes on").await);

    fleet.redis.process.thaw();
    assert_recovers(&fleet).await;
    let one_left = |pool: &PoolView| pool.active == 1;
    fleet
        .sees("what was asked for and given up holds no place", one_left)
        .await;
}

#[tokio::test]
async fn a_dead_redis_is_an_outage_until_it_is_back() {
    let mut fleet = Fleet::new().impatient().max_concurrent(10).up().await;
    let mut session = fleet.client().websocket("/").await.admitted();
    fleet.redis.process.kill();
    let (refusals, median) = five_refusals(&fleet).await;
    assert_typed(&refusals, "outage");
    assert!(median <= BUDGET + SLACK, "refused after {median:?}");
    assert!(session.echoes("the session goes on").await);

    // It comes back empty: pools and workers introduce themselves again.
    fleet.redis.restart().await;
    assert_recovers(&fleet).await;
    assert!(session.echoes("and on").await);
}

#[tokio::test]
async fn an_outage_at_one_envoy_does_not_concern_the_other() {
    let fleet = Fleet::new()
        .impatient()
        .envoys(2)
        .max_concurrent(10)
        .up()
        .await;
    fleet.sidecars[0].process.kill();
    let refused = fleet.envoys[0].client().websocket("/").await.refused();
    assert_eq!(refused.reason.as_deref(), Some("outage"));
    fleet.envoys[1].client().websocket("/").await.admitted();
}
