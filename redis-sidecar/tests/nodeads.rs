//! Chance by karma among those that are not dead.

use crate::support::{Clock, Pool, chi_square, id};
use admission::message::Use;
use admission::outcome::Outcome;
use admission::policy::{KarmaRule, Policy, Strategy};
use redis_sidecar::explain::ExplainRequest;
use std::collections::BTreeMap;

const PERIOD_MS: f64 = 60_000.0;

async fn pool_with(adjust: impl FnOnce(&mut Policy)) -> Pool {
    Pool::with(|policy| {
        policy.strategy = Strategy::Nodeads;
        policy.max_concurrent = 1000;
        policy.max_lifetime = 0;
        policy.heartbeat_ttl_ms = 86_400_000;
        policy.forget_ms = 86_400_000;
        adjust(policy);
    })
    .await
}

async fn inputs(pool: &Pool, worker: &str) -> BTreeMap<String, f64> {
    let explanation = pool.explain(&ExplainRequest::default()).await;
    let found = (explanation.workers.into_iter()).find(|shown| shown.worker == id(worker));
    found.expect("a known worker").inputs
}

/// Each worker serves as often as chance has it, always in its own time; then the period ends.
async fn serve_a_period(pool: &Pool, clock: &mut Clock, times_ms: &[(&str, u64)]) {
    for _ in 0..100 {
        let admitted = pool.admit().await;
        let own = |(worker, _): &&(&str, u64)| *worker == admitted.worker.as_str();
        let (_, ms) = times_ms.iter().find(own).expect("a worker with a time");
        pool.served(&admitted.lease, ms * 1000).await;
    }
    clock.advance(PERIOD_MS).await;
    for (worker, _) in times_ms {
        pool.heartbeat(worker, "a").await;
    }
}

async fn shares<'a>(pool: &Pool, times_ms: &[(&'a str, u64)]) -> Vec<(&'a str, f64)> {
    let mut shares = Vec::new();
    for (worker, _) in times_ms {
        let karma = inputs(pool, worker).await["karma"];
        shares.push((*worker, karma / times_ms.len() as f64));
    }
    shares
}

/// Enough for the fastest to leave the second behind.
const PERIODS: usize = 8;

const TIMES_MS: [(&str, u64); 4] = [("w1", 10), ("w2", 5), ("w3", 30), ("w4", 3)];

#[tokio::test]
async fn one_period_of_10_5_30_and_3_ms_gives_15_30_5_and_50_percent() {
    let pool = pool_with(|_| {}).await;
    let mut clock = pool.clock().await;
    for (worker, _) in TIMES_MS {
        pool.register(worker, "a").await;
    }
    serve_a_period(&pool, &mut clock, &TIMES_MS).await;
    let shares = shares(&pool, &TIMES_MS).await;
    for ((worker, share), expected) in shares.iter().zip([0.15, 0.30, 0.05, 0.50]) {
        assert!((share - expected).abs() < 1e-9, "{worker}: {share}");
    }
    // And the choices follow.
    let mut counts = BTreeMap::new();
    for _ in 0..4000 {
        let admitted = pool.admit().await;
        *counts.entry(admitted.worker.to_string()).or_default() += 1.0;
        pool.release_as(&admitted.lease, Use::Used, Outcome::Unknown)
            .await;
    }
    // Three degrees of freedom: one in a thousand is above 16.3.
    assert!(chi_square(&counts, &shares) < 16.3, "{counts:?}");
}

#[tokio::test]
async fn shares_add_up_over_the_periods_and_nobody_starves() {
    for rule in [KarmaRule::Cumulative, KarmaRule::Memoryless] {
        let pool = pool_with(|policy| policy.karma.rule = rule).await;
        let mut clock = pool.clock().await;
        for (worker, _) in TIMES_MS {
            pool.register(worker, "a").await;
        }
        for _ in 0..PERIODS {
            serve_a_period(&pool, &mut clock, &TIMES_MS).await;
        }
        let shares = shares(&pool, &TIMES_MS).await;
        let expected = match rule {
            // The fastest takes all but the floor of the others.
            KarmaRule::Cumulative => [0.025, 0.025, 0.025, 0.925],
            KarmaRule::Memoryless => [0.15, 0.30, 0.05, 0.50],
        };
        for ((worker, share), expected) in shares.iter().zip(expected) {
            // Who is at the floor may go a period without being timed.
            assert!(
                (share - expected).abs() < 0.06,
                "{rule:?} {worker}: {share}"
            );
        }
    }
}

#[tokio::test]
async fn who_was_not_timed_keeps_its_share() {
    let pool = pool_with(|_| {}).await;
    let mut clock = pool.clock().await;
    for worker in ["fast", "slow"] {
        pool.register(worker, "a").await;
    }
    for _ in 0..50 {
        let admitted = pool.admit().await;
        let ms = if admitted.worker.as_str() == "fast" {
            1
        } else {
            3
        };
        pool.served(&admitted.lease, ms * 1000).await;
    }
    pool.register("new", "a").await;
    clock.advance(PERIOD_MS).await;
    for worker in ["fast", "slow", "new"] {
        pool.heartbeat(worker, "a").await;
    }
    let karma = async |worker| inputs(&pool, worker).await["karma"];
    assert_eq!(karma("new").await, 1.0);
    assert!((karma("fast").await - 1.5).abs() < 1e-9);
    assert!((karma("slow").await - 0.5).abs() < 1e-9);
}

