//! How many commands a decision may make inside of its script. What the budget is today is written here; who
//! needs fewer lowers it.

use crate::support::{Pool, default_policy};
use admission::message::{AdmitRequest, AffinityRequest};
use admission::policy::{Policy, Strategy};
use serde_json::json;

/// By strategy: of an admission without any limit but the workers' own, and of a release.
const OF_STRATEGIES: [(Strategy, u64, u64); 8] = [
    (Strategy::Random, 9, 8),
    (Strategy::RoundRobin, 9, 8),
    (Strategy::LeastConnections, 10, 9),
    (Strategy::LifetimeFirst, 10, 9),
    (Strategy::Sewt, 14, 11),
    (Strategy::Score, 14, 11),
    (Strategy::Nodeads, 9, 8),
    (Strategy::Noerrors, 9, 8),
];
/// By strategy and the one in its shadow: of an admission with all limits, for a client, with an affinity
/// key that it binds.
const OF_EVERYTHING: [(Strategy, Strategy, u64); 4] = [
    (Strategy::Random, Strategy::LeastConnections, 15),
    (Strategy::RoundRobin, Strategy::Sewt, 19),
    (Strategy::Sewt, Strategy::Random, 20),
    (Strategy::LeastConnections, Strategy::Score, 20),
];

async fn pool_with(policy: Policy) -> Pool {
    let pool = Pool::with(|adjusted| *adjusted = policy).await;
    for worker in ["w1", "w2", "w3"] {
        pool.register(worker, "a").await;
        let report = json!({"status": "SERVING", "maxHttpSessions": 100, "maxOpenConns": 100,
            "maxTransactionConns": 100, "p95LatencyMs": 10.0, "uptimeSec": 300.0});
        let report = serde_json::from_value(report).expect("a report");
        pool.report(worker, "a", Some(report)).await;
    }
    pool
}

/// The commands inside of one script, without those that counting itself takes.
async fn calls_of(pool: &Pool, work: impl Future<Output = ()>) -> u64 {
    const THE_SCRIPT_ITSELF: u64 = 1;
    let nothing = pool.redis.count_calls(async {}).await;
    pool.redis.count_calls(work).await - nothing - THE_SCRIPT_ITSELF
}

async fn admission_calls(pool: &Pool, adjust: impl Fn(&mut AdmitRequest)) -> u64 {
    // The first makes its holder known.
    pool.admit_for(&adjust).await;
    let work = async {
        pool.admit_for(&adjust).await;
    };
    calls_of(pool, work).await
}

#[tokio::test]
async fn an_admission_and_a_release_keep_to_their_calls_under_every_strategy() {
    let mut beyond = Vec::new();
    for (strategy, admission_max, release_max) in OF_STRATEGIES {
        let pool = pool_with(Policy {
            strategy,
            max_concurrent: 100,
            ..default_policy()
        })
        .await;
        let admission = admission_calls(&pool, |_| {}).await;
        let lease = pool.admit().await.lease;
        let work = async {
            pool.served(&lease, 1000).await;
        };
        let release = calls_of(&pool, work).await;
        if admission > admission_max || release > release_max {
            beyond.push((strategy, admission, release));
        }
    }
    assert!(beyond.is_empty(), "{beyond:?}");
}

#[tokio::test]
async fn an_admission_with_everything_on_keeps_to_its_calls() {
    let mut beyond = Vec::new();
    for (strategy, shadow, calls_max) in OF_EVERYTHING {
        let policy = json!({
            "strategy": strategy, "shadow_strategy": shadow, "max_concurrent": 100, "rebuild_ms": 0,
            "global_conn": 1000, "requests": {"rate": "1000000/s", "burst": 1000},
            "client": {"max_concurrent": 100, "rate": "1000000/s", "burst": 1000},
        });
        let pool = pool_with(serde_json::from_value(policy).expect("a policy")).await;
        let calls = admission_calls(&pool, |request| {
            request.client = Some("tenant".into());
            request.affinity = Some(AffinityRequest {
                key: request.lease.to_string(),
                bind: true,
            });
        })
        .await;
        if calls > calls_max {
            beyond.push((strategy, shadow, calls));
        }
    }
    assert!(beyond.is_empty(), "{beyond:?}");
}
