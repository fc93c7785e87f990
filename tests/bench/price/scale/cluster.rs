//! Decisions over a Redis Cluster of three, told for each shard.

use crate::measure::{Figure, Meter, rounded};
use crate::scripts;
use crate::site;
use admission::id::{Epoch, HolderId, LeaseId, PoolName, ProxyId};
use admission::message::{AdmitAnswer, AdmitRequest, Release};
use futures_util::future::try_join_all;
use harness::cluster::RedisCluster;
use harness::http::Failure;
use redis_sidecar::settings::RedisSettings;
use redis_sidecar::store::Store;
use serde::Serialize;
use std::collections::BTreeMap;

const ROUNDS: usize = 3;
const WORKERS: [usize; 4] = [10, 100, 1_000, 10_000];
const POOLS: [usize; 3] = [1, 10, 100];
/// Of each of many pools.
const WORKERS_OF_EACH: usize = 100;
/// Decisions of one measurement, and how many are under way at once.
const DECISIONS: usize = 6_000;
const AT_ONCE: usize = 30;
const SHARDS: [&str; 3] = ["shard-1", "shard-2", "shard-3"];

/// What a decision, admission and release, costs the shard that makes it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) count: usize,
    /// CPU µs of the shards that made decisions, over all of them.
    pub(super) us: f64,
    /// The same where each admission goes by a script call of its own, as among many pools nearly all do.
    pub(super) us_alone: f64,
    /// The shard for which it was most, and the share of decisions that each made.
    pub(super) us_max: f64,
    pub(super) shares: Vec<f64>,
}

pub(super) struct Shards {
    pub(super) workers: Vec<Row>,
    pub(super) pools: Vec<Row>,
}

/// Pools that are measured together.
struct Subject {
    count: usize,
    pools: Vec<(PoolName, usize)>,
    /// As it is shipped, and with a script call for each.
    stores: [Store; 2],
    rounds: [Vec<Shared>; 2],
}

/// What each shard took of the CPU, in µs, and how many decisions it made.
type Shared = [(f64, usize); 3];

pub(super) async fn measure() -> Result<Shards, Failure> {
    let cluster = RedisCluster::start().await;
    let mut subjects = Vec::new();
    for workers in WORKERS {
        let names = vec![format!("workers-{workers}")];
        subjects.push(Subject::raise(&cluster, workers, names, workers).await?);
    }
    eprintln!("scale: pools of {WORKERS:?} workers are ready");
    for pools in POOLS {
        let names = (1..=pools).map(|number| format!("pool-{pools}-{number}"));
        let subject = Subject::raise(&cluster, pools, names.collect(), WORKERS_OF_EACH).await?;
        subjects.push(subject);
    }
    eprintln!("scale: {POOLS:?} pools are ready");
    for round in 0..ROUNDS {
        for subject in &mut subjects {
            subject.measure(&cluster, round).await?;
        }
        eprintln!("scale: round {} of {ROUNDS}: done", round + 1);
    }
    let mut workers: Vec<Row> = subjects.iter().map(Subject::row).collect();
    let pools = workers.split_off(WORKERS.len());
    Ok(Shards { workers, pools })
}

impl Subject {
    async fn raise(
        cluster: &RedisCluster,
        count: usize,
        names: Vec<String>,
        workers: usize,
    ) -> Result<Self, Failure> {
        let mut pools = Vec::new();
        for name in names {
            let pool = PoolName::parse(&name)?;
            let slot = cluster.slot_of(&format!("{{{pool}}}")).await;
            let shard = cluster.primary_of(slot, 0).await;
            pools.push((pool, shard.ok_or("a slot that nobody has")?));
        }
        let policies = pools.iter().map(|(pool, _)| (pool.clone(), site::policy()));
        let policies: BTreeMap<_, _> = policies.collect();
        let store = scripts::store(cluster.url(), policies.clone(), workers).await?;
        let each_alone = RedisSettings {
            group_max: 1,
            ..scripts::settings(cluster.url())
        };
        let alone = scripts::store_with(each_alone, policies, 0).await?;
        Ok(Self {
            count,
            pools,
            stores: [store, alone],
            rounds: [Vec::new(), Vec::new()],
        })
    }

