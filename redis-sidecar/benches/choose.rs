//! Decisions per second against the number of workers, for every strategy, and for a selector that
//! reads all workers on every decision. Redis works alone: redis-benchmark asks it, through sixteen
//! connections and sixteen questions at a time. Rounds are interleaved, medians are told.
//!
//! Writes target/bench/choose.json. The machine's speed means nothing; the ratios do.

#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/support/redis.rs"]
mod private_redis;

use admission::id::{Address, Incarnation, PoolName, WorkerId};
use admission::message::RegisterRequest;
use admission::policy::{Policy, Strategy};
use private_redis::Redis;
use redis_sidecar::scripts;
use redis_sidecar::store::Store;
use serde_json::json;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
const ROUNDS: usize = 5;
/// Questions in one measurement: about a second for an index. The scan gets as many as it can do.
const QUESTIONS: u64 = 20_000;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

async fn connection(redis: &Redis) -> Result<redis::aio::MultiplexedConnection> {
    let client = redis::Client::open(redis.url())?;
    Ok(client.get_multiplexed_async_connection().await?)
}

/// Runs one script many times. Returns its rate.
fn measure(redis: &Redis, subject: &Subject, questions: u64) -> Result<f64> {
    let output = Command::new("redis-benchmark")
        .args(["-s", &redis.socket(), "-c", "16", "-P", "16", "--csv", "-n"])
        .arg(questions.to_string())
        .args(["evalsha", &subject.sha, &subject.keys.len().to_string()])
        .args(&subject.keys)
        .stderr(Stdio::null())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let fields = text.lines().next_back().unwrap_or_default().split("\",\"");
    let rate = fields.into_iter().nth(1).unwrap_or_default();
    let unread = |_| format!("redis-benchmark said {text:?}");
    Ok(rate.trim_matches('"').parse().map_err(unread)?)
}

/// Something to measure: a script on a pool of some size.
struct Subject {
    strategy: String,
    workers: usize,
    sha: String,
    keys: Vec<String>,
    rates: Vec<f64>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let redis = Redis::start();
    let mut subjects = Vec::new();
    for workers in SIZES {
        for strategy in Strategy::ALL {
            subjects.push(index_subject(&redis, strategy, workers).await?);
        }
        subjects.push(scan_subject(&redis, workers).await?);
        eprintln!("{workers} workers: ready");
    }
    for round in 1..=ROUNDS {
        for subject in &mut subjects {
            let questions = match subject.strategy.as_str() {
                "source_scan" => QUESTIONS * 2 / subject.workers as u64,
                _ => QUESTIONS,
            };
            let rate = measure(&redis, subject, questions.max(64))?;
            subject.rates.push(rate);
        }
        eprintln!("round {round} of {ROUNDS}: done");
    }
    report(&mut subjects)
}

/// A pool of its own for each strategy and size.
async fn index_subject(redis: &Redis, strategy: Strategy, workers: usize) -> Result<Subject> {
    let name = serde_json::to_value(strategy)?
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let pool = PoolName::parse(&format!("{name}-{workers}"))?;
    let policy = Policy {
        strategy,
        max_lifetime: 1_000_000,
        heartbeat_ttl_ms: 86_400_000,
        forget_ms: 86_400_000,
        ..Policy::default()
    };
    let pools = BTreeMap::from([(pool.clone(), policy)]);
    let store = Store::start(&redis.settings(), pools)?;
    while store.apply_pools().await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for number in 0..workers {
        let request = RegisterRequest {
            address: Address::parse("10.0.0.1:80")?,
            incarnation: Incarnation::parse("a")?,
            max_concurrent: None,
            weight: 1.0,
        };
        let worker = WorkerId::parse(&format!("worker-{number}"))?;
        store.register(&pool, &worker, &request).await?;
    }
    let admit = scripts::ADMIT.code;
    let shared = admit.split("-- admit: ").next().unwrap_or_default();
    Ok(Subject {
        strategy: name,
        workers,
        sha: load(redis, &format!("{shared}{}", include_str!("choose.lua"))).await?,
        keys: redis_sidecar::pool_keys(&pool).into(),
        rates: Vec::new(),
    })
}

async fn scan_subject(redis: &Redis, workers: usize) -> Result<Subject> {
    let keys = vec![
        format!("scan:{{{workers}}}:active"),
        format!("scan:{{{workers}}}:worker:"),
    ];
    let mut connection = connection(redis).await?;
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
        strategy: "source_scan".into(),
        workers,
        sha: load(redis, include_str!("scan.lua")).await?,
        keys,
        rates: Vec::new(),
    })
}

async fn load(redis: &Redis, script: &str) -> Result<String> {
    let mut connection = connection(redis).await?;
    Ok(redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(script)
        .query_async(&mut connection)
        .await?)
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
fn report(subjects: &mut [Subject]) -> Result<()> {
    let mut medians = BTreeMap::new();
    for subject in subjects.iter_mut() {
        let rate = median(&mut subject.rates);
        medians.insert((subject.strategy.clone(), subject.workers), rate);
    }
    let rate = |name: &str, workers: usize| medians.get(&(name.to_owned(), workers)).copied();
    println!(
        "decisions per second\n{:>18} {:>8} {:>8} {:>8} {:>8}   10000/10  1000/scan",
        "", 10, 100, 1000, 10_000
    );
    let names: std::collections::BTreeSet<_> = medians.keys().map(|(name, _)| name).collect();
    for name in names {
        let row: Vec<f64> = SIZES.iter().filter_map(|size| rate(name, *size)).collect();
        let over_scan = row[2] / rate("source_scan", 1_000).unwrap_or(f64::NAN);
        println!(
            "{name:>18} {:>8.0} {:>8.0} {:>8.0} {:>8.0} {:>10.2} {over_scan:>10.1}",
            row[0],
            row[1],
            row[2],
            row[3],
            row[3] / row[0]
        );
    }
    let list: Vec<_> = (medians.iter())
        .map(|((strategy, workers), rate)| json!({"strategy": strategy, "workers": workers, "per_second": rate.round()}))
        .collect();
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
    std::fs::create_dir_all(&target)?;
    std::fs::write(
        target.join("choose.json"),
        serde_json::to_string_pretty(&list)?,
    )?;
    Ok(())
}
