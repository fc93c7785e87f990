mod support;

use admission::message::Advice;
use redis_sidecar::view::WorkerState;
use support::{Pool, id};

#[tokio::test]
async fn a_new_incarnation_starts_from_nothing_and_old_leases_stay_with_the_old_one() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let old = pool.admit().await.lease;
    pool.register("w1", "b").await;
    let new = pool.admit().await;
    assert_eq!((new.active, new.lifetime), (1, 1));
    pool.release(&old).await;
    assert_eq!(pool.worker("w1").await.active, 1);
    assert_eq!(pool.view().await.head.active, 1);
}

#[tokio::test]
async fn registering_again_in_the_same_incarnation_keeps_the_figures() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    pool.admit().await;
    let answer = pool.register("w1", "a").await;
    assert_eq!(
        (answer.advice, answer.active, answer.lifetime),
        (Advice::Serve, 1, 1)
    );
}

#[tokio::test]
async fn a_removed_worker_that_returns_in_the_same_incarnation_still_has_its_leases() {
    let pool = Pool::with(|policy| policy.max_concurrent = 1).await;
    pool.register("w1", "a").await;
    let lease = pool.admit().await.lease;
    assert_eq!(pool.store.remove(&pool.name, &id("w1")).await.unwrap(), 1);
    assert_eq!(pool.worker("w1").await.state, WorkerState::Removed);
    pool.register("w1", "a").await;
    pool.denied().await;
    pool.release(&lease).await;
    pool.admit().await;
}

#[tokio::test]
async fn a_removed_worker_is_forgotten_with_its_last_lease() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let lease = pool.admit().await.lease;
    pool.store.remove(&pool.name, &id("w1")).await.unwrap();
    pool.release(&lease).await;
    assert!(pool.view().await.workers.is_empty());
}
