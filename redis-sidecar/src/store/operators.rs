//! What operators ask and change.

use super::{Call, Store, encode, request_args, unexpected};
use crate::decode;
use crate::error::StoreError;
use crate::explain::{ExplainPage, ExplainRequest, Explanation};
use crate::lease_view::{Audit, LeaseView};
use crate::view::{PoolPage, PoolView};
use admission::id::{Epoch, PoolName};
use admission::policy::Policy;
use std::hash::{BuildHasher, Hasher, RandomState};

/// An audit reads everything of a pool in one script. With more than so many leases, each worker counted as several,
/// Redis would be held up for longer than sidecars wait for it.
const AUDIT_LEASES_MAX: u64 = 20_000;
/// A worker takes an audit as long as so many leases.
const AUDIT_LEASES_OF_A_WORKER: u64 = 8;
/// Holders come and go while an audit is prepared; in a pool in which they always do, it is given up.
const AUDIT_ATTEMPTS: usize = 10;

/// Whether an audit of so many leases and workers passes without being noticed.
pub(crate) fn is_light_audit(leases: u64, workers: u64) -> bool {
    leases.saturating_add(workers.saturating_mul(AUDIT_LEASES_OF_A_WORKER)) <= AUDIT_LEASES_MAX
}

impl Store {
    /// Every lease of the pool. Epochs are not shown, whoever knows one may change its leases.
    pub async fn leases(&self, pool: &PoolName) -> Result<Vec<LeaseView>, StoreError> {
        let mut leases = Vec::new();
        for epoch in self.holders(pool).await? {
            let mut next = Some("0".to_owned());
            while let Some(cursor) = next {
                let call = Call::of_holder("leases", pool, &epoch, vec![cursor]);
                let reply = self.run(call).await?;
                let page = decode::leases(&reply, &epoch);
                let (cursor, page) = page.ok_or_else(|| unexpected(pool, "leases", reply))?;
                leases.extend(page);
                next = cursor;
            }
        }
        leases.sort_by(|a, b| (&a.holder, a.number()).cmp(&(&b.holder, b.number())));
        leases.dedup_by(|a, b| a.lease == b.lease);
        Ok(leases)
    }

    async fn holders(&self, pool: &PoolName) -> Result<Vec<Epoch>, StoreError> {
        let (mut epochs, mut next) = (Vec::new(), Some("0".to_owned()));
        while let Some(cursor) = next {
            let call = self.pool_call("holders", pool, vec![cursor]);
            let reply = self.run(call).await?;
            let page = decode::holders(&reply);
            let (cursor, page) = page.ok_or_else(|| unexpected(pool, "holders", reply))?;
            epochs.extend(page);
            next = cursor;
        }
        epochs.sort();
        epochs.dedup();
        Ok(epochs)
    }

    /// Counts everything anew from the leases alone.
    pub async fn audit(&self, pool: &PoolName) -> Result<Audit, StoreError> {
        for _ in 0..AUDIT_ATTEMPTS {
            self.reap(pool).await?;
            let holders = self.holders(pool).await?;
            let call = Call {
                verb: "audit",
                pool,
                holders: &holders,
                args: vec![],
            };
            let reply = self.run(call).await?;
            if reply != ["again"] {
                return decode::audited(&reply).ok_or_else(|| unexpected(pool, "audit", reply));
            }
        }
        Err(StoreError::Unavailable(
            "holders come and go too fast for an audit".into(),
        ))
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
        for (name, pool) in self.pools.iter() {
            self.apply(name, &pool.policy).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_many_leases_nor_many_workers_are_counted_in_passing() {
        assert!(is_light_audit(20_000, 0) && is_light_audit(0, 2_500));
        assert!(!is_light_audit(20_001, 0) && !is_light_audit(0, 2_501));
        assert!(!is_light_audit(19_000, 200));
    }
}
