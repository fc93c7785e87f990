//! A worker's life.

use super::{Store, encode, text_or_empty, unexpected};
use crate::decode;
use crate::error::StoreError;
use admission::id::{PoolName, WorkerId};
use admission::message::{HeartbeatRequest, RegisterRequest, WorkerAnswer};

/// Whoever speaks for workers, by the name of its token; empty for who needs none, and may speak for all.
#[derive(Debug, Clone, Copy)]
pub struct Speaker<'a> {
    store: &'a Store,
    owner: &'a str,
}

impl Store {
    pub fn speaker<'a>(&'a self, owner: &'a str) -> Speaker<'a> {
        Speaker { store: self, owner }
    }

    pub async fn register(
        &self,
        pool: &PoolName,
        worker: &WorkerId,
        request: &RegisterRequest,
    ) -> Result<WorkerAnswer, StoreError> {
        self.speaker("").register(pool, worker, request).await
    }

    pub async fn heartbeat(
        &self,
        pool: &PoolName,
        worker: &WorkerId,
        request: &HeartbeatRequest,
    ) -> Result<WorkerAnswer, StoreError> {
        self.speaker("").heartbeat(pool, worker, request).await
    }

    pub async fn drain(
        &self,
        pool: &PoolName,
        worker: &WorkerId,
    ) -> Result<WorkerAnswer, StoreError> {
        self.speaker("").drain(pool, worker).await
    }

    /// Takes a worker out of its pool. Returns the leases it still has.
    pub async fn remove(&self, pool: &PoolName, worker: &WorkerId) -> Result<u64, StoreError> {
        self.speaker("").remove(pool, worker).await
    }
}

impl Speaker<'_> {
    pub async fn register(
        self,
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
            request.lifetime.unwrap_or(0).to_string(),
            text_or_empty(request.origin.as_ref()),
            self.owner.to_owned(),
        ];
        self.run_advised("register", pool, worker, args).await
    }

    pub async fn heartbeat(
        self,
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
            text_or_empty(request.sessions),
            self.owner.to_owned(),
        ];
        self.run_advised("heartbeat", pool, worker, args).await
    }

    pub async fn drain(
        self,
        pool: &PoolName,
        worker: &WorkerId,
    ) -> Result<WorkerAnswer, StoreError> {
        let args = vec![worker.to_string(), self.owner.to_owned()];
        self.run_advised("drain", pool, worker, args).await
    }

    pub async fn remove(self, pool: &PoolName, worker: &WorkerId) -> Result<u64, StoreError> {
        let args = vec![worker.to_string(), self.owner.to_owned()];
        let reply = self.run("remove", pool, worker, args).await?;
        match reply.as_slice() {
            [word, active] if word == "removed" => active
                .parse()
                .map_err(|_| unexpected(pool, "remove", reply.clone())),
            _ => Err(unexpected(pool, "remove", reply)),
        }
    }

    async fn run_advised(
        self,
        verb: &'static str,
        pool: &PoolName,
        worker: &WorkerId,
        args: Vec<String>,
    ) -> Result<WorkerAnswer, StoreError> {
        let reply = self.run(verb, pool, worker, args).await?;
        decode::advice(&reply).ok_or_else(|| unexpected(pool, verb, reply))
    }

    async fn run(
        self,
        verb: &'static str,
        pool: &PoolName,
        worker: &WorkerId,
        args: Vec<String>,
    ) -> Result<Vec<String>, StoreError> {
        let store = self.store;
        let reply = store.run(store.pool_call(verb, pool, args)).await?;
        let (pool, worker) = (pool.clone(), worker.clone());
        match reply.as_slice() {
            [word] if word == "unknown_worker" => Err(StoreError::UnknownWorker { pool, worker }),
            [word] if word == "not_yours" => Err(StoreError::OthersWorker { pool, worker }),
            [word] if word == "crowded" => Err(StoreError::Crowded(pool)),
            _ => Ok(reply),
        }
    }
}
