use crate::support::{Clock, Pool, eventually};
use admission::message::{Admitted, DenyReason, Use};
use admission::outcome::Outcome;
use redis_sidecar::view::WorkerState;

/// Long enough that an exile ends only when a test waits for it.
const EJECTION_MS: u64 = 300;

async fn pool_with_worker() -> Pool {
    let pool = Pool::with(|policy| policy.ejection_ms = EJECTION_MS).await;
    pool.register("w1", "a").await;
    pool
}

async fn fail(pool: &Pool, lease: &Admitted) {
    pool.release_as(&lease.lease, Use::Unused, Outcome::ConnectFailed)
        .await;
}

async fn next_probe(pool: &Pool) -> Admitted {
    eventually(async || {
        pool.reap().await;
        pool.worker("w1").await.state == WorkerState::Available
    })
    .await;
    pool.admit().await
}

#[tokio::test]
async fn an_unreachable_worker_is_exiled() {
    let pool = pool_with_worker().await;
    let lease = pool.admit().await;
    fail(&pool, &lease).await;
    assert_eq!(pool.worker("w1").await.state, WorkerState::Ejected);
    assert_eq!(pool.denied().await, DenyReason::NoWorker);
    assert_eq!(pool.view().await.head.ejections_total, 1);
}

#[tokio::test]
async fn other_failures_do_not_exile() {
    let pool = pool_with_worker().await;
    for outcome in [
        Outcome::Warning,
        Outcome::Reset,
        Outcome::Timeout,
        Outcome::Unknown,
    ] {
        let lease = pool.admit().await;
        pool.release_as(&lease.lease, Use::Used, outcome).await;
    }
    assert_eq!(pool.worker("w1").await.state, WorkerState::Available);
}

#[tokio::test]
async fn after_its_exile_a_worker_gets_one_probe_and_no_more() {
    let pool = pool_with_worker().await;
    let lease = pool.admit().await;
    fail(&pool, &lease).await;
    let probe = next_probe(&pool).await;
    assert!(probe.probe);
    assert_eq!(pool.denied().await, DenyReason::NoWorker);
}

#[tokio::test]
pub(crate) async fn an_exile_is_over_for_the_next_who_asks_though_nobody_reaps() {
    let pool = pool_with_worker().await;
    let lease = pool.admit().await;
    fail(&pool, &lease).await;
    let mut clock = Clock::of(&pool.redis, &pool.name).await;
    clock.advance(EJECTION_MS as f64).await;
    assert!(pool.admit().await.probe);
}

#[tokio::test]
async fn a_probe_that_succeeds_brings_the_worker_back_at_once() {
    let pool = pool_with_worker().await;
    let lease = pool.admit().await;
    fail(&pool, &lease).await;
    let probe = next_probe(&pool).await;
    pool.observe(&probe.lease, Outcome::Success).await;
    assert!(!pool.admit().await.probe);
}

#[tokio::test]
async fn a_probe_that_fails_exiles_anew() {
    let pool = pool_with_worker().await;
    let lease = pool.admit().await;
    fail(&pool, &lease).await;
    let probe = next_probe(&pool).await;
    fail(&pool, &probe).await;
    assert_eq!(pool.worker("w1").await.state, WorkerState::Ejected);
    assert_eq!(pool.view().await.head.ejections_total, 2);
}

#[tokio::test]
async fn news_from_before_the_exile_changes_nothing() {
    let pool = pool_with_worker().await;
    let (first, second) = (pool.admit().await, pool.admit().await);
    fail(&pool, &first).await;
    fail(&pool, &second).await;
    assert_eq!(
        pool.view().await.head.ejections_total,
        1,
        "one failure, seen twice"
    );

    let pool = pool_with_worker().await;
    let (first, second) = (pool.admit().await, pool.admit().await);
    fail(&pool, &first).await;
    pool.release(&second.lease).await;
    assert_eq!(
        pool.worker("w1").await.state,
        WorkerState::Ejected,
        "an old session ended well"
    );
}

#[tokio::test]
async fn a_new_incarnation_is_not_exiled_for_the_old_one() {
    let pool = pool_with_worker().await;
    let lease = pool.admit().await;
    fail(&pool, &lease).await;
    pool.register("w1", "b").await;
    assert!(!pool.admit().await.probe);
}
