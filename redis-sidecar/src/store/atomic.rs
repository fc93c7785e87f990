//! Counts and rates that belong to no pool.

use super::{AGAIN_MAX, Failure, Store};
use crate::atomic::{CountKey, Done, Operation, Owner};
use crate::decode;
use crate::error::StoreError;
use crate::keys::{count_keys, rate_key};

impl Store {
    pub async fn atomic(&self, key: &CountKey, operation: &Operation) -> Result<Done, StoreError> {
        let Script { verb, keys, args } = Script::of(key, operation);
        let failed = |error| StoreError::Count {
            key: key.clone(),
            verb,
            error,
        };
        let mut taken_back = 0;
        for _ in 0..AGAIN_MAX {
            let reply = self.fcall(verb, [&keys, &[]], &args).await;
            let reply = reply.map_err(|failure| match failure {
                Failure::Refused(error) => failed(error),
                Failure::Outage(error) => error,
            })?;
            let unexpected = || failed(format!("answered {:?}", reply.first()));
            if let Some(taken) = decode::swept_in_part(&reply) {
                taken_back += taken;
                continue;
            }
            let mut done = decode::done(operation, &reply).ok_or_else(unexpected)?;
            done.taken_back += taken_back;
            return Ok(done);
        }
        Err(failed("has too much to sweep".into()))
    }
}

/// Which function an operation is, and what it gets.
struct Script {
    verb: &'static str,
    keys: Vec<String>,
    args: Vec<String>,
}

impl Script {
    fn of(key: &CountKey, operation: &Operation) -> Self {
        let name = |owner: Option<&Owner>| owner.map_or("", Owner::as_str).to_owned();
        let (verb, args) = match operation {
            Operation::CheckAndIncrement { limit, tenure } => {
                let owner = name(tenure.as_ref().map(|tenure| &tenure.owner));
                let ttl_ms = tenure.as_ref().map_or(0, |tenure| tenure.ttl_ms);
                let args = vec![limit.to_string(), owner, ttl_ms.to_string()];
                ("atomic_check_and_increment", args)
            }
            Operation::Decrement { owner } => ("atomic_decrement", vec![name(owner.as_ref())]),
            Operation::Renew { owner, ttl_ms } => {
                let ttl_ms = ttl_ms.unwrap_or(0).to_string();
                ("atomic_renew", vec![name(Some(owner)), ttl_ms])
            }
            Operation::CheckRateLimit { limit, window_s } => {
                let args = vec![limit.to_string(), window_s.to_string()];
                let keys = vec![rate_key(key, *window_s)];
                let verb = "atomic_check_rate_limit";
                return Self { verb, keys, args };
            }
            Operation::Get => ("atomic_get", vec![]),
        };
        let keys = count_keys(key);
        Self { verb, keys, args }
    }
}
