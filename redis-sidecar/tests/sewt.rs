//! Shortest expected waiting time, driven to the figures of its worked examples.

use crate::support::{Pool, id, registration};
use admission::id::LeaseId;
use admission::message::{Admitted, Observation, Use};
use admission::outcome::Outcome;
use admission::policy::{ServiceTime, Strategy};

async fn pool_with(adjust: impl FnOnce(&mut admission::policy::Policy)) -> Pool {
    Pool::with(|policy| {
        policy.strategy = Strategy::Sewt;
        policy.max_concurrent = 100;
        policy.max_lifetime = 0;
        adjust(policy);
    })
    .await
}

/// Teaches a pool how long a worker takes. Only that worker is in service meanwhile.
async fn teach(pool: &Pool, worker: &str, ms: u64) {
    pool.register(worker, "a").await;
    pool.served(&pool.admit().await.lease, ms * 1000).await;
    pool.store
        .remove(&pool.name, &id(worker))
        .await
        .expect("a worker");
}

/// Gives a worker this many leases. Only that worker is in service meanwhile.
async fn load(pool: &Pool, worker: &str, leases: usize) {
    pool.register(worker, "a").await;
    for _ in 0..leases {
        pool.admit().await;
    }
    pool.store
        .remove(&pool.name, &id(worker))
        .await
        .expect("a worker");
}

async fn ask_for(pool: &Pool, bytes: u64) -> Admitted {
    pool.admit_for(|question| question.bytes = Some(bytes))
        .await
}

#[tokio::test]
async fn the_lowest_product_of_leases_and_time_wins() {
    let pool = pool_with(|_| {}).await;
    let workers = [("A", 5, 10), ("B", 10, 5), ("C", 50, 2), ("D", 100, 1)];
    for (worker, ms, leases) in workers {
        teach(&pool, worker, ms).await;
        load(&pool, worker, leases).await;
    }
    for (worker, ..) in workers {
        pool.register(worker, "a").await;
    }
    // 50, 50, 100 and 100: A was chosen least recently; then it costs 55 and B is the lowest.
    assert_eq!(pool.admit().await.worker.as_str(), "A");
    assert_eq!(pool.admit().await.worker.as_str(), "B");
}

#[tokio::test]
async fn of_the_idle_the_fastest_wins_and_equals_take_turns() {
    let pool = pool_with(|_| {}).await;
    for (worker, ms) in [("slow", 50), ("fast", 5)] {
        teach(&pool, worker, ms).await;
    }
    for worker in ["slow", "fast"] {
        pool.register(worker, "a").await;
    }
    assert_eq!(pool.admit().await.worker.as_str(), "fast");
    assert_eq!(
        pool.admit().await.worker.as_str(),
        "slow",
        "the idle cost nothing"
    );

    let pool = pool_with(|_| {}).await;
    for worker in ["w1", "w2", "w3"] {
        pool.register(worker, "a").await;
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        let admitted = pool.admit().await;
        order.push(admitted.worker.to_string());
        pool.served(&admitted.lease, 5000).await;
    }
    // Those of whom nothing is known are taken for fast, until they are known.
    assert_eq!(order.join(" "), "w1 w2 w3 w1 w2 w3");
}

#[tokio::test]
async fn a_larger_weight_takes_more() {
    let pool = pool_with(|_| {}).await;
    pool.register_as("large", &registration("a", None, 4.0))
        .await;
    pool.register_as("small", &registration("a", None, 1.0))
        .await;
    for _ in 0..50 {
        pool.admit().await;
    }
    assert_eq!(pool.worker("large").await.active, 40);
}

