//! Workers that cannot be reached, or that nobody hears of, get nothing new.

use harness::api::{PoolView, WorkerState};
use harness::load::Attempt;
use harness::{Fleet, Load, RunningFleet, Visit};
use std::time::Duration;

/// The worker that gets the next session.
async fn favourite(fleet: &RunningFleet) -> usize {
    let session = fleet.client().websocket("/").await.admitted();
    let index = fleet
        .workers
        .iter()
        .position(|worker| worker.id().as_str() == session.worker);
    session.close().await;
    fleet
        .sees("all places are free", |pool| pool.active == 0)
        .await;
    index.unwrap()
}

#[tokio::test]
async fn a_dead_worker_costs_at_most_two_percent_after_the_first_second() {
    let fleet = Fleet::new()
        .envoys(2)
        .workers(3)
        .max_concurrent(8)
        .up()
        .await;
    let dead = &fleet.workers[favourite(&fleet).await];
    dead.stop_serving().await;
    let load = Load {
        sessions: 500,
        every: Duration::from_millis(10),
        session: Duration::from_millis(5),
    };
    let attempts = load.drive(&fleet).await;
    let failed = |attempt: &&Attempt| attempt.refused.is_some();
    let first = attempts
        .iter()
        .find(failed)
        .expect("the dead worker was tried");
    let refused = first.refused.as_ref().unwrap();
    assert_eq!(
        (refused.status, &refused.reason),
        (503, &None),
        "a clean error of Envoy"
    );
    let late: Vec<_> = attempts
        .iter()
        .filter(|attempt| attempt.begun.as_secs() >= 1)
        .collect();
    let failures = late
        .iter()
        .filter(|attempt| attempt.refused.is_some())
        .count();
    assert!(
        failures * 50 <= late.len(),
        "{failures} of {} failed",
        late.len()
    );
    assert!(fleet.view().await.ejections_total >= 1);
    fleet
        .sees("no place is lost", |pool| pool.active == 0)
        .await;
    fleet.assert_consistent().await;
}

#[tokio::test]
async fn an_ejected_worker_that_comes_back_is_taken_in_again() {
    let fleet = Fleet::new()
        .policy(|policy| policy.ejection_ms = 200)
        .up()
        .await;
    fleet.workers[0].stop_serving().await;
    let refused = fleet.client().websocket("/").await.refused();
    assert_eq!((refused.status, refused.reason), (503, None));
    fleet
        .sees("it is ejected", |pool| pool.ejections_total == 1)
        .await;
    fleet.workers[0].resume_serving().await.unwrap();
    harness::eventually("it gets sessions again", async || {
        matches!(fleet.client().websocket("/").await, Visit::Admitted(_))
    })
    .await;
    let available = |pool: &PoolView| pool.available() == 1;
    fleet
        .sees("it is an ordinary worker again", available)
        .await;
}

#[tokio::test]
async fn while_ejected_a_worker_gets_nothing() {
    let fleet = Fleet::new()
        .policy(|policy| policy.ejection_ms = 20_000)
        .up()
        .await;
    fleet.workers[0].stop_serving().await;
    fleet.client().websocket("/").await.refused();
    let ejected = Some(WorkerState::Ejected);
    fleet
        .sees("it is ejected", |pool| pool.state("worker-1") == ejected)
        .await;
    fleet.workers[0].resume_serving().await.unwrap();
    let refused = fleet.client().websocket("/").await.refused();
    assert_eq!(refused.reason.as_deref(), Some("no_worker"));
    assert_eq!(fleet.workers[0].journal().opened_total(), 0);
}

#[tokio::test]
async fn a_worker_whose_heartbeats_end_gets_nothing_and_its_sessions_go_on() {
    let fleet = Fleet::new()
        .policy(|policy| policy.heartbeat_ttl_ms = 500)
        .up()
        .await;
    let mut session = fleet.client().websocket("/").await.admitted();
    fleet.workers[0].stop_heartbeats();
    let absent = Some(WorkerState::Absent);
    fleet
        .sees("it is absent", |pool| pool.state("worker-1") == absent)
        .await;
    let refused = fleet.client().websocket("/").await.refused();
    assert_eq!(
        (refused.status, refused.reason.as_deref()),
        (503, Some("no_worker"))
    );
    assert!(session.echoes("the session goes on").await);
    session.close().await;
    fleet
        .sees("its place is free", |pool| pool.active == 0)
        .await;
}

#[tokio::test]
async fn an_empty_pool_says_so() {
    let fleet = Fleet::new().workers(0).up().await;
    let refused = fleet.client().websocket("/").await.refused();
    assert_eq!(
        (refused.status, refused.reason.as_deref()),
        (503, Some("no_worker"))
    );
}
