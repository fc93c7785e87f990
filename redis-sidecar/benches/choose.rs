//! Decisions per second against the number of workers, for every strategy, and for a selector that
//! reads all workers on every decision. Redis works alone: redis-benchmark asks it, through sixteen
//! connections and sixteen questions at a time. Rounds are interleaved, medians are told.
//!
//! Writes target/bench/choose.json and choose.svg. The machine's speed means nothing; the ratios do.

#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/support/redis.rs"]
mod private_redis;

use admission::id::{Address, Incarnation, PoolName, WorkerId};
use admission::message::{HeartbeatRequest, RegisterRequest};
use admission::policy::{Policy, Strategy};
use futures_util::{TryStreamExt, stream};
use private_redis::Redis;
use redis_sidecar::library::{KeysOf, Library, Source, Verb};
use redis_sidecar::plot::{Chart, Scale, Series};
use redis_sidecar::store::Store;
use serde_json::json;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
const ROUNDS: usize = 5;
/// A round goes through the sizes as often, in bursts of as many questions: about a tenth of a second
/// for an index. The scan gets as many as it can do. All rounds together stay below three minutes.
const BURSTS: usize = 2;
const QUESTIONS: u64 = 5_000;
const ENROLLED_AT_ONCE: usize = 64;
const SEWT_BY_SIZE: &str = "sewt_by_size";
const SCAN: &str = "source_scan";
/// `round_robin` with another strategy in its shadow: one that ranks, and one that draws.
const SHADOWS: [(&str, Strategy); 2] = [
    ("+ shadow sewt", Strategy::Sewt),
    ("+ shadow random", Strategy::Random),
];
/// The size at which strategies are compared with the scan.
const COMPARED: usize = 1_000;
/// A decision among 10,000 workers is at least this fast against one among 10 …
const FLAT_MIN: f64 = 0.8;
/// … and among 1,000 it is at least as many times as fast as the scan: those that rank a worker in
/// three indexes half as many.
const OVER_SCAN_MIN: f64 = 60.0;
const OVER_SCAN_MIN_OF_THREE: f64 = 30.0;

