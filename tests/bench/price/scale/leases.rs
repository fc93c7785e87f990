//! Decisions against the leases that are already there, and what each of these weighs.

use crate::measure::Figure;
use crate::scripts::{self, ClientKey, Pace, REDIS, Scripts};
use crate::site;
use admission::policy::{Client, Policy};
use harness::fleet;
use harness::http::Failure;
use harness::redis::Redis;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

const ROUNDS: usize = 5;
const LEVELS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
const WORKERS: usize = 1_000;
/// Leases of one holder: an Envoy thread has about as many at most.
const OF_EACH_HOLDER: u64 = 10_000;
const DECISIONS: u64 = 4_000;
/// Where clients and plain keys are weighed.
const WEIGHED: u64 = 100_000;

#[derive(Debug, Clone, Serialize)]
pub(super) struct Level {
    pub(super) leases: u64,
    /// Admissions with their releases, in pipelines of sixteen.
    pub(super) per_second: f64,
    /// The same for each second of Redis' CPU.
    pub(super) per_cpu_s: f64,
}

pub(super) struct Leases {
    pub(super) levels: Vec<Level>,
    pub(super) bytes_each: f64,
    pub(super) client_bytes_each: f64,
    /// Of a key with an expiry for each lease.
    pub(super) key_bytes_each: f64,
}

pub(super) async fn measure() -> Result<Leases, Failure> {
    let directory = fleet::scratch();
    let place = directory.path();
    let mut redises = Vec::new();
    for level in LEVELS {
        redises.push(site::redis(&format!("redis-{level}"), place).await?);
    }
    let mut subjects = Vec::new();
    let mut bytes_each = f64::NAN;
    for (redis, level) in redises.iter().zip(LEVELS) {
        let (scripts, weight) = fill(redis, site::policy(), level, ClientKey::None).await?;
        eprintln!("scale: {level} leases are there");
        bytes_each = weight;
        subjects.push((scripts, Vec::new(), Vec::new()));
    }
    for round in 1..=ROUNDS {
        for (scripts, rates, costs) in &mut subjects {
            let run = scripts.pairs(DECISIONS).await?;
            rates.push(run.per_second);
            costs.push(1e6 / run.spent.us_each(REDIS, run.calls));
        }
        eprintln!("scale: leases, round {round} of {ROUNDS}: done");
    }
    let levels = (subjects.into_iter().zip(LEVELS)).map(|((_, rates, costs), leases)| Level {
        leases,
        per_second: Figure::of(rates).median,
        per_cpu_s: Figure::of(costs).median,
    });
    Ok(Leases {
        levels: levels.collect(),
        bytes_each,
        client_bytes_each: weigh_with_clients(place).await?,
        key_bytes_each: weigh_keys(place).await?,
    })
}

/// Takes so many leases. Returns what each weighs in Redis, everything counted.
async fn fill(
    redis: &Redis,
    policy: Policy,
    leases: u64,
    client: ClientKey,
) -> Result<(Scripts<'_>, f64), Failure> {
    let pools = BTreeMap::from([(fleet::pool(), policy)]);
    let store = scripts::store(redis.url(), pools, WORKERS).await?;
    let mut scripts = Scripts::of(redis).await?;
    let before = scripts.used_memory().await?;
    let mut taken = 0;
    while taken < leases {
        let calls = (leases - taken).min(OF_EACH_HOLDER);
        let pace = Pace {
            connections: 16,
            pipeline: 16,
            calls,
        };
        scripts.admit(pace, client)?;
        taken += calls;
    }
    let held = scripts.leases(&store).await?;
    // A number may be drawn twice.
    if held * 1000 < leases * 995 {
        return Err(format!("of {leases} leases only {held} were given").into());
    }
    let weight = (scripts.used_memory().await? - before) / held as f64;
    Ok((scripts, weight))
}

async fn weigh_with_clients(place: &Path) -> Result<f64, Failure> {
    let redis = site::redis("redis-clients", place).await?;
    let policy = Policy {
        client: Client {
            max_concurrent: 3,
            keys_max: 1_000_000,
            ..Client::default()
        },
        ..site::policy()
    };
    let (_, weight) = fill(&redis, policy, WEIGHED, ClientKey::Each).await?;
    Ok(weight)
}

async fn weigh_keys(place: &Path) -> Result<f64, Failure> {
    let redis = site::redis("redis-keys", place).await?;
    let scripts = Scripts::of(&redis).await?;
    let before = scripts.used_memory().await?;
    scripts.set(Pace {
        connections: 16,
        pipeline: 16,
        calls: WEIGHED,
    })?;
    let keys: f64 = redis.told("DBSIZE").await.parse()?;
    Ok((scripts.used_memory().await? - before) / keys)
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
pub(super) fn print(levels: &[Level]) {
    println!(
        "\n{:>9} {:>16} {:>18} {:>8}",
        "leases", "decisions per s", "per s of Redis' CPU", "ratio"
    );
    let first = levels.first().map_or(f64::NAN, |level| level.per_cpu_s);
    for level in levels {
        println!(
            "{:>9} {:>16.0} {:>18.0} {:>8.2}",
            level.leases,
            level.per_second,
            level.per_cpu_s,
            level.per_cpu_s / first
        );
    }
}
