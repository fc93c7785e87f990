//! Decisions per second against the number of workers, for every strategy, and for a selector that
//! reads all workers on every decision. Redis works alone: redis-benchmark asks it, through sixteen
//! connections and sixteen questions at a time. Rounds are interleaved, medians are told.
//!
//! Writes target/bench/choose.json and choose.svg. The machine's speed means nothing; the ratios do.

#[allow(dead_code, reason = "tests use the rest")]
#[path = "../../tests/support/redis.rs"]
mod private_redis;

mod pools;

use admission::id::PoolName;
use admission::policy::Strategy;
use pools::{Subject, index_subject, policies, scan_subject};
use private_redis::Redis;
use redis_sidecar::plot::{Chart, Scale, Series};
use redis_sidecar::store::Store;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
/// As many as fit into the time; one in any case.
const ROUNDS_MAX: usize = 5;
/// Pools are made before, and a policy is changed after: three minutes are not to be exceeded.
const TIME: Duration = Duration::from_secs(165);
/// A round goes through the sizes as often, in bursts of as many questions: not a tenth of a second
/// for an index. The scan gets as many as it can do.
const BURSTS: usize = 4;
const QUESTIONS: u64 = 3_000;
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

#[tokio::main]
async fn main() -> Result<()> {
    let until = Instant::now() + TIME;
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
    measure_rounds(&redis, &mut subjects, until, |_| true)?;
    // A neighbour's work looks like a cost that grows. What seems below gets as many rounds again, if there is time, and
    // all of them count.
    let doubtful = missed(&subjects);
    if !doubtful.is_empty() {
        eprintln!("looking again at {}", doubtful.join(", "));
        measure_rounds(&redis, &mut subjects, until, |it| {
            it.strategy == SCAN || doubtful.contains(&it.strategy)
        })?;
    }
    let change = measure_change(&redis).await?;
    tell(&subjects, change)
}

fn measure_rounds(
    redis: &Redis,
    subjects: &mut [Subject],
    until: Instant,
    wanted: impl Fn(&Subject) -> bool,
) -> Result<()> {
    for round in 1..=ROUNDS_MAX {
        let started = Instant::now();
        for number in order(subjects) {
            let subject = &mut subjects[number];
            if !wanted(subject) {
                continue;
            }
            let questions = match subject.strategy.as_str() {
                SCAN => QUESTIONS * 6 / subject.workers as u64,
                _ => QUESTIONS,
            };
            let rate = measure(redis, subject, questions.max(64))?;
            subject.rates.push(rate);
        }
        eprintln!("round {round} of {ROUNDS_MAX}: done");
        if Instant::now() + started.elapsed() > until {
            break;
        }
    }
    Ok(())
}

/// One round. A machine is fast now and slow a moment later, so what will be compared stands side by
/// side: short bursts of a strategy's sizes, up and down, and beside them the scan that all are measured against.
fn order(subjects: &[Subject]) -> Vec<usize> {
    let (scans, strategies): (Vec<usize>, Vec<usize>) =
        (0..subjects.len()).partition(|number| subjects[*number].strategy == SCAN);
    let (compared, others): (Vec<usize>, Vec<usize>) =
        (scans.into_iter()).partition(|number| subjects[*number].workers == COMPARED);
    let mut order = others;
    for sizes in strategies.chunks(SIZES.len()) {
        order.extend(&compared);
        for burst in 0..BURSTS {
            let up = sizes.iter();
            if burst % 2 == 0 {
                order.extend(up);
            } else {
                order.extend(up.rev());
            }
        }
    }
    order
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

fn median(rates: impl Iterator<Item = f64>) -> f64 {
    let mut rates: Vec<f64> = rates.collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

fn rates_of<'a>(subjects: &'a [Subject], strategy: &str, workers: usize) -> &'a [f64] {
    let mut matching = subjects.iter();
    let found = matching.find(|it| it.strategy == strategy && it.workers == workers);
    found.map_or(&[], |it| &it.rates)
}

fn rate(subjects: &[Subject], strategy: &str, workers: usize) -> f64 {
    median(rates_of(subjects, strategy, workers).iter().copied())
}

/// How fast the largest pool of a strategy is against the smallest: burst by burst, because the machine's speed changes
/// from one to the next.
fn flatness(subjects: &[Subject], strategy: &str) -> f64 {
    let few = rates_of(subjects, strategy, SIZES[0]);
    let many = rates_of(subjects, strategy, SIZES[SIZES.len() - 1]);
    median(few.iter().zip(many).map(|(few, many)| many / few))
}

fn over_scan(subjects: &[Subject], strategy: &str) -> f64 {
    rate(subjects, strategy, COMPARED) / rate(subjects, SCAN, COMPARED)
}

fn strategies(subjects: &[Subject]) -> Vec<String> {
    let names: BTreeSet<_> = subjects.iter().map(|it| &it.strategy).collect();
    names.into_iter().cloned().collect()
}

/// The strategies that are below what is asked.
fn missed(subjects: &[Subject]) -> Vec<String> {
    let mut names = strategies(subjects);
    names.retain(|name| {
        let asked = match name.as_str() {
            // Watching has a price, and no promise.
            name if name == SCAN || name.starts_with('+') => return false,
            "score" | SEWT_BY_SIZE => OVER_SCAN_MIN_OF_THREE,
            _ => OVER_SCAN_MIN,
        };
        over_scan(subjects, name) < asked || flatness(subjects, name) < FLAT_MIN
    });
    names
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
fn tell(subjects: &[Subject], change: Duration) -> Result<()> {
    println!(
        "decisions per second\n{:>18} {:>8} {:>8} {:>8} {:>8}   10000/10  1000/scan",
        "", 10, 100, 1000, 10_000
    );
    let mut list = Vec::new();
    for name in strategies(subjects) {
        let row = SIZES.map(|workers| rate(subjects, &name, workers));
        let [flat, over_scan] = [flatness(subjects, &name), over_scan(subjects, &name)];
        let cells = row.map(|rate| format!("{rate:>8.0}")).join(" ");
        println!("{name:>18} {cells} {flat:>10.2} {over_scan:>10.1}");
        list.extend(SIZES.iter().zip(row).map(|(workers, rate)| {
            let bursts = rates_of(subjects, &name, *workers).len();
            json!({"strategy": name, "workers": workers, "per_second": rate.round(),
                "bursts": bursts, "largest_to_smallest": flat})
        }));
    }
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
    std::fs::create_dir_all(&target)?;
    std::fs::write(
        target.join("choose.json"),
        serde_json::to_string_pretty(&list)?,
    )?;
    chart(subjects).write_svg(&target.join("choose.svg"))?;
    let alone = rate(subjects, "round_robin", COMPARED);
    for (name, _) in SHADOWS {
        let watched = rate(subjects, name, COMPARED);
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
    let missed = missed(subjects);
    if !missed.is_empty() {
        return Err(format!("below what is asked: {}", missed.join(", ")).into());
    }
    Ok(())
}

/// A flat line is a cost that does not grow.
fn chart(subjects: &[Subject]) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    for name in strategies(subjects) {
        for workers in SIZES {
            let point = (workers as f64, rate(subjects, &name, workers));
            Series::add(&mut series, &name, point);
        }
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
