//! The pools as Redis holds them: one function per verb, each one script call. Here is how a verb is
//! called; the verbs themselves are in families.

mod atomic;
mod group;
mod holders;
mod leases;
mod operators;
mod renew;
mod workers;

pub use crate::link::Unfit;
pub use holders::{Reaped, Sign, Standing};
pub(crate) use operators::is_light_audit;
pub use workers::Speaker;

use crate::error::StoreError;
use crate::keys::{PoolKeys, holder_key, pool_keys};
use crate::library::{Library, VERBS};
use crate::link::address::Topology;
use crate::link::{Access, Exchange, Fault, LinkError, Links, Purpose, Reply, is_forbidden};
use crate::settings::RedisSettings;
use admission::id::{Epoch, PoolName, WorkerId};
use admission::message::Operation;
use admission::policy::Policy;
use group::Groups;
use redis::{ErrorKind, ServerErrorKind};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A script that says `again` has swept 256 workers; this many in a row are 16,384, more than a
/// pool is built for.
const AGAIN_MAX: usize = 64;

#[derive(Debug, Clone)]
pub struct Store {
    links: Links,
    library: Arc<Library>,
    /// How many replicas must have a lease.
    wait_replicas: u32,
    groups: Groups,
    /// The settings file's pools: applied at start, and again whenever Redis has lost them.
    pools: Arc<BTreeMap<PoolName, Pool>>,
}

/// A pool of the settings file.
#[derive(Debug)]
struct Pool {
    policy: Policy,
    /// Spelled once: every call of its functions names them all.
    keys: PoolKeys,
}

/// Who or what a function concerns.
struct Call<'a> {
    verb: &'static str,
    pool: &'a PoolName,
    /// Whose keys it gets; one for nearly all that get any.
    holders: &'a [Epoch],
    args: Vec<String>,
}

/// Why a function has no answer: Redis refused it, or could not be asked.
enum Failure {
    Refused(String),
    Outage(StoreError),
}

impl<'a> Call<'a> {
    fn of_holder(
        verb: &'static str,
        pool: &'a PoolName,
        epoch: &'a Epoch,
        args: Vec<String>,
    ) -> Self {
        Self {
            verb,
            pool,
            holders: std::slice::from_ref(epoch),
            args,
        }
    }
}

impl Store {
    /// Starts to connect; must be called inside a tokio runtime.
    pub fn start(
        settings: &RedisSettings,
        pools: BTreeMap<PoolName, Policy>,
    ) -> Result<Self, StoreError> {
        Self::start_with(settings, pools, Library::new(&VERBS))
    }

    /// The same, with scripts of the caller's.
    pub fn start_with(
        settings: &RedisSettings,
        pools: BTreeMap<PoolName, Policy>,
        library: Library,
    ) -> Result<Self, StoreError> {
        let topology = Topology::parse(&settings.url).map_err(StoreError::Unavailable)?;
        let access = Access::new(settings, topology.is_encrypted());
        Ok(Self {
            links: Links::start(topology, access.map_err(StoreError::Unavailable)?),
            library: Arc::new(library),
            wait_replicas: settings.wait_replicas,
            groups: Groups::new(settings.group_max),
            pools: Arc::new(pools.into_iter().map(Pool::named).collect()),
        })
    }

    /// How many connections to Redis a sidecar with these settings may have at once.
    pub fn connections_max(settings: &RedisSettings) -> Result<usize, StoreError> {
        Links::connections_max(settings).map_err(StoreError::Unavailable)
    }

    pub fn pools(&self) -> impl Iterator<Item = &PoolName> {
        self.pools.keys()
    }

    /// A pool's policy as the settings file has it.
    pub fn policy(&self, pool: &PoolName) -> Option<&Policy> {
        self.pools.get(pool).map(|pool| &pool.policy)
    }

    /// Whether every server that pools may live on is connected.
    pub fn is_up(&self) -> bool {
        self.links.is_up()
    }

    /// Why nobody is admitted to this pool, or to any: its Redis is none to keep leases in.
    pub fn unfit(&self, pool: Option<&PoolName>) -> Option<Unfit> {
        let key = pool.map(|pool| holder_key(pool, &Epoch::from_random([0; 16])));
        self.links.unfit(key.as_deref())
    }

    /// What is wrong with any server that pools may live on: its address, and why.
    pub fn faults(&self) -> Vec<(String, StoreError)> {
        let faults = self.links.faults().into_iter();
        faults
            .map(|Fault { server, what }| match what {
                LinkError::Unfit(unfit) => (server, StoreError::Unfit(unfit)),
                LinkError::Absent(why) => (server, StoreError::Unavailable(why)),
                LinkError::Failed(error) => (server, StoreError::Unavailable(error.to_string())),
            })
            .collect()
    }

