//! The pools as Redis holds them: one function per verb, each one script call.

use crate::decode;
use crate::error::StoreError;
use crate::explain::{ExplainPage, ExplainRequest, Explanation};
use crate::keys::{holder_key, pool_keys};
use crate::library::{Library, VERBS};
use crate::link::Link;
use crate::settings::RedisSettings;
use crate::view::{PoolPage, PoolView};
use admission::id::{Epoch, PoolName, WorkerId};
use admission::message::{
    AdmitAnswer, AdmitRequest, HeartbeatRequest, Observation, ObserveAnswer, Operation,
    RegisterRequest, Release, Use, WorkerAnswer,
};
use admission::policy::Policy;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult};
use serde::Serialize;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

/// A script that says `again` has swept 256 workers; this many in a row are 16,384, more than a
/// pool is built for.
const AGAIN_MAX: usize = 64;

#[derive(Debug, Clone)]
pub struct Store {
    link: Link,
    library: Arc<Library>,
    /// The settings file's pools: applied at start, and again whenever Redis has lost them.
    pools: Arc<BTreeMap<PoolName, Policy>>,
}

/// Who or what a function concerns.
struct Call<'a> {
    verb: &'static str,
    pool: &'a PoolName,
    epoch: Option<&'a Epoch>,
    args: Vec<String>,
}

