//! The pools that are asked: one for each strategy and size, and those of the scan.

use super::private_redis::Redis;
use super::{Result, SCAN, SEWT_BY_SIZE, SHADOWS};
use admission::id::{Address, Incarnation, PoolName, WorkerId};
use admission::message::{HeartbeatRequest, RegisterRequest};
use admission::policy::{Policy, Strategy};
use futures_util::{TryStreamExt, stream};
use redis_sidecar::library::{KeysOf, Library, Source, Verb};
use redis_sidecar::store::Store;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

const ENROLLED_AT_ONCE: usize = 64;

/// A decision without its lease, beside the real verbs' modules.
const CHOOSE: Verb = Verb {
    source: Source {
        name: "choose",
        code: include_str!("choose.lua"),
    },
    flag: None,
    keys: KeysOf::Pool,
};

/// Something to measure: a script on a pool of some size.
pub(super) struct Subject {
    pub(super) strategy: String,
    pub(super) workers: usize,
    /// How redis-benchmark calls it.
    pub(super) call: [String; 2],
    pub(super) keys: Vec<String>,
    pub(super) rates: Vec<f64>,
}

/// The strategies, `sewt` once with one size of requests and once with the three it has by default.
pub(super) fn policies() -> Vec<(String, Policy)> {
    let policy = |strategy| Policy {
        strategy,
        max_lifetime: 1_000_000,
        heartbeat_ttl_ms: 86_400_000,
        forget_ms: 86_400_000,
        rebuild_ms: 0,
        ..Policy::default()
    };
    let mut policies: Vec<_> = (Strategy::ALL.into_iter())
        .map(|strategy| (strategy.as_str().to_owned(), policy(strategy)))
        .collect();
    for (name, policy) in &mut policies {
        if name == "sewt" {
            policy.sewt.size_buckets.clear();
        }
    }
    policies.push((SEWT_BY_SIZE.into(), policy(Strategy::Sewt)));
    // What a strategy in the shadow costs is told beside round_robin alone.
    for (name, shadow) in SHADOWS {
        let mut watched = policy(Strategy::RoundRobin);
        watched.sewt.size_buckets.clear();
        watched.shadow_strategy = Some(shadow);
        policies.push((name.into(), watched));
    }
    policies
}

/// A pool of its own for each strategy and size.
pub(super) async fn index_subject(
    redis: &Redis,
    name: &str,
    policy: &Policy,
    workers: usize,
) -> Result<Subject> {
    let strategy = policy.strategy;
    let pool = PoolName::parse(&format!("{name}-{workers}").replace(['+', ' '], "-"))?;
    let pools = BTreeMap::from([(pool.clone(), policy.clone())]);
    let store = Store::start(&redis.settings(), pools)?;
    while store.apply_pools().await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let numbers = stream::iter((0..workers).map(Ok));
    let enrol = |number| enrol(&store, &pool, strategy, number);
    numbers
        .try_for_each_concurrent(ENROLLED_AT_ONCE, enrol)
        .await?;
    let library = Library::new(&[CHOOSE]);
    load(redis, &["FUNCTION", "LOAD", "REPLACE", library.text()]).await?;
    Ok(Subject {
        strategy: name.to_owned(),
        workers,
        call: ["fcall".into(), library.function("choose")],
        keys: redis_sidecar::pool_keys(&pool).into(),
        rates: Vec::new(),
    })
}

async fn enrol(store: &Store, pool: &PoolName, strategy: Strategy, number: usize) -> Result<()> {
    let request = RegisterRequest {
        address: Address::parse("10.0.0.1:80")?,
        incarnation: Incarnation::parse("a")?,
        max_concurrent: None,
        weight: 1.0,
        lifetime: None,
        origin: None,
    };
    let worker = WorkerId::parse(&format!("worker-{number}"))?;
    store.register(pool, &worker, &request).await?;
    if strategy == Strategy::Score {
        store.heartbeat(pool, &worker, &report()?).await?;
    }
    Ok(())
}

/// A worker with all its room free, for the strategy that chooses by it.
fn report() -> Result<HeartbeatRequest> {
    let request = json!({"incarnation": "a", "report": {"status": "SERVING",
        "maxHttpSessions": 100, "maxOpenConns": 100, "maxTransactionConns": 100,
        "p95LatencyMs": 10.0, "uptimeSec": 300.0}});
    Ok(serde_json::from_value(request)?)
}

pub(super) async fn scan_subject(redis: &Redis, workers: usize) -> Result<Subject> {
    let keys = vec![
        format!("scan:{{{workers}}}:active"),
        format!("scan:{{{workers}}}:worker:"),
    ];
    let mut connection = redis.connection().await;
    let mut pipe = redis::pipe();
    for number in 0..workers {
        let (worker, figures) = (
            format!("worker-{number}"),
            format!("{}worker-{number}", keys[1]),
        );
        pipe.hset(&keys[0], worker, 0).ignore();
        let fields = [
            ("status", "available"),
            ("lifetime", "5"),
            ("heartbeat", "1"),
        ];
        pipe.hset_multiple(figures, &fields).ignore();
    }
    pipe.exec_async(&mut connection).await?;
    Ok(Subject {
        strategy: SCAN.into(),
        workers,
        call: [
            "evalsha".into(),
            load(redis, &["SCRIPT", "LOAD", include_str!("scan.lua")]).await?,
        ],
        keys,
        rates: Vec::new(),
    })
}

async fn load(redis: &Redis, command: &[&str]) -> Result<String> {
    let mut connection = redis.connection().await;
    let (name, arguments) = command.split_first().ok_or("no command")?;
    Ok(redis::cmd(name)
        .arg(arguments)
        .query_async(&mut connection)
        .await?)
}
