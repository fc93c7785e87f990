use crate::support::{Pool, eventually, id, registration};
use admission::message::{Advice, DenyReason, RegisterRequest};
use admission::policy::Strategy;
use redis_sidecar::view::WorkerState;

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
async fn a_removed_worker_is_out_of_sight_with_its_last_lease() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let lease = pool.admit().await.lease;
    pool.store.remove(&pool.name, &id("w1")).await.unwrap();
    pool.release(&lease).await;
    assert!(pool.view().await.workers.is_empty());
}

#[tokio::test]
async fn leaving_and_returning_in_the_same_life_does_not_renew_the_lifetime() {
    let pool = Pool::with(|policy| policy.max_lifetime = 3).await;
    pool.register("w1", "a").await;
    for _ in 0..2 {
        pool.release(&pool.admit().await.lease).await;
    }
    pool.store.remove(&pool.name, &id("w1")).await.unwrap();
    assert_eq!(pool.register("w1", "a").await.lifetime, 2);
    pool.admit().await;
    pool.store.remove(&pool.name, &id("w1")).await.unwrap();
    let answer = pool.register("w1", "a").await;
    assert_eq!((answer.advice, answer.lifetime), (Advice::Recycle, 3));
}

#[tokio::test]
async fn a_life_that_comes_back_still_has_its_leases() {
    let pool = Pool::with(|policy| policy.max_concurrent = 2).await;
    pool.register("w1", "b").await;
    let leases = [pool.admit().await.lease, pool.admit().await.lease];
    // A registration that was long on its way.
    pool.register("w1", "a").await;
    let answer = pool.register("w1", "b").await;
    assert_eq!((answer.active, answer.lifetime), (2, 2));
    assert_eq!(pool.denied().await, DenyReason::PoolFull);
    pool.register("w1", "a").await;
    pool.release(&leases[0]).await;
    assert_eq!(pool.register("w1", "b").await.active, 1);
    assert_eq!(pool.view().await.head.active, 1);
}

#[tokio::test]
async fn a_life_with_leases_is_remembered_however_often_the_worker_restarts() {
    let pool = Pool::with(|policy| policy.max_concurrent = 2).await;
    pool.register("w1", "life-1").await;
    pool.admit().await;
    pool.admit().await;
    for life in 2..=9 {
        pool.register("w1", &format!("life-{life}")).await;
    }
    assert_eq!(pool.register("w1", "life-1").await.active, 2);
    assert_eq!(pool.denied().await, DenyReason::PoolFull);
}

#[tokio::test]
async fn a_worker_whose_former_life_has_leases_is_not_forgotten() {
    let pool = Pool::with(|policy| {
        policy.heartbeat_ttl_ms = 50;
        policy.forget_ms = 50;
    })
    .await;
    pool.register("w1", "a").await;
    pool.admit().await;
    pool.register("w1", "b").await;
    eventually(async || {
        pool.reap().await;
        pool.view().await.head.fresh == 0
    })
    .await;
    pool.clock().await.advance(1000.0).await;
    pool.reap().await;
    assert_eq!(pool.register("w1", "a").await.active, 1);
}

#[tokio::test]
async fn a_former_life_that_was_removed_may_come_back() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let removed = pool.store.remove(&pool.name, &id("w1")).await;
    removed.expect("a worker");
    pool.register("w1", "b").await;
    assert_eq!(pool.register("w1", "a").await.advice, Advice::Serve);
    pool.admit().await;
}

#[tokio::test]
async fn a_worker_that_is_never_restarted_counts_up_to_what_can_be_kept() {
    let pool = Pool::with(|policy| {
        policy.strategy = Strategy::Random;
        policy.max_concurrent = 3;
        policy.max_lifetime = 0;
    })
    .await;
    let told = RegisterRequest {
        lifetime: Some(u64::from(u32::MAX) - 1),
        ..registration("a", None, 1.0)
    };
    pool.register_as("w1", &told).await;
    for _ in 1..=3 {
        pool.admit().await;
    }
    let worker = pool.worker("w1").await;
    assert_eq!((worker.active, worker.lifetime), (3, u64::from(u32::MAX)));
}
