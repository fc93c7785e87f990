//! The script that `make bench-choose` measures is no verb of its own: nothing else would notice that it broke.

use crate::support::Pool;
use admission::policy::Strategy;
use redis_sidecar::library::{KeysOf, Library, Source, Verb};
use serde_json::json;

const CHOOSE: Verb = Verb {
    source: Source {
        name: "choose",
        code: include_str!("../benches/choose/choose.lua"),
    },
    flag: None,
    keys: KeysOf::Pool,
};
/// Each worker is chosen, and chosen again when it has a lease.
const DECISIONS: usize = 8;

async fn decide(strategy: Strategy, shadow: Option<Strategy>) {
    let pool = Pool::with(|policy| {
        policy.strategy = strategy;
        policy.max_lifetime = 1000;
        policy.shadow_strategy = shadow;
    })
    .await;
    for worker in ["w1", "w2"] {
        pool.register(worker, "a").await;
        let report = json!({"status": "SERVING", "maxHttpSessions": 100, "maxOpenConns": 100,
            "maxTransactionConns": 100});
        let report = serde_json::from_value(report).expect("a report");
        pool.report(worker, "a", Some(report)).await;
    }
    let library = Library::new(&[CHOOSE]);
    let load = ["FUNCTION", "LOAD", library.text()];
    pool.redis.command(&load).await;
    let function = library.function("choose");
    let keys = redis_sidecar::pool_keys(&pool.name);
    let count = keys.len().to_string();
    let mut call = vec!["FCALL", function.as_str(), count.as_str()];
    call.extend(keys.iter().map(String::as_str));
    let server = pool.redis.run_id().await;
    call.push(&server);
    for _ in 0..DECISIONS {
        let answer = format!("{:?}", pool.redis.command(&call).await);
        assert!(
            answer.contains("chosen"),
            "{strategy:?} {shadow:?}: {answer}"
        );
    }
}

#[tokio::test]
async fn what_the_benchmark_of_choices_measures_decides_under_every_strategy() {
    for strategy in Strategy::ALL {
        decide(strategy, None).await;
    }
    decide(Strategy::RoundRobin, Some(Strategy::Sewt)).await;
    decide(Strategy::RoundRobin, Some(Strategy::Random)).await;
}
