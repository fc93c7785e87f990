//! What a decision would be, and why, without deciding.

use crate::support::Pool;
use admission::policy::{Policy, Strategy};
use redis_sidecar::explain::ExplainRequest;

#[tokio::test]
async fn every_strategy_says_whom_it_would_choose_and_then_chooses_it() {
    for strategy in Strategy::ALL {
        if strategy == Strategy::Score {
            continue; // its workers must report: see score.rs
        }
        let pool = Pool::with(|policy| policy.strategy = strategy).await;
        for worker in ["w1", "w2", "w3"] {
            pool.register(worker, "a").await;
        }
        for _ in 0..5 {
            let explanation = pool.explain(&ExplainRequest::default()).await;
            assert_eq!(explanation.workers.len(), 3, "{strategy:?}");
            let chosen = pool.admit().await.worker;
            assert_eq!(explanation.chosen, Some(chosen), "{strategy:?}");
        }
    }
}

#[tokio::test]
async fn what_keeps_a_worker_out_is_named() {
    let pool = Pool::with(|policy| policy.max_concurrent = 1).await;
    pool.register("full", "a").await;
    pool.admit().await;
    pool.register("draining", "a").await;
    let name = admission::id::WorkerId::parse("draining").expect("a worker id");
    pool.store.drain(&pool.name, &name).await.expect("a worker");
    let explanation = pool.explain(&ExplainRequest::default()).await;
    let gates: Vec<_> = (explanation.workers.iter())
        .map(|shown| (shown.worker.as_str(), shown.gates.join(" "), shown.rank))
        .collect();
    assert_eq!(
        gates,
        [
            ("draining", "draining".into(), None),
            ("full", "full".into(), None)
        ]
    );
    assert_eq!(explanation.chosen, None);
    assert_eq!(
        explanation.why,
        "every worker is kept out: 1 draining, 1 full"
    );
}

#[tokio::test]
async fn an_empty_pool_says_so() {
    let pool = Pool::with(|_| {}).await;
    let explanation = pool.explain(&ExplainRequest::default()).await;
    assert_eq!(explanation.why, "the pool has no workers");
}

#[tokio::test]
async fn explaining_changes_nothing() {
    for strategy in [Strategy::Random, Strategy::Noerrors, Strategy::Sewt] {
        let pool = Pool::with(|policy: &mut Policy| policy.strategy = strategy).await;
        pool.register("w1", "a").await;
        pool.admit().await;
        let before = pool.redis.digest().await;
        pool.explain(&ExplainRequest::default()).await;
        assert_eq!(pool.redis.digest().await, before, "{strategy:?}");
    }
}

#[tokio::test]
async fn a_pool_without_a_fresh_worker_can_be_explained() {
    let pool = Pool::with(|policy| policy.heartbeat_ttl_ms = 50).await;
    pool.register("w1", "a").await;
    pool.clock().await.advance(1000.0).await;
    let explanation = pool.explain(&ExplainRequest::default()).await;
    assert_eq!(explanation.workers[0].gates, ["absent"]);
}
