use super::{Ledger, LifeId, What};
use crate::id::{Incarnation, WorkerId, beat_of};
use crate::message::{
    AdmitAnswer, AdmitRequest, Admitted, Denied, DenyReason, ReleaseAnswer, ReleaseRequest, Use,
};

#[derive(Debug, Clone)]
pub(super) struct Lease {
    pub(super) worker: WorkerId,
    pub(super) incarnation: Incarnation,
    /// Its number among the worker's leases since that life began.
    pub(super) lifetime: u64,
    pub(super) since_ms: u64,
}

/// A lease that has ended.
#[derive(Debug, Clone)]
pub(super) struct Tombstone {
    pub(super) until_ms: u64,
    /// Where it was, if it was held.
    life: Option<LifeId>,
}

/// Nothing here depends on it.
const RETRY_AFTER_MS: u64 = 1000;

impl Ledger {
    pub fn admit(&mut self, request: &AdmitRequest) -> AdmitAnswer {
        let epoch = &*request.holder.epoch.text();
        let number = request.lease.seq;
        // Also what it still holds: all of it is being taken, step by step.
        let record = self.holders.get(epoch);
        if self.guards.reclaimed_denied && record.is_some_and(|record| record.reclaimed) {
            return denied(DenyReason::Cancelled);
        }
        if let Some(admitted) = self.held(request) {
            return AdmitAnswer::Admitted(admitted);
        }
        if let Some(reason) = self.disbelieves(epoch, number) {
            return denied(reason);
        }
        if self.guards.rebuild_denies && self.rebuild.is_some() {
            return denied(DenyReason::Rebuilding);
        }
        let Some(worker) = self.choose() else {
            let fresh = self.workers.values().any(|worker| self.is_fresh(worker));
            return denied(if fresh {
                DenyReason::PoolFull
            } else {
                DenyReason::NoWorker
            });
        };
        let Some(incarnation) = self.workers.get(&worker).map(|w| w.incarnation.clone()) else {
            return denied(DenyReason::NoWorker);
        };
        let Some(life) = self.lives.get_mut(&(worker.clone(), incarnation.clone())) else {
            return denied(DenyReason::NoWorker);
        };
        life.active += 1;
        life.lifetime += 1;
        let lease = Lease {
            worker,
            incarnation,
            lifetime: life.lifetime,
            since_ms: self.now_ms,
        };
        self.holder(&request.holder).leases.insert(number, lease);
        self.note(epoch, number, What::Admitted);
        self.held(request)
            .map_or_else(|| denied(DenyReason::NoWorker), AdmitAnswer::Admitted)
    }

    /// Why nothing said in this lease's name is believed.
    fn disbelieves(&self, epoch: &str, number: u64) -> Option<DenyReason> {
        let minted_after = beat_of(number);
        let record = self.holders.get(epoch);
        // The first beat may still be on its way; after a second the store should know the holder.
        if minted_after > 1 && record.is_none_or(|record| record.beat == 0) {
            return Some(DenyReason::Rebuilding);
        }
        if let Some(record) = record {
            let asked = record.asking.contains(&number) && self.guards.asking_exception;
            if self.guards.beat_mark && minted_after < record.beat && !asked {
                return Some(DenyReason::Cancelled);
            }
        }
        let buried = self.tombstones.contains_key(&(epoch.to_owned(), number));
        (self.guards.tombstones && buried).then_some(DenyReason::Cancelled)
    }

    fn held(&self, request: &AdmitRequest) -> Option<Admitted> {
        let record = self.holders.get(&*request.holder.epoch.text())?;
        let lease = record.leases.get(&request.lease.seq)?;
        let life = (lease.worker.clone(), lease.incarnation.clone());
        let life = self.lives.get(&life)?;
        Some(Admitted {
            worker: lease.worker.clone(),
            incarnation: lease.incarnation.clone(),
            address: life.address,
            lease: request.lease.clone(),
            active: life.active,
            lifetime: lease.lifetime,
            probe: false,
            client: None,
            affinity: None,
        })
    }

    pub fn release(&mut self, request: &ReleaseRequest) -> ReleaseAnswer {
        let epoch = &*request.holder.epoch.text();
        let mut held = Vec::new();
        for release in &request.releases {
            let number = release.lease.seq;
            if self.is_quarantined(epoch, number) {
                held.push(false);
                continue;
            }
            let life = self.give_back(epoch, number);
            held.push(life.is_some());
            if let (Some(life), Use::Unused) = (&life, release.r#use)
                && let Some(life) = self.lives.get_mut(life)
            {
                life.lifetime = life.lifetime.saturating_sub(1);
            }
            self.bury(epoch, number, life);
            self.note(epoch, number, What::Released);
        }
        ReleaseAnswer::of(&held)
    }

    /// Of a quarantined holder's leases some may have been freed by guess, and the place of this one left
    /// for another that lives: what it releases waits for its next beat, which says what it holds.
    fn is_quarantined(&self, epoch: &str, number: u64) -> bool {
        let record = self.holders.get(epoch);
        record.is_some_and(|record| record.quarantined && record.leases.contains_key(&number))
    }

    fn bury(&mut self, epoch: &str, number: u64, life: Option<LifeId>) {
        let key = (epoch.to_owned(), number);
        let former = self.tombstones.get(&key).and_then(|t| t.life.clone());
        if let (Some(life), false) = (&former, self.guards.release_idempotent)
            && let Some(life) = self.lives.get_mut(life)
        {
            life.active = life.active.saturating_sub(1);
        }
        let tombstone = Tombstone {
            until_ms: self.now_ms + self.settings.lease_ttl_ms,
            life: life.or(former),
        };
        self.tombstones.insert(key, tombstone);
    }

    /// The only way out for a lease: it and its worker's `active` go together.
    pub(super) fn give_back(&mut self, epoch: &str, number: u64) -> Option<LifeId> {
        let lease = self.holders.get_mut(epoch)?.leases.remove(&number)?;
        let id = (lease.worker, lease.incarnation);
        if let Some(life) = self.lives.get_mut(&id) {
            life.active = life.active.saturating_sub(1);
        }
        Some(id)
    }
}

fn denied(reason: DenyReason) -> AdmitAnswer {
    AdmitAnswer::Denied(Denied {
        reason,
        retry_after_ms: RETRY_AFTER_MS,
    })
}
