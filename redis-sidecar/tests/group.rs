use crate::support::Pool;
use admission::message::AdmitAnswer;
use redis_sidecar::store::Store;
use tokio::task::JoinSet;

const REQUESTS: u64 = 64;

/// How many calls so many requests take that come at once. All of them must get in.
async fn calls_of(pool: &Pool, store: &Store) -> u64 {
    pool.redis.command(&["CONFIG", "RESETSTAT"]).await;
    let mut asking = JoinSet::new();
    for _ in 0..REQUESTS {
        let (store, question) = (store.clone(), pool.question(&pool.mint()));
        asking.spawn(async move { store.admit(&question).await.expect("a decision") });
    }
    for answer in asking.join_all().await {
        assert!(matches!(answer, AdmitAnswer::Admitted(_)), "{answer:?}");
    }
    pool.redis.calls_of("fcall").await
}

#[tokio::test]
async fn admissions_that_come_at_once_go_by_few_calls() {
    let pool = Pool::with(|policy| policy.max_concurrent = REQUESTS as u32).await;
    pool.register("w1", "a").await;
    pool.admit().await;
    pool.register("w2", "a").await;
    let calls = calls_of(&pool, &pool.store).await;
    assert!((1..REQUESTS / 4).contains(&calls), "{calls} calls");
    assert_eq!(pool.view().await.head.active, REQUESTS + 1);
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn a_group_of_one_is_a_call_for_each() {
    let pool = Pool::with(|policy| policy.max_concurrent = REQUESTS as u32).await;
    pool.register("w1", "a").await;
    let alone = pool.store_with(|redis| redis.group_max = 1).await;
    assert_eq!(calls_of(&pool, &alone).await, REQUESTS);
}

#[tokio::test]
async fn whoever_happens_to_send_may_leave_and_the_others_are_answered() {
    let pool = Pool::with(|policy| policy.max_concurrent = REQUESTS as u32).await;
    pool.register("w1", "a").await;
    let ask = || {
        let (store, question) = (pool.store.clone(), pool.question(&pool.mint()));
        tokio::spawn(async move { store.admit(&question).await })
    };
    let (first, second) = (ask(), ask());
    tokio::task::yield_now().await; // both have joined, and nobody is answered yet
    first.abort();
    second.await.expect("a task").expect("a decision");
    pool.admit().await;
}
