//! What operators ask and change.

use super::{Store, encode, request_args, unexpected};
use crate::decode;
use crate::error::StoreError;
use crate::explain::{ExplainPage, ExplainRequest, Explanation};
use crate::view::{PoolPage, PoolView};
use admission::id::PoolName;
use admission::policy::Policy;
use std::hash::{BuildHasher, Hasher, RandomState};

impl Store {
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
}

/// Park and Miller's generator takes any number from 1 to 2^31 - 2.
fn random_seed() -> u32 {
    const SEEDS: u64 = (1 << 31) - 2;
    let random = RandomState::new().build_hasher().finish();
    u32::try_from(random % SEEDS).unwrap_or_default() + 1
}