    async fn measure(&mut self, cluster: &RedisCluster, round: usize) -> Result<(), Failure> {
        for way in 0..self.stores.len() {
            let shared = self.share(cluster, way, round).await?;
            self.rounds[way].push(shared);
        }
        Ok(())
    }

    async fn share(
        &self,
        cluster: &RedisCluster,
        way: usize,
        round: usize,
    ) -> Result<Shared, Failure> {
        let shards = SHARDS.into_iter().zip(&cluster.nodes);
        let meter = Meter::of(shards.map(|(name, node)| (name, &node.process)));
        let holder = HolderId {
            proxy: ProxyId::parse("bench")?,
            epoch: Epoch::from_random([u8::try_from(round * self.stores.len() + way)?; 16]),
        };
        let mut made = [0; 3];
        let before = meter.read();
        for first in (0..DECISIONS).step_by(AT_ONCE) {
            let decisions = (first..first + AT_ONCE).map(|number| {
                let (pool, shard) = &self.pools[number % self.pools.len()];
                made[*shard] += 1;
                decide(&self.stores[way], pool, &holder, number)
            });
            try_join_all(decisions).await?;
        }
        let spent = meter.read().since(&before);
        Ok([0, 1, 2].map(|shard| (spent.seconds(SHARDS[shard]) * 1e6, made[shard])))
    }

    fn row(&self) -> Row {
        // A shard without a decision has its cluster to care for, and no decision's cost.
        let working = |round: &Shared| -> Vec<(f64, usize)> {
            let shards = round.iter().copied();
            shards.filter(|(_, made)| *made > 0).collect()
        };
        let each = |round: &Shared| {
            let shards = working(round);
            let (us, made) =
                (shards.iter()).fold((0.0, 0), |(us, made), shard| (us + shard.0, made + shard.1));
            us / made as f64
        };
        let most = |round: &Shared| {
            let shards = working(round).into_iter();
            shards
                .map(|(us, made)| us / made as f64)
                .fold(0.0, f64::max)
        };
        let [shipped, alone] = &self.rounds;
        let shares = shipped.first().map(|round| {
            let share = |(_, made): (f64, usize)| rounded(made as f64 / DECISIONS as f64);
            round.map(share).to_vec()
        });
        Row {
            count: self.count,
            us: Figure::of(shipped.iter().map(each)).median,
            us_alone: Figure::of(alone.iter().map(each)).median,
            us_max: Figure::of(shipped.iter().map(most)).median,
            shares: shares.unwrap_or_default(),
        }
    }
}

/// An admission and its release.
async fn decide(
    store: &Store,
    pool: &PoolName,
    holder: &HolderId,
    number: usize,
) -> Result<(), Failure> {
    let lease = LeaseId {
        epoch: holder.epoch.clone(),
        seq: u64::try_from(number)? + 1,
    };
    let request = AdmitRequest::new(pool.clone(), holder.clone(), lease.clone());
    let answer = store.admit(&request).await?;
    if !matches!(answer, AdmitAnswer::Admitted(_)) {
        return Err(format!("{pool}: not admitted: {answer:?}").into());
    }
    let release = [Release::unused(lease)];
    store.release(pool, &holder.epoch, &release).await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
pub(super) fn print(rows: &[Row], what: &str) {
    println!(
        "\n{what:>8} {:>22} {:>8} {:>12} {:>18}  shares",
        "CPU µs for a decision", "ratio", "each alone", "its busiest shard"
    );
    let first = rows.first().map_or(f64::NAN, |row| row.us);
    for row in rows {
        println!(
            "{:>8} {:>22.1} {:>8.2} {:>12.1} {:>18.1}  {:?}",
            row.count,
            row.us,
            row.us / first,
            row.us_alone,
            row.us_max,
            row.shares
        );
    }
}
