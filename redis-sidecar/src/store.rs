//! The pools as Redis holds them: one function per verb, each one script call. Here is how a verb is
//! called; the verbs themselves are in families.

mod atomic;
mod holders;
mod leases;
mod operators;
mod renew;
mod workers;

pub use holders::{Reaped, Sign, Standing};
pub use operators::AUDIT_LEASES_MAX;
pub use workers::Speaker;

use crate::error::StoreError;
use crate::keys::{holder_key, pool_keys};
use crate::library::{Library, VERBS};
use crate::link::Link;
use crate::settings::RedisSettings;
use admission::id::{Epoch, PoolName, WorkerId};
use admission::message::Operation;
use admission::policy::Policy;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult};
use serde::Serialize;
use std::collections::BTreeMap;
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
    /// Whose keys it gets; one for nearly all that get any.
    holders: &'a [Epoch],
    args: Vec<String>,
}

/// Why a function has no answer: Redis refused it, or could not be asked.
enum Failure {
    Refused(String),
    Unavailable(String),
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
        let timeout = Duration::from_millis(settings.timeout_ms);
        let link = Link::start(&settings.url, timeout)
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self {
            link,
            library: Arc::new(library),
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

    /// How often Redis was lost.
    pub fn losses(&self) -> u64 {
        self.link.losses()
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
        let keys = pool_keys(call.pool).into_iter().chain(
            call.holders
                .iter()
                .map(|epoch| holder_key(call.pool, epoch)),
        );
        let reply = self.fcall(call.verb, keys.collect(), &call.args).await;
        reply.map_err(|failure| match failure {
            Failure::Refused(error) => StoreError::Script {
                pool: call.pool.clone(),
                verb: call.verb,
                error,
            },
            Failure::Unavailable(why) => StoreError::Unavailable(why),
        })
    }

    async fn fcall(
        &self,
        verb: &str,
        keys: Vec<String>,
        args: &[String],
    ) -> Result<Vec<String>, Failure> {
        let mut command = redis::cmd("FCALL");
        command
            .arg(self.library.function(verb))
            .arg(keys.len())
            .arg(keys)
            .arg(args);
        let exchange = async |connection, server: &str| {
            command.arg(server); // always the last: see lua/lib/keys.lua
            self.exchange(connection, &command).await
        };
        match self.link.call(exchange).await {
            Some(Ok(reply)) => Ok(reply),
            Some(Err(error)) if error.kind() == redis::ServerErrorKind::ResponseError.into() => {
                Err(Failure::Refused(error.to_string()))
            }
            Some(Err(error)) => Err(Failure::Unavailable(error.to_string())),
            None => Err(Failure::Unavailable("not connected".into())),
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

fn is_unknown_function(error: &RedisError) -> bool {
    error
        .detail()
        .is_some_and(|detail| detail.contains("Function not found"))
}

fn unexpected(pool: &PoolName, verb: &'static str, reply: Vec<String>) -> StoreError {
    StoreError::Reply {
        pool: pool.clone(),
        verb,
        reply,
    }
}
