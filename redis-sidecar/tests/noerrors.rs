//! Chance by karma among those with the fewest errors.

use crate::support::{Pool, chi_square, id, registration};
use admission::message::Use;
use admission::outcome::Outcome;
use admission::policy::Strategy;
use redis_sidecar::explain::ExplainRequest;
use std::collections::BTreeMap;

async fn pool() -> Pool {
    Pool::with(|policy| {
        policy.strategy = Strategy::Noerrors;
        policy.max_concurrent = 1000;
        policy.max_lifetime = 0;
        policy.heartbeat_ttl_ms = 86_400_000;
        policy.forget_ms = 86_400_000;
    })
    .await
}

/// A worker that has answered like this. Only it is in service meanwhile.
async fn teach(pool: &Pool, worker: &str, good: usize, warnings: usize, hard: usize) {
    pool.register(worker, "a").await;
    let outcomes = std::iter::repeat_n(Outcome::Success, good)
        .chain(std::iter::repeat_n(Outcome::Warning, warnings))
        .chain(std::iter::repeat_n(Outcome::Reset, hard));
    for outcome in outcomes {
        let lease = pool.admit().await.lease;
        pool.release_as(&lease, Use::Used, outcome).await;
    }
    pool.store
        .remove(&pool.name, &id(worker))
        .await
        .expect("a worker");
}

/// How often each is chosen, all being in service; nothing is learned meanwhile.
async fn draw(pool: &Pool, workers: &[&str], draws: usize) -> BTreeMap<String, f64> {
    for worker in workers {
        pool.register(worker, "a").await;
    }
    let mut counts = BTreeMap::new();
    for _ in 0..draws {
        let admitted = pool.admit().await;
        *counts.entry(admitted.worker.to_string()).or_default() += 1.0;
        pool.release_as(&admitted.lease, Use::Unused, Outcome::Unknown)
            .await;
    }
    counts
}

fn names(counts: &BTreeMap<String, f64>) -> Vec<&str> {
    counts.keys().map(String::as_str).collect()
}

#[tokio::test]
async fn the_lowest_ratio_of_hard_errors_wins() {
    let pool = pool().await;
    teach(&pool, "tenth", 9, 0, 1).await;
    teach(&pool, "twentieth", 19, 0, 1).await;
    let counts = draw(&pool, &["tenth", "twentieth"], 40).await;
    assert_eq!(names(&counts), ["twentieth"]);
}

#[tokio::test]
async fn three_percent_are_none_and_warnings_break_the_tie() {
    let pool = pool().await;
    teach(&pool, "almost-clean", 97, 0, 3).await;
    teach(&pool, "clean", 10, 0, 0).await;
    teach(&pool, "warned", 9, 1, 0).await;
    let counts = draw(&pool, &["almost-clean", "clean", "warned"], 60).await;
    assert_eq!(names(&counts), ["almost-clean", "clean"]);
}

#[tokio::test]
async fn errors_are_forgotten_with_the_window() {
    let pool = pool().await;
    teach(&pool, "failed", 1, 0, 1).await;
    teach(&pool, "clean", 1, 0, 0).await;
    assert_eq!(
        names(&draw(&pool, &["failed", "clean"], 40).await),
        ["clean"]
    );
    pool.clock().await.advance(60_000.0).await;
    let counts = draw(&pool, &["failed", "clean"], 40).await;
    assert_eq!(names(&counts), ["clean", "failed"]);
}

#[tokio::test]
async fn without_a_success_a_worker_waits_for_the_last_resort() {
    let pool = pool().await;
    for worker in ["w1", "w2", "w3"] {
        pool.register(worker, "a").await;
    }
    let mut leases = Vec::new();
    for _ in 0..30 {
        leases.push(pool.admit().await);
    }
    // The window passes without a heartbeat; then all that is seen are failures.
    pool.clock().await.advance(120_000.0).await;
    for admitted in &leases {
        pool.release_as(&admitted.lease, Use::Used, Outcome::Timeout)
            .await;
    }
    let explanation = pool.explain(&ExplainRequest::default()).await;
    for shown in &explanation.workers {
        assert_eq!(shown.inputs["hard_ratio"], 2.0, "{shown:?}");
    }
    // Nobody is left: all alike.
    let mut counts = BTreeMap::new();
    for _ in 0..3000 {
        let admitted = pool.admit().await;
        *counts.entry(admitted.worker.to_string()).or_default() += 1.0;
        pool.release_as(&admitted.lease, Use::Unused, Outcome::Unknown)
            .await;
    }
    let alike = [("w1", 1.0), ("w2", 1.0), ("w3", 1.0)];
    // Two degrees of freedom: one in a thousand is above 13.8.
    assert!(chi_square(&counts, &alike) < 13.8, "{counts:?}");

    // A heartbeat ends it: a sign of life is as good as a success here, but in no ratio.
    pool.heartbeat("w2", "a").await;
    let chosen = pool.admit().await.worker;
    assert_eq!(chosen.as_str(), "w2");
}

#[tokio::test]
async fn behind_the_preferred_ones_the_draw_is_by_weight_too() {
    let pool = pool().await;
    for (worker, limit, weight) in [("clean", Some(1), 1.0), ("b", None, 9.0), ("c", None, 1.0)] {
        pool.register_as(worker, &registration("a", limit, weight))
            .await;
        if worker != "clean" {
            continue;
        }
        // It stays busy while the others fail.
        pool.admit().await;
    }
    let mut failing = Vec::new();
    for _ in 0..40 {
        failing.push(pool.admit().await.lease);
    }
    for lease in &failing {
        pool.release_as(lease, Use::Used, Outcome::Timeout).await;
    }
    // The clean one comes and goes, and is chosen in between.
    let epoch = pool.holder.epoch.clone();
    let mut clean = admission::id::LeaseId { epoch, seq: 1 };
    let mut counts = BTreeMap::new();
    for _ in 0..1000 {
        let admitted = pool.admit().await;
        *counts.entry(admitted.worker.to_string()).or_default() += 1.0;
        pool.release_as(&admitted.lease, Use::Unused, Outcome::Unknown)
            .await;
        pool.release_as(&clean, Use::Used, Outcome::Success).await;
        let back = pool.admit().await;
        assert_eq!(back.worker.as_str(), "clean");
        clean = back.lease;
    }
    // One degree of freedom: one in a thousand is above 10.8.
    let chances = [("b", 9.0), ("c", 1.0)];
    assert!(chi_square(&counts, &chances) < 10.8, "{counts:?}");
}