impl Store {
    /// Starts to connect; must be called inside a tokio runtime.
    pub fn start(
        settings: &RedisSettings,
        pools: BTreeMap<PoolName, Policy>,
    ) -> Result<Self, StoreError> {
        let timeout = Duration::from_millis(settings.timeout_ms);
        let link = Link::start(&settings.url, timeout)
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self {
            link,
            library: Arc::new(Library::new(&VERBS)),
            pools: Arc::new(pools),
        })
    }

    pub fn pools(&self) -> impl Iterator<Item = &PoolName> {
        self.pools.keys()
    }

    /// A pool's policy as the settings file has it.
    pub fn policy(&self, pool: &PoolName) -> Option<&Policy> {
        self.pools.get(pool)
    }

    pub fn is_up(&self) -> bool {
        self.link.is_up()
    }

    pub async fn admit(&self, request: &AdmitRequest) -> Result<AdmitAnswer, StoreError> {
        let args = || {
            let known = request_args(request.bytes, request.operation, request.own.as_ref());
            let lease = [request.lease.seq.to_string(), request.lease.to_string()];
            lease.into_iter().chain(known).collect()
        };
        for _ in 0..AGAIN_MAX {
            let call = Call {
                verb: "admit",
                pool: &request.pool,
                epoch: Some(&request.lease.epoch),
                args: args(),
            };
            let reply = self.run(call).await?;
            if reply != ["again"] {
                return decode::decision(request, &reply)
                    .ok_or_else(|| unexpected(&request.pool, "admit", reply));
            }
        }
        Err(unexpected(&request.pool, "admit", vec!["again".into()]))
    }

    /// Returns for each lease whether it was held until now.
    pub async fn release(
        &self,
        pool: &PoolName,
        epoch: &Epoch,
        releases: &[Release],
    ) -> Result<Vec<bool>, StoreError> {
        let args = releases.iter().flat_map(|release| {
            let r#use = match release.r#use {
                Use::Used => "used",
                Use::Unused => "unused",
            };
            [
                release.lease.seq.to_string(),
                release.lease.to_string(),
                r#use.to_owned(),
                release.outcome.as_str().to_owned(),
                text_or_empty(release.handshake_us),
                text_or_empty(release.upgrade_us),
                text_or_empty(release.session_us),
                release.bytes_read.to_string(),
                release.bytes_written.to_string(),
            ]
        });
        let call = Call {
            verb: "release",
            pool,
            epoch: Some(epoch),
            args: args.collect(),
        };
        let reply = self.run(call).await?;
        decode::held(&reply).ok_or_else(|| unexpected(pool, "release", reply))
    }

    pub async fn observe(
        &self,
        pool: &PoolName,
        epoch: &Epoch,
        observations: &[Observation],
    ) -> Result<ObserveAnswer, StoreError> {
        let args = observations.iter().flat_map(|seen| {
            [
                seen.lease.seq.to_string(),
                seen.outcome.as_str().to_owned(),
                text_or_empty(seen.handshake_us),
            ]
        });
        let call = Call {
            verb: "observe",
            pool,
            epoch: Some(epoch),
            args: args.collect(),
        };
        let reply = self.run(call).await?;
        match decode::counts("observed", &reply) {
            Some((observed, unknown)) => Ok(ObserveAnswer { observed, unknown }),
            None => Err(unexpected(pool, "observe", reply)),
        }
    }

    pub async fn register(
        &self,
        pool: &PoolName,
        worker: &WorkerId,
        request: &RegisterRequest,
    ) -> Result<WorkerAnswer, StoreError> {
        let args = vec![
            worker.to_string(),
            request.incarnation.to_string(),
            request.address.to_string(),
            request.max_concurrent.unwrap_or(0).to_string(),
            request.weight.to_string(),
        ];
        self.run_advised("register", pool, worker, args).await
    }

    pub async fn heartbeat(
        &self,
        pool: &PoolName,
        worker: &WorkerId,
        request: &HeartbeatRequest,
    ) -> Result<WorkerAnswer, StoreError> {
        let load = request.report.as_ref();
        let load = load
            .map(|load| encode(pool, "heartbeat", load))
            .transpose()?;
        let args = vec![
            worker.to_string(),
            request.incarnation.to_string(),
            load.unwrap_or_default(),
        ];
        self.run_advised("heartbeat", pool, worker, args).await
    }

    pub async fn drain(
        &self,
        pool: &PoolName,
        worker: &WorkerId,
    ) -> Result<WorkerAnswer, StoreError> {
        let args = vec![worker.to_string()];
        self.run_advised("drain", pool, worker, args).await
    }

    /// Takes a worker out of its pool. Returns the leases it still has.
    pub async fn remove(&self, pool: &PoolName, worker: &WorkerId) -> Result<u64, StoreError> {
        let call = self.pool_call("remove", pool, vec![worker.to_string()]);
        let reply = self.run(call).await?;
        match reply.as_slice() {
            [word] if word == "unknown_worker" => Err(unknown_worker(pool, worker)),
            [word, active] if word == "removed" => active
                .parse()
                .map_err(|_| unexpected(pool, "remove", reply.clone())),
            _ => Err(unexpected(pool, "remove", reply)),
        }
    }

    /// Lets the pool's clock go on and does what is due.
    pub async fn reap(&self, pool: &PoolName) -> Result<(), StoreError> {
        for _ in 0..AGAIN_MAX {
            let reply = self.run(self.pool_call("reap", pool, vec![])).await?;
            match reply.as_slice() {
                [word] if word == "done" => return Ok(()),
                [word] if word == "again" => {}
                _ => return Err(unexpected(pool, "reap", reply)),
            }
        }
        Ok(()) // The next round goes on from here.
    }

    /// One page of the pool, from the cursor that the last page gave; `"0"` is the first.
    pub async fn view_page(&self, pool: &PoolName, cursor: &str) -> Result<PoolPage, StoreError> {
        let call = self.pool_call("view", pool, vec![cursor.to_owned()]);
        let reply = self.run(call).await?;
        decode::page(&reply).ok_or_else(|| unexpected(pool, "view", reply))
    }

    /// What each worker is ranked by for a request like this, and who would be chosen now.
    pub async fn explain(
        &self,
        pool: &PoolName,
        request: &ExplainRequest,
    ) -> Result<Explanation, StoreError> {
        let mut page = self.explain_page(pool, request, "0").await?;
        if page.due > 0 {
            // A decision would sweep first.
            self.reap(pool).await?;
            page = self.explain_page(pool, request, "0").await?;
        }
        let (chosen, mut workers, mut next) = (page.chosen, page.workers, page.next);
        while let Some(cursor) = next {
            let page = self.explain_page(pool, request, &cursor).await?;
            workers.extend(page.workers);
            next = page.next;
        }
        workers.sort_by(|a, b| a.worker.cmp(&b.worker));
        workers.dedup_by(|a, b| a.worker == b.worker);
        let policy = self.view_page(pool, "0").await?.policy;
        Ok(Explanation::new(policy.strategy, chosen, workers))
    }

    async fn explain_page(
        &self,
        pool: &PoolName,
        request: &ExplainRequest,
        cursor: &str,
    ) -> Result<ExplainPage, StoreError> {
        let known = request_args(request.bytes, request.operation, request.own.as_ref());
        let args = std::iter::once(cursor.to_owned()).chain(known).collect();
        let reply = self.run(self.pool_call("explain", pool, args)).await?;
        decode::explained(&reply).ok_or_else(|| unexpected(pool, "explain", reply))
    }

    pub async fn view(&self, pool: &PoolName) -> Result<PoolView, StoreError> {
        let PoolPage {
            policy,
            head,
            mut workers,
            mut next,
        } = self.view_page(pool, "0").await?;
        while let Some(cursor) = next {
            let page = self.view_page(pool, &cursor).await?;
            workers.extend(page.workers);
            next = page.next;
        }
        // A page may repeat what an earlier one had, when Redis rehashes between the two.
        workers.sort_by(|a, b| a.worker.cmp(&b.worker));
        workers.dedup_by(|a, b| a.worker == b.worker);
        Ok(PoolView {
            pool: pool.clone(),
            policy,
            head,
            workers,
        })
    }

    /// Gives the pool this policy. Returns its version.
    pub async fn apply(&self, pool: &PoolName, policy: &Policy) -> Result<u64, StoreError> {
        self.apply_seeded(pool, policy, random_seed()).await
    }

    /// As `apply`; the seed starts the dice of a pool that is new.
    pub async fn apply_seeded(
        &self,
        pool: &PoolName,
        policy: &Policy,
        seed: u32,
    ) -> Result<u64, StoreError> {
        let args = vec![encode(pool, "policy", policy)?, seed.to_string()];
        let call = self.pool_call("policy", pool, args);
        let reply = self.run_once(&call).await?;
        match reply.as_slice() {
            [word, version] if word == "applied" || word == "unchanged" => version
                .parse()
                .map_err(|_| unexpected(pool, "policy", reply.clone())),
            _ => Err(unexpected(pool, "policy", reply)),
        }
    }

    /// Applies the settings file's pools.
    pub async fn apply_pools(&self) -> Result<(), StoreError> {
        for (pool, policy) in self.pools.iter() {
            self.apply(pool, policy).await?;
        }
        Ok(())
    }

    fn pool_call<'a>(&self, verb: &'static str, pool: &'a PoolName, args: Vec<String>) -> Call<'a> {
        Call {
            verb,
            pool,
            epoch: None,
            args,
        }
    }

    /// Runs a script; a pool that Redis has lost but the settings file knows is put back first.
    async fn run(&self, call: Call<'_>) -> Result<Vec<String>, StoreError> {
        let reply = self.run_once(&call).await?;
        if reply != ["unknown_pool"] {
            return Ok(reply);
        }
        let unknown = || StoreError::UnknownPool(call.pool.clone());
        let policy = self.pools.get(call.pool).ok_or_else(unknown)?;
        self.apply(call.pool, policy).await?;
        let reply = self.run_once(&call).await?;
        if reply == ["unknown_pool"] {
            return Err(unknown());
        }
        Ok(reply)
    }

    async fn run_once(&self, call: &Call<'_>) -> Result<Vec<String>, StoreError> {
        let keys = pool_keys(call.pool)
            .into_iter()
            .chain(call.epoch.map(|epoch| holder_key(call.pool, epoch)));
        let keys: Vec<String> = keys.collect();
        let mut command = redis::cmd("FCALL");
        command
            .arg(self.library.function(call.verb))
            .arg(keys.len())
            .arg(keys)
            .arg(&call.args);
        let exchange = async |connection| self.exchange(connection, &command).await;
        match self.link.call(exchange).await {
            Some(Ok(reply)) => Ok(reply),
            Some(Err(error)) if error.kind() == redis::ServerErrorKind::ResponseError.into() => {
                Err(StoreError::Script {
                    pool: call.pool.clone(),
                    verb: call.verb,
                    error: error.to_string(),
                })
            }
            Some(Err(error)) => Err(StoreError::Unavailable(error.to_string())),
            None => Err(StoreError::Unavailable("not connected".into())),
        }
    }

    /// Calls a function; a Redis that does not have the library, being new or having lost it, gets
    /// it first.
    async fn exchange(
        &self,
        mut connection: MultiplexedConnection,
        command: &redis::Cmd,
    ) -> RedisResult<Vec<String>> {
        match command.query_async(&mut connection).await {
            Err(error) if is_unknown_function(&error) => {
                let mut load = redis::cmd("FUNCTION");
                load.arg("LOAD").arg("REPLACE").arg(self.library.text());
                load.exec_async(&mut connection).await?;
                command.query_async(&mut connection).await
            }
            result => result,
        }
    }

    async fn run_advised(
        &self,
        verb: &'static str,
        pool: &PoolName,
        worker: &WorkerId,
        args: Vec<String>,
    ) -> Result<WorkerAnswer, StoreError> {
        let reply = self.run(self.pool_call(verb, pool, args)).await?;
        if reply == ["unknown_worker"] {
            return Err(unknown_worker(pool, worker));
        }
        decode::advice(&reply).ok_or_else(|| unexpected(pool, verb, reply))
    }
}

