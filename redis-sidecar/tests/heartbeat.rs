use crate::support::{Clock, Pool, eventually, id};
use admission::message::{Advice, DenyReason, Use};
use admission::outcome::Outcome;
use redis_sidecar::view::WorkerState;

#[tokio::test]
async fn a_worker_without_heartbeats_gets_nothing_new_and_returns_by_one() {
    let pool = Pool::with(|policy| policy.heartbeat_ttl_ms = 200).await;
    pool.register("w1", "a").await;
    let lease = pool.admit().await.lease;
    eventually(async || pool.worker("w1").await.state == WorkerState::Absent).await;
    assert_eq!(pool.denied().await, DenyReason::NoWorker);
    assert_eq!(pool.worker("w1").await.active, 1, "its sessions go on");
    assert_eq!(pool.heartbeat("w1", "a").await.advice, Advice::Serve);
    pool.admit().await;
    pool.release(&lease).await;
}

#[tokio::test]
pub(crate) async fn a_silent_worker_is_missed_by_the_next_who_asks_though_nobody_reaps() {
    const TTL_MS: u64 = 60_000;
    let pool = Pool::with(|policy| policy.heartbeat_ttl_ms = TTL_MS).await;
    assert_eq!(pool.denied().await, DenyReason::NoWorker);
    pool.register("w1", "a").await;
    let lease = pool.admit().await.lease;
    pool.release(&lease).await;
    let mut clock = Clock::of(&pool.redis, &pool.name).await;
    clock.advance(TTL_MS as f64 + 1.0).await;
    assert_eq!(pool.denied().await, DenyReason::NoWorker);
}

#[tokio::test]
async fn an_unknown_worker_or_incarnation_is_told_to_register() {
    let pool = Pool::with(|_| {}).await;
    assert_eq!(pool.heartbeat("w1", "a").await.advice, Advice::Register);
    pool.register("w1", "a").await;
    assert_eq!(pool.heartbeat("w1", "b").await.advice, Advice::Register);
    assert_eq!(pool.heartbeat("w1", "a").await.advice, Advice::Serve);
}

#[tokio::test]
async fn a_worker_at_its_limit_is_told_to_recycle_and_given_back_lifetime_does_not_undo_it() {
    let pool = Pool::with(|policy| policy.max_lifetime = 2).await;
    pool.register("w1", "a").await;
    pool.admit().await;
    let last = pool.admit().await.lease;
    assert_eq!(pool.heartbeat("w1", "a").await.advice, Advice::Recycle);
    pool.release_as(&last, Use::Unused, Outcome::Unknown).await;
    assert_eq!(pool.heartbeat("w1", "a").await.advice, Advice::Recycle);
    assert_eq!(pool.denied().await, DenyReason::NoWorker);
    pool.register("w1", "b").await;
    assert_eq!(pool.admit().await.lifetime, 1);
}

#[tokio::test]
async fn a_draining_worker_finishes_what_it_has() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let lease = pool.admit().await.lease;
    pool.store.drain(&pool.name, &id("w1")).await.unwrap();
    assert_eq!(pool.heartbeat("w1", "a").await.advice, Advice::Drain);
    assert_eq!(pool.denied().await, DenyReason::NoWorker);
    assert_eq!(pool.release(&lease).await.released, 1);
    assert_eq!(pool.denied().await, DenyReason::NoWorker);
}

#[tokio::test]
async fn workers_at_their_limit_at_once_are_counted() {
    let pool = Pool::with(|policy| policy.max_lifetime = 1).await;
    pool.register("w1", "a").await;
    pool.register("w2", "a").await;
    pool.admit().await;
    let view = pool.view().await;
    assert_eq!((view.head.at_limit, view.head.overlaps_total), (1, 0));
    pool.admit().await;
    let view = pool.view().await;
    assert_eq!((view.head.at_limit, view.head.overlaps_total), (2, 1));
    pool.register("w1", "b").await;
    let view = pool.view().await;
    assert_eq!((view.head.at_limit, view.head.recycles_total), (1, 2));
}

#[tokio::test]
async fn a_long_absent_worker_is_forgotten() {
    let pool = Pool::with(|policy| {
        policy.heartbeat_ttl_ms = 50;
        policy.forget_ms = 100;
    })
    .await;
    pool.register("w1", "a").await;
    eventually(async || {
        pool.reap().await;
        pool.view().await.workers.is_empty()
    })
    .await;
}