#[tokio::test]
async fn sizes_are_estimated_apart() {
    let pool = pool_with(|_| {}).await;
    for (worker, small_ms, large_ms) in [("A", 1, 900), ("B", 9, 90)] {
        pool.register(worker, "a").await;
        for (bytes, ms) in [(10, small_ms), (200 << 20, large_ms)] {
            let admitted = ask_for(&pool, bytes).await;
            pool.served(&admitted.lease, ms * 1000).await;
        }
        pool.store
            .remove(&pool.name, &id(worker))
            .await
            .expect("a worker");
    }
    pool.register("A", "a").await;
    pool.register("B", "a").await;
    assert_eq!(ask_for(&pool, 10).await.worker.as_str(), "A");
    pool.release(&LeaseId {
        seq: 5,
        ..pool.mint()
    })
    .await;
    assert_eq!(ask_for(&pool, 200 << 20).await.worker.as_str(), "B");
}

#[tokio::test]
async fn an_upgrade_is_timed_by_its_handshake_and_not_by_its_length() {
    for (service_time, mean_ms) in [(ServiceTime::Response, 7.0), (ServiceTime::Session, 3600.0)] {
        let pool = pool_with(|policy| policy.service_time = service_time).await;
        pool.register("w1", "a").await;
        let lease = pool.admit().await.lease;
        let observation = Observation {
            lease: lease.clone(),
            outcome: Outcome::Success,
            handshake_us: Some(7000),
        };
        let epoch = &pool.holder.epoch;
        pool.store
            .observe(&pool.name, epoch, &[observation])
            .await
            .expect("an observation");
        let mut release = crate::support::ended(&lease, Use::Used, Outcome::Success);
        release.session_us = Some(3_600_000);
        pool.release_with(release).await;
        assert_eq!(pool.worker("w1").await.mean_ms, mean_ms);
    }
}

#[tokio::test]
async fn failures_teach_no_time_and_totals_are_kept() {
    let pool = pool_with(|_| {}).await;
    pool.register("w1", "a").await;
    pool.served(&pool.admit().await.lease, 4000).await;
    let mut failed = crate::support::ended(&pool.admit().await.lease, Use::Used, Outcome::Warning);
    (failed.handshake_us, failed.session_us) = (Some(1), Some(1));
    pool.release_with(failed).await;
    let worker = pool.worker("w1").await;
    assert_eq!((worker.requests_total, worker.errors_total), (2, 1));
    assert_eq!(
        (worker.bytes_read_total, worker.bytes_written_total),
        (1, 2)
    );
    assert_eq!(worker.mean_ms, 4.0);
}

#[tokio::test]
async fn what_was_learned_survives_a_turn_to_another_strategy_and_back() {
    let pool = pool_with(|_| {}).await;
    for (worker, ms) in [("slow", 50), ("fast", 5)] {
        teach(&pool, worker, ms).await;
        pool.register(worker, "a").await;
    }
    let policy = pool.view().await.policy;
    for strategy in [Strategy::Random, Strategy::Sewt] {
        let other = admission::policy::Policy {
            strategy,
            ..policy.clone()
        };
        let version = pool.store.apply(&pool.name, &other).await;
        version.expect("a policy");
    }
    assert_eq!(pool.admit().await.worker.as_str(), "fast");
}

#[tokio::test]
async fn a_release_that_overtakes_its_observation_brings_the_handshake() {
    let pool = pool_with(|_| {}).await;
    pool.register("w1", "a").await;
    for observed in [true, false] {
        let lease = pool.admit().await.lease;
        if observed {
            pool.observe_in(&lease, Outcome::Success, Some(7000)).await;
        }
        let mut release = crate::support::ended(&lease, Use::Used, Outcome::Success);
        (release.upgrade_us, release.session_us) = (Some(7000), Some(9000));
        pool.release_with(release).await;
    }
    let figures = pool
        .redis
        .command(&["HGET", "ws:{demo}:live", "report:w1"])
        .await;
    assert_eq!(pool.worker("w1").await.mean_ms, 7.0, "{figures:?}");
    let explanation = pool.explain(&Default::default()).await;
    assert_eq!(explanation.workers[0].inputs["expected_ms"], 7.0);
}