    /// How often Redis was lost.
    pub fn losses(&self) -> u64 {
        self.links.losses()
    }

    fn pool_call<'a>(&self, verb: &'static str, pool: &'a PoolName, args: Vec<String>) -> Call<'a> {
        Call {
            verb,
            pool,
            holders: &[],
            args,
        }
    }

    /// Runs a script; a pool that Redis has lost but the settings file knows is put back first.
    async fn run(&self, call: Call<'_>) -> Result<Vec<String>, StoreError> {
        self.run_call(&call).await
    }

    async fn run_call(&self, call: &Call<'_>) -> Result<Vec<String>, StoreError> {
        let reply = self.run_once(call).await?;
        if reply != ["unknown_pool"] {
            return Ok(reply);
        }
        let unknown = || StoreError::UnknownPool(call.pool.clone());
        let policy = self.policy(call.pool).ok_or_else(unknown)?;
        self.apply(call.pool, policy).await?;
        let reply = self.run_once(call).await?;
        if reply == ["unknown_pool"] {
            return Err(unknown());
        }
        Ok(reply)
    }

    /// The same, again and again while more is to be swept than one script does.
    async fn run_until_swept(&self, call: Call<'_>) -> Result<Vec<String>, StoreError> {
        for _ in 0..AGAIN_MAX {
            let reply = self.run_call(&call).await?;
            if reply != ["again"] {
                return Ok(reply);
            }
        }
        Err(unexpected(call.pool, call.verb, vec!["again".into()]))
    }

    async fn run_once(&self, call: &Call<'_>) -> Result<Vec<String>, StoreError> {
        let keys = match self.pools.get(call.pool) {
            Some(known) => Cow::Borrowed(&known.keys),
            None => Cow::Owned(pool_keys(call.pool)),
        };
        let of_holder = |epoch| holder_key(call.pool, epoch);
        let holders: Vec<_> = call.holders.iter().map(of_holder).collect();
        let reply = self.fcall(call.verb, [&*keys, &holders], &call.args);
        let reply = reply.await;
        reply.map_err(|failure| match failure {
            Failure::Refused(error) => StoreError::Script {
                pool: call.pool.clone(),
                verb: call.verb,
                error,
            },
            Failure::Outage(error) => error,
        })
    }

    async fn fcall(
        &self,
        verb: &str,
        keys: [&[String]; 2],
        args: &[String],
    ) -> Result<Vec<String>, Failure> {
        let exchange = Exchange {
            library: &self.library,
            verb,
            keys,
            args,
            purpose: purpose_of(verb),
        };
        let Reply { words, replicas } = self.links.call(&exchange).await.map_err(failure)?;
        match replicas {
            Some(replicas)
                if replicas < self.wait_replicas && words.iter().any(|word| word == "admitted") =>
            {
                Err(Failure::Outage(StoreError::Unreplicated {
                    replicas,
                    wanted: self.wait_replicas,
                }))
            }
            _ => Ok(words),
        }
    }
}

impl Pool {
    fn named((name, policy): (PoolName, Policy)) -> (PoolName, Self) {
        let keys = pool_keys(&name);
        (name, Self { policy, keys })
    }
}

fn purpose_of(verb: &str) -> Purpose {
    match verb {
        "admit" => Purpose::Lease,
        "atomic_check_and_increment" | "atomic_check_rate_limit" => Purpose::Count,
        _ => Purpose::Other,
    }
}

fn failure(error: LinkError) -> Failure {
    let outage = |why| Failure::Outage(StoreError::Unavailable(why));
    match error {
        LinkError::Absent(why) => outage(why),
        LinkError::Unfit(unfit) => Failure::Outage(StoreError::Unfit(unfit)),
        LinkError::Failed(error) if is_forbidden(&error) => outage(format!(
            "{error}; give its user the line that `berth acl` prints"
        )),
        LinkError::Failed(error)
            if error.kind() == ErrorKind::Server(ServerErrorKind::ResponseError) =>
        {
            Failure::Refused(error.to_string())
        }
        LinkError::Failed(error) => outage(error.to_string()),
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

/// The scripts read an empty text as unknown.
fn text_or_empty(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn unexpected(pool: &PoolName, verb: &'static str, reply: Vec<String>) -> StoreError {
    StoreError::Reply {
        pool: pool.clone(),
        verb,
        reply,
    }
}