fn encode(
    pool: &PoolName,
    verb: &'static str,
    value: &impl Serialize,
) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Script {
        pool: pool.clone(),
        verb,
        error: error.to_string(),
    })
}

/// What is known of a request, as the scripts read it.
fn request_args(
    bytes: Option<u64>,
    operation: Option<Operation>,
    own: Option<&WorkerId>,
) -> [String; 3] {
    [
        bytes.unwrap_or(0).to_string(),
        operation.unwrap_or_default().as_str().to_owned(),
        own.map_or_else(String::new, WorkerId::to_string),
    ]
}

fn is_unknown_function(error: &RedisError) -> bool {
    error
        .detail()
        .is_some_and(|detail| detail.contains("Function not found"))
}

/// The scripts read an empty text as unknown.
fn text_or_empty(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

/// Park and Miller's generator takes any number from 1 to 2^31 - 2.
fn random_seed() -> u32 {
    const SEEDS: u64 = (1 << 31) - 2;
    let random = RandomState::new().build_hasher().finish();
    u32::try_from(random % SEEDS).unwrap_or_default() + 1
}

fn unknown_worker(pool: &PoolName, worker: &WorkerId) -> StoreError {
    StoreError::UnknownWorker {
        pool: pool.clone(),
        worker: worker.clone(),
    }
}

fn unexpected(pool: &PoolName, verb: &'static str, reply: Vec<String>) -> StoreError {
    StoreError::Reply {
        pool: pool.clone(),
        verb,
        reply,
    }
}
