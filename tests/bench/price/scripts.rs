//! The scripts of the sidecar, called without it: by redis-benchmark, which is as fast as Redis can be
//! asked, and in pipelines of our own, where what was admitted is to be released again.

use crate::measure::{Meter, Spent};
use crate::site;
use admission::id::{Epoch, PoolName, WorkerId};
use admission::policy::Policy;
use harness::http::Failure;
use harness::redis::Redis;
use redis::aio::MultiplexedConnection;
use redis_sidecar::library::{Library, VERBS};
use redis_sidecar::pool_keys;
use redis_sidecar::settings::RedisSettings;
use redis_sidecar::store::Store;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Numbers of leases that a holder mints before its second beat: with these, nobody asks for beats.
const NUMBERS: u64 = 1 << 24;
/// What redis-benchmark replaces by twelve digits, others for each call.
const RANDOM: &str = "__rand_int__";
const WORKERS_AT_ONCE: usize = 64;

/// How redis-benchmark asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) connections: u64,
    pub(crate) pipeline: u64,
    pub(crate) calls: u64,
}

/// What a run of redis-benchmark gave.
pub(crate) struct Run {
    pub(crate) per_second: f64,
    pub(crate) spent: Spent,
    pub(crate) calls: usize,
}

/// The CPU time of Redis in a meter of its own.
pub(crate) const REDIS: &str = "redis";

/// One pool in one Redis, and how its scripts are called.
pub(crate) struct Scripts<'a> {
    redis: &'a Redis,
    library: Library,
    pool: PoolName,
    run_id: String,
    holders: u64,
}

impl<'a> Scripts<'a> {
    pub(crate) async fn of(redis: &'a Redis) -> Result<Self, Failure> {
        Ok(Self {
            redis,
            library: Library::new(&VERBS),
            pool: harness::fleet::pool(),
            run_id: redis
                .info("run_id")
                .await
                .ok_or("a Redis without a run id")?,
            holders: 0,
        })
    }

