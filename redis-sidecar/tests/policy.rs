use crate::support::{Pool, default_policy, eventually, library};
use admission::id::PoolName;
use admission::message::DenyReason;
use admission::policy::Policy;

#[tokio::test]
async fn a_new_policy_takes_effect_at_the_next_decision_and_loses_no_lease() {
    let pool = Pool::with(|policy| policy.max_concurrent = 1).await;
    pool.register("w1", "a").await;
    pool.admit().await;
    assert_eq!(pool.denied().await, DenyReason::PoolFull);
    let wider = Policy {
        max_concurrent: 3,
        ..default_policy()
    };
    assert_eq!(pool.store.apply(&pool.name, &wider).await.unwrap(), 2);
    assert_eq!(pool.admit().await.active, 2);
    assert_eq!(pool.view().await.head.active, 2);
}

#[tokio::test]
async fn the_same_policy_again_changes_nothing() {
    let pool = Pool::with(|_| {}).await;
    assert_eq!(
        pool.store
            .apply(&pool.name, &default_policy())
            .await
            .unwrap(),
        1
    );
}

#[tokio::test]
async fn a_lowered_lifetime_limit_recycles_who_is_above_it() {
    let pool = Pool::with(|policy| policy.max_concurrent = 9).await;
    pool.register("w1", "a").await;
    for _ in 0..3 {
        pool.admit().await;
    }
    let lower = Policy {
        max_lifetime: 2,
        max_concurrent: 9,
        ..default_policy()
    };
    pool.store.apply(&pool.name, &lower).await.unwrap();
    assert_eq!(pool.denied().await, DenyReason::NoWorker);
    assert_eq!(pool.view().await.head.at_limit, 1);
}

#[tokio::test]
async fn a_pool_that_redis_lost_is_put_back() {
    let pool = Pool::with(|_| {}).await;
    pool.redis.command(&["FLUSHALL"]).await;
    assert_eq!(pool.denied().await, DenyReason::NoWorker);
    pool.register("w1", "a").await;
    pool.admit().await;
}

#[tokio::test]
async fn a_library_that_redis_lost_is_put_back() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    pool.redis.command(&["FUNCTION", "FLUSH"]).await;
    pool.admit().await;
}

#[tokio::test]
async fn a_longer_heartbeat_ttl_brings_the_absent_back_in_order() {
    let pool = Pool::with(|policy| policy.heartbeat_ttl_ms = 100).await;
    pool.register("w1", "a").await;
    eventually(async || {
        pool.reap().await;
        pool.view().await.head.fresh == 0
    })
    .await;
    let longer = Policy {
        heartbeat_ttl_ms: 86_400_000,
        forget_ms: 86_400_000,
        ..default_policy()
    };
    pool.store.apply(&pool.name, &longer).await.unwrap();
    let view = pool.view().await;
    assert_eq!((view.head.fresh, view.head.open), (1, 1));
    pool.admit().await;
}

#[tokio::test]
async fn a_full_redis_still_takes_places_back() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let lease = pool.admit().await.lease;
    pool.redis
        .command(&["CONFIG", "SET", "maxmemory", "1"])
        .await;
    assert!(
        pool.store
            .admit(&pool.question(&pool.mint()))
            .await
            .is_err()
    );
    assert_eq!(pool.release(&lease).await.released, 1);
    pool.heartbeat("w1", "a").await;
    pool.reap().await;
    assert_eq!(pool.view().await.head.active, 0);
}

#[tokio::test]
async fn a_call_by_hand_with_too_few_keys_harms_no_later_one() {
    let pool = Pool::with(|_| {}).await;
    let other = PoolName::parse("other").expect("a name");
    let reap = library().function("reap");
    let run_id = pool.redis.run_id().await;
    let call = ["FCALL", &reap, "1", "ws:{other}:pool", &run_id];
    pool.redis.refused(&call).await;
    let policy = default_policy();
    let applied = pool.store.apply(&other, &policy).await;
    assert_eq!(applied.expect("a policy"), 1);
}
