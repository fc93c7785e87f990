//! A worker's life.

use super::{Store, encode, text_or_empty, unexpected};
use crate::decode;
use crate::error::StoreError;
use admission::id::{PoolName, WorkerId};
use admission::message::{HeartbeatRequest, RegisterRequest, WorkerAnswer};

impl Store {
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
            request.lifetime.unwrap_or(0).to_string(),
            text_or_empty(request.origin.as_ref()),
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
            text_or_empty(request.sessions),
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

fn unknown_worker(pool: &PoolName, worker: &WorkerId) -> StoreError {
    StoreError::UnknownWorker {
        pool: pool.clone(),
        worker: worker.clone(),
    }
}