/// A decision without its lease, beside the real verbs' modules.
const CHOOSE: Verb = Verb {
    source: Source {
        name: "choose",
        code: include_str!("choose.lua"),
    },
    flag: None,
    keys: KeysOf::Pool,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Runs one script many times. Returns its rate.
fn measure(redis: &Redis, subject: &Subject, questions: u64) -> Result<f64> {
    let output = Command::new("redis-benchmark")
        .args(["-s", &redis.socket(), "-c", "16", "-P", "16", "--csv", "-n"])
        .arg(questions.to_string())
        .args(&subject.call)
        .arg(subject.keys.len().to_string())
        .args(&subject.keys)
        .arg("bench") // which server this is: lua/lib/keys.lua
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let fields = text.lines().next_back().unwrap_or_default().split("\",\"");
    let rate = fields.into_iter().nth(1).unwrap_or_default();
    let said = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let unread = |_| {
        format!(
            "{}: redis-benchmark said {text:?} {}",
            subject.strategy,
            said()
        )
    };
    Ok(rate.trim_matches('"').parse().map_err(unread)?)
}

/// Something to measure: a script on a pool of some size.
struct Subject {
    strategy: String,
    workers: usize,
    /// How redis-benchmark calls it.
    call: [String; 2],
    keys: Vec<String>,
    rates: Vec<f64>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let redis = Redis::start();
    let mut subjects = Vec::new();
    for (name, policy) in policies() {
        for workers in SIZES {
            subjects.push(index_subject(&redis, &name, &policy, workers).await?);
        }
        eprintln!("{name}: pools are ready");
    }
    for workers in SIZES {
        subjects.push(scan_subject(&redis, workers).await?);
    }
    for round in 1..=ROUNDS {
        for subject in order(&subjects) {
            let questions = match subjects[subject].strategy.as_str() {
                SCAN => QUESTIONS * 4 / subjects[subject].workers as u64,
                _ => QUESTIONS,
            };
            let rate = measure(&redis, &subjects[subject], questions.max(64))?;
            subjects[subject].rates.push(rate);
        }
        eprintln!("round {round} of {ROUNDS}: done");
    }
    let change = measure_change(&redis).await?;
    tell(&mut subjects, change)
}

/// One round. A machine is fast now and slow a moment later, so what will be compared stands side by
/// side: bursts of a strategy's sizes, and among them the scan that all are measured against.
fn order(subjects: &[Subject]) -> Vec<usize> {
    let (scans, strategies): (Vec<usize>, Vec<usize>) =
        (0..subjects.len()).partition(|number| subjects[*number].strategy == SCAN);
    let (compared, others): (Vec<usize>, Vec<usize>) =
        (scans.into_iter()).partition(|number| subjects[*number].workers == COMPARED);
    let mut order = others;
    for sizes in strategies.chunks(SIZES.len()) {
        for _ in 0..BURSTS {
            order.extend(sizes.iter().chain(&compared));
        }
    }
    order
}

/// The strategies, `sewt` once with one size of requests and once with the three it has by default.
fn policies() -> Vec<(String, Policy)> {
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
async fn index_subject(
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

/// How long a large pool's change of policy takes: every worker is ranked anew in one call.
async fn measure_change(redis: &Redis) -> Result<Duration> {
    let workers = SIZES[SIZES.len() - 1];
    let pool = PoolName::parse(&format!("{}-{workers}", Strategy::Random.as_str()))?;
    let store = Store::start(&redis.settings(), BTreeMap::new())?;
    while !store.is_up() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut policy = store.view_page(&pool, "0").await?.policy;
    let mut times = Vec::new();
    for strategy in [
        Strategy::LeastConnections,
        Strategy::Sewt,
        Strategy::Noerrors,
        Strategy::RoundRobin,
        Strategy::Random,
    ] {
        policy.strategy = strategy;
        let started = Instant::now();
        store.apply(&pool, &policy).await?;
        times.push(started.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2])
}

async fn scan_subject(redis: &Redis, workers: usize) -> Result<Subject> {
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

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
fn tell(subjects: &mut [Subject], change: Duration) -> Result<()> {
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
    let mut missed = Vec::new();
    let names: std::collections::BTreeSet<_> = medians.keys().map(|(name, _)| name).collect();
    for name in names {
        let row: Vec<f64> = SIZES.iter().filter_map(|size| rate(name, *size)).collect();
        let over_scan = row[2] / rate(SCAN, COMPARED).unwrap_or(f64::NAN);
        let asked = match name.as_str() {
            SCAN => 0.0,
            // Watching has a price, and no promise.
            _ if name.starts_with('+') => 0.0,
            "score" | SEWT_BY_SIZE => OVER_SCAN_MIN_OF_THREE,
            _ => OVER_SCAN_MIN,
        };
        if asked > 0.0 && (over_scan < asked || row[3] / row[0] < FLAT_MIN) {
            missed.push(name.as_str());
        }
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
    chart(&medians).write_svg(&target.join("choose.svg"))?;
    let alone = rate("round_robin", COMPARED).unwrap_or(f64::NAN);
    for (name, _) in SHADOWS {
        let watched = rate(name, COMPARED).unwrap_or(f64::NAN);
        println!(
            "round_robin {name}: {:.2} of the decisions per second, at {COMPARED} workers",
            watched / alone
        );
    }
    println!(
        "a policy change at {} workers takes {:.0} ms (median of five)",
        SIZES[SIZES.len() - 1],
        change.as_secs_f64() * 1000.0
    );
    if !missed.is_empty() {
        return Err(format!("below what is asked: {}", missed.join(", ")).into());
    }
    Ok(())
}

/// A flat line is a cost that does not grow.
fn chart(medians: &BTreeMap<(String, usize), f64>) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    for ((name, workers), rate) in medians {
        Series::add(&mut series, name, (*workers as f64, *rate));
    }
    Chart {
        title: "What a decision costs".into(),
        x_label: "workers".into(),
        y_label: "decisions per second".into(),
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        series,
    }
}