    pub(crate) fn meter(&self) -> Meter<'_> {
        Meter::of([(REDIS, &self.redis.process)])
    }

    /// Admissions of a new holder, whose leases stay; each for a client of its own if `client`.
    pub(crate) fn admit(&mut self, pace: Pace, client: ClientKey) -> Result<Run, Failure> {
        let epoch = self.next_epoch();
        let client = match client {
            ClientKey::None => String::new(),
            // Sixteen characters, as the hash of a key has.
            ClientKey::Each => format!("c0de{RANDOM}"),
        };
        let mut words = vec!["FCALL".into(), self.library.function("admit")];
        words.extend(self.keys_of(&epoch));
        words.extend(self.admit_args(&epoch, RANDOM, client));
        self.benchmark(pace, &words)
    }

    /// A script that does nothing: what asking itself costs.
    pub(crate) async fn nothing(&self, pace: Pace) -> Result<Run, Failure> {
        let hash = self.redis.told("SCRIPT LOAD \"return 1\"").await;
        self.benchmark(pace, &["EVALSHA".into(), hash, "0".into()])
    }

    /// A script that counts to 1,000, which tells how fast this machine's Lua is.
    pub(crate) async fn counting(&self, pace: Pace) -> Result<Run, Failure> {
        let script = "local sum = 0 for number = 1, 1000 do sum = sum + number end return sum";
        let hash = self.redis.told(&format!("SCRIPT LOAD \"{script}\"")).await;
        self.benchmark(pace, &["EVALSHA".into(), hash, "0".into()])
    }

    /// A key for each lease, with its end: what one would write by hand.
    pub(crate) fn set(&self, pace: Pace) -> Result<Run, Failure> {
        let key = format!("lease:{}.{RANDOM}", Epoch::from_random([1; 16]));
        let words = ["SET", &key, "worker-1", "PX", "86400000"];
        self.benchmark(pace, &words.map(str::to_owned))
    }

    fn benchmark(&self, pace: Pace, words: &[String]) -> Result<Run, Failure> {
        let address = self.redis.address();
        let meter = self.meter();
        let before = meter.read();
        let output = Command::new("redis-benchmark")
            .args(["-h", &address.ip().to_string()])
            .args(["-p", &address.port().to_string()])
            .args(["-c", &pace.connections.to_string()])
            .args(["-P", &pace.pipeline.to_string()])
            .args(["-n", &pace.calls.to_string()])
            .args(["-r", &NUMBERS.to_string(), "--csv"])
            .args(words)
            .stderr(Stdio::null())
            .output()?;
        let spent = meter.read().since(&before);
        let text = String::from_utf8(output.stdout)?;
        let line = text.lines().next_back().unwrap_or_default();
        let rate = line.split("\",\"").nth(1).unwrap_or_default();
        let unread = |_| format!("redis-benchmark said {text:?}");
        Ok(Run {
            per_second: rate.trim_matches('"').parse().map_err(unread)?,
            spent,
            calls: usize::try_from(pace.calls)?,
        })
    }

    /// Admissions in pipelines of sixteen, each given back at once. Returns how many in a second, and what
    /// it cost.
    pub(crate) async fn pairs(&mut self, pairs: u64) -> Result<Run, Failure> {
        const PIPELINE: u64 = 16;
        let epoch = self.next_epoch();
        let mut connection = self.connection().await?;
        let meter = self.meter();
        let (before, started) = (meter.read(), Instant::now());
        for first in (0..pairs).step_by(16) {
            let numbers = first..(first + PIPELINE).min(pairs);
            let (mut admits, mut releases) = (redis::pipe(), redis::pipe());
            for number in numbers.clone() {
                let number = number.to_string();
                let admit = self.admit_args(&epoch, &number, String::new());
                let release = self.release_args(&epoch, &number);
                self.call(&mut admits, "admit", &epoch, admit);
                self.call(&mut releases, "release", &epoch, release);
            }
            let answers: Vec<Vec<String>> = admits.query_async(&mut connection).await?;
            if let Some(answer) = answers.iter().find(|answer| answer[0] != "admitted") {
                return Err(format!("not admitted: {answer:?}").into());
            }
            let answers: Vec<Vec<String>> = releases.query_async(&mut connection).await?;
            if let Some(answer) = answers
                .iter()
                .find(|answer| answer[..] != ["released", "1"])
            {
                return Err(format!("not released: {answer:?}").into());
            }
        }
        Ok(Run {
            per_second: pairs as f64 / started.elapsed().as_secs_f64(),
            spent: meter.read().since(&before),
            calls: usize::try_from(pairs)?,
        })
    }

    pub(crate) async fn used_memory(&self) -> Result<f64, Failure> {
        let told = self.redis.info("used_memory").await;
        Ok(told.ok_or("a Redis without memory")?.parse()?)
    }

    /// Leases that the pool's workers have.
    pub(crate) async fn leases(&self, store: &Store) -> Result<u64, Failure> {
        Ok(store.view(&self.pool).await?.head.active)
    }

    async fn connection(&self) -> Result<MultiplexedConnection, Failure> {
        let client = redis::Client::open(self.redis.url())?;
        let patience = Some(Duration::from_millis(site::PATIENCE_MS));
        let patience = redis::AsyncConnectionConfig::new().set_response_timeout(patience);
        Ok(client
            .get_multiplexed_async_connection_with_config(&patience)
            .await?)
    }

    fn call(&self, pipe: &mut redis::Pipeline, verb: &str, epoch: &Epoch, args: Vec<String>) {
        (pipe.cmd("FCALL").arg(self.library.function(verb)))
            .arg(self.keys_of(epoch))
            .arg(args);
    }

    /// How many keys, and which.
    fn keys_of(&self, epoch: &Epoch) -> Vec<String> {
        let keys = pool_keys(&self.pool);
        let mut words = vec![(keys.len() + 1).to_string()];
        words.extend(keys);
        words.push(format!("ws:{{{}}}:holder:{epoch}", self.pool));
        words
    }

    /// As lua/admit.lua names them.
    fn admit_args(&self, epoch: &Epoch, number: &str, client: String) -> Vec<String> {
        let lease = format!("{epoch}.{number}");
        let rest = ["", "0", "0", &self.run_id].map(str::to_owned);
        [number, &lease, "0", "query", "", "bench"]
            .map(str::to_owned)
            .into_iter()
            .chain([client])
            .chain(rest)
            .collect()
    }

    /// As lua/release.lua names them.
    fn release_args(&self, epoch: &Epoch, number: &str) -> Vec<String> {
        let lease = format!("{epoch}.{number}");
        [
            number,
            &lease,
            "used",
            "success",
            "1000",
            "",
            "1000",
            "0",
            "0",
            "",
            &self.run_id,
        ]
        .map(str::to_owned)
        .into()
    }

    fn next_epoch(&mut self) -> Epoch {
        self.holders += 1;
        let mut bytes = [0; 16];
        bytes[8..].copy_from_slice(&self.holders.to_be_bytes());
        Epoch::from_random(bytes)
    }
}

/// Whether leases are counted for clients.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClientKey {
    None,
    Each,
}

/// A store of its own, with this pool and its workers.
pub(crate) async fn store(
    url: String,
    pools: BTreeMap<PoolName, Policy>,
    workers: usize,
) -> Result<Store, Failure> {
    store_with(settings(url), pools, workers).await
}

/// The shipped ones, with more patience.
pub(crate) fn settings(url: String) -> RedisSettings {
    RedisSettings {
        url,
        timeout_ms: site::PATIENCE_MS,
        ..RedisSettings::default()
    }
}

pub(crate) async fn store_with(
    settings: RedisSettings,
    pools: BTreeMap<PoolName, Policy>,
    workers: usize,
) -> Result<Store, Failure> {
    let store = Store::start(&settings, pools.clone())?;
    while !store.is_up() || store.apply_pools().await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let request = site::registration(([10, 0, 0, 1], 80).into())?;
    for pool in pools.keys() {
        let numbers: Vec<usize> = (1..=workers).collect();
        for batch in numbers.chunks(WORKERS_AT_ONCE) {
            let register = batch.iter().map(async |number| -> Result<(), Failure> {
                let worker = WorkerId::parse(&format!("worker-{number}"))?;
                store.register(pool, &worker, &request).await?;
                Ok(())
            });
            futures_util::future::try_join_all(register).await?;
        }
    }
    Ok(store)
}