/// Failures in a row, of one worker that is alone in its pool.
async fn fail(pool: &Pool, times: usize) {
    for _ in 0..times {
        let lease = pool.admit().await.lease;
        pool.release_as(&lease, Use::Used, Outcome::Timeout).await;
    }
}

#[tokio::test]
async fn the_fourth_failure_in_a_row_is_death_and_one_success_is_life() {
    let pool = pool_with(|_| {}).await;
    pool.register("bad", "a").await;
    fail(&pool, 3).await;
    pool.register("good", "a").await;
    let chosen = async || {
        let mut names = std::collections::BTreeSet::new();
        for _ in 0..40 {
            let admitted = pool.admit().await;
            names.insert(admitted.worker.to_string());
            pool.release_as(&admitted.lease, Use::Unused, Outcome::Unknown)
                .await;
        }
        names.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(chosen().await, "bad good", "three are tolerated");

    pool.store
        .remove(&pool.name, &id("good"))
        .await
        .expect("a worker");
    let last = pool.admit().await.lease;
    fail(&pool, 1).await;
    pool.register("good", "a").await;
    assert_eq!(chosen().await, "good", "the fourth kills");

    // A heartbeat lets it try again; one more failure and it is dead again.
    pool.heartbeat("bad", "a").await;
    assert_eq!(inputs(&pool, "bad").await["failures_in_a_row"], 3.0);
    assert_eq!(chosen().await, "bad good");
    pool.release_as(&last, Use::Used, Outcome::Warning).await;
    assert_eq!(chosen().await, "good", "a warning is no success");
}

#[tokio::test]
async fn when_all_are_dead_the_least_bad_is_chosen() {
    let pool = pool_with(|_| {}).await;
    for worker in ["bad", "worse"] {
        pool.register(worker, "a").await;
    }
    let mut leases: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for _ in 0..60 {
        let admitted = pool.admit().await;
        let held = leases.entry(admitted.worker.to_string()).or_default();
        held.push(admitted.lease);
    }
    for (worker, failures) in [("bad", 5), ("worse", 6)] {
        for lease in leases[worker].iter().take(failures) {
            pool.release_as(lease, Use::Used, Outcome::Timeout).await;
        }
    }
    for _ in 0..20 {
        let admitted = pool.admit().await;
        assert_eq!(admitted.worker.as_str(), "bad");
    }
}

#[tokio::test]
async fn the_same_outcome_told_twice_counts_once() {
    let pool = pool_with(|_| {}).await;
    pool.register("w1", "a").await;
    let lease = pool.admit().await.lease;
    pool.observe(&lease, Outcome::Warning).await;
    pool.release_as(&lease, Use::Used, Outcome::Warning).await;
    assert_eq!(inputs(&pool, "w1").await["failures_in_a_row"], 1.0);
    let lease = pool.admit().await.lease;
    pool.observe(&lease, Outcome::Success).await;
    assert_eq!(inputs(&pool, "w1").await["failures_in_a_row"], 0.0);
    pool.release_as(&lease, Use::Used, Outcome::Reset).await;
    assert_eq!(inputs(&pool, "w1").await["failures_in_a_row"], 1.0);
}

#[tokio::test]
async fn extreme_times_do_not_break_the_shares() {
    let pool = pool_with(|_| {}).await;
    let mut clock = pool.clock().await;
    for worker in ["at-once", "never"] {
        pool.register(worker, "a").await;
    }
    for _ in 0..20 {
        let admitted = pool.admit().await;
        let us = match admitted.worker.as_str() {
            "never" => 10u64.pow(17),
            _ => 0,
        };
        pool.served(&admitted.lease, us).await;
    }
    let removed = pool.store.remove(&pool.name, &id("at-once")).await;
    removed.expect("a worker");
    clock.advance(PERIOD_MS).await;
    pool.heartbeat("never", "a").await;
    let karma = inputs(&pool, "never").await["karma"];
    assert!((0.1..=2.0).contains(&karma), "{karma}");
}

#[tokio::test]
async fn another_rule_starts_from_equal_shares() {
    let pool = pool_with(|_| {}).await;
    let mut clock = pool.clock().await;
    let times_ms = [("fast", 1), ("slow", 9)];
    for (worker, _) in times_ms {
        pool.register(worker, "a").await;
    }
    serve_a_period(&pool, &mut clock, &times_ms).await;
    assert!(inputs(&pool, "fast").await["karma"] > 1.5);
    let mut policy = pool.view().await.policy;
    policy.karma.rule = KarmaRule::Memoryless;
    let applied = pool.store.apply(&pool.name, &policy).await;
    applied.expect("a policy");
    assert_eq!(inputs(&pool, "fast").await["karma"], 1.0);
    // What does not concern the shares leaves them alone.
    serve_a_period(&pool, &mut clock, &times_ms).await;
    let karma = inputs(&pool, "fast").await["karma"];
    policy.retry_after_ms += 1;
    let applied = pool.store.apply(&pool.name, &policy).await;
    applied.expect("a policy");
    assert_eq!(inputs(&pool, "fast").await["karma"], karma);
    assert!((karma - 1.8).abs() < 1e-9, "{karma}");
}
