//! The store's side of the lease protocol (docs/leases.md) for one pool, written the plain way: every
//! figure is counted anew, and every holder is looked at. What it answers is what the scripts must.

mod guards;
mod holder;
mod lease;
mod rebuild;
mod reclaim;
#[cfg(test)]
mod tests;
mod worker;

pub use guards::Guards;
pub use holder::Presence;
pub use rebuild::Reaped;

use crate::id::{HolderId, Incarnation, WorkerId};
use holder::Holder;
use lease::{Lease, Tombstone};
use rebuild::Rebuild;
use std::collections::BTreeMap;
use worker::{Life, Worker};

/// One life of a worker.
type LifeId = (WorkerId, Incarnation);
/// A lease: its holder's epoch, and its number within that holder.
type LeaseKey = (String, u64);

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub max_concurrent: u64,
    /// How long a holder is believed without a beat, and a worker without a heartbeat.
    pub lease_ttl_ms: u64,
    /// How long a holder whose presence ended has for a beat or another opening.
    pub grace_ms: u64,
    pub rebuild_ms: u64,
    /// The longest step of the pool's clock.
    pub step_max_ms: u64,
    /// Leases that one reclaim takes.
    pub reclaim_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_concurrent: 1,
            lease_ttl_ms: 15_000,
            grace_ms: 1_500,
            rebuild_ms: 1_500,
            step_max_ms: 700,
            reclaim_max: 256,
        }
    }
}

/// What happened to a lease, for whoever judges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub epoch: String,
    pub number: u64,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Admitted,
    /// Held or not: it has ended.
    Released,
    Reasserted,
    Renounced,
    Reclaimed,
    /// Taken from a quarantined holder, by its worker's figure.
    Freed,
}

/// How often the store had to be put right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repairs {
    pub reasserted: u64,
    pub overcommitted: u64,
    pub renounced: u64,
    pub reclaimed: u64,
    pub quarantined: u64,
    pub freed: u64,
    pub rebuilds: u64,
}

#[derive(Debug, Clone)]
pub struct Ledger {
    settings: Settings,
    guards: Guards,
    /// The server's run id, and the one that the pool was last used with.
    run: u64,
    used_with: Option<u64>,
    /// The server's clock when it was last read.
    wall_ms: u64,
    /// The pool's clock.
    now_ms: u64,
    lives: BTreeMap<LifeId, Life>,
    workers: BTreeMap<WorkerId, Worker>,
    /// By epoch.
    holders: BTreeMap<String, Holder>,
    tombstones: BTreeMap<LeaseKey, Tombstone>,
    rebuild: Option<Rebuild>,
    /// When the last rebuild began.
    rebuilt_at_ms: u64,
    repairs: Repairs,
    changes: Vec<Change>,
}

impl Ledger {
    pub fn new(settings: Settings, guards: Guards) -> Self {
        Self {
            settings,
            guards,
            run: 1,
            used_with: None,
            wall_ms: 0,
            now_ms: 0,
            lives: BTreeMap::new(),
            workers: BTreeMap::new(),
            holders: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            rebuild: None,
            rebuilt_at_ms: 0,
            repairs: Repairs::default(),
            changes: Vec::new(),
        }
    }

    /// What follows happens at this time of the server's clock. The pool's own clock follows it in
    /// steps of bounded length: neither a pause nor a jump may make anything expire.
    pub fn at(&mut self, wall_ms: u64) {
        let step_max_ms = if self.guards.clock_step_capped {
            self.settings.step_max_ms
        } else {
            u64::MAX
        };
        if self.wall_ms > 0 {
            self.now_ms += wall_ms.saturating_sub(self.wall_ms).min(step_max_ms);
        }
        self.wall_ms = wall_ms;
        let now_ms = self.now_ms;
        (self.tombstones).retain(|_, tombstone| tombstone.until_ms > now_ms);
        self.tend_rebuild();
    }

    /// The pool's clock.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub fn repairs(&self) -> Repairs {
        self.repairs
    }

    /// What happened to leases since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Whether anything is noted of the holder.
    pub fn knows(&self, holder: &HolderId) -> bool {
        self.holders.contains_key(&*holder.epoch.text())
    }

    pub fn holds(&self, holder: &HolderId, number: u64) -> bool {
        (self.holders.get(&*holder.epoch.text()))
            .is_some_and(|record| record.leases.contains_key(&number))
    }

    /// How many leases the holder has on the worker, in whichever of its lives.
    pub fn count_on(&self, holder: &HolderId, worker: &WorkerId) -> usize {
        (self.holders.get(&*holder.epoch.text()))
            .into_iter()
            .flat_map(|record| record.leases.values())
            .filter(|lease| lease.worker == *worker)
            .count()
    }

    /// Every lease, by its holder's epoch.
    pub fn leases(&self) -> impl Iterator<Item = (&str, u64)> {
        self.holders
            .iter()
            .flat_map(|(epoch, record)| record.leases.keys().map(move |n| (epoch.as_str(), *n)))
    }

    /// The worker's leases since that life began, as the store counts them.
    pub fn lifetime(&self, worker: &WorkerId, incarnation: &Incarnation) -> u64 {
        (self.lives.get(&(worker.clone(), incarnation.clone()))).map_or(0, |life| life.lifetime)
    }

    /// What must hold after every verb; the sentence says what does not.
    pub fn check(&self) -> Result<(), String> {
        for ((worker, incarnation), life) in &self.lives {
            let leases = self.leases_on(worker, incarnation).count() as u64;
            if leases != life.active {
                return Err(format!(
                    "worker {worker} {incarnation}: active {}, leases {leases}",
                    life.active
                ));
            }
        }
        for (epoch, record) in &self.holders {
            for (number, lease) in &record.leases {
                let life = (lease.worker.clone(), lease.incarnation.clone());
                if !self.lives.contains_key(&life) {
                    return Err(format!(
                        "lease {epoch}.{number}: on a life that is not known"
                    ));
                }
                if self.tombstones.contains_key(&(epoch.clone(), *number)) {
                    return Err(format!("lease {epoch}.{number}: held, with a tombstone"));
                }
            }
        }
        Ok(())
    }

    fn leases_on<'a>(
        &'a self,
        worker: &'a WorkerId,
        incarnation: &'a Incarnation,
    ) -> impl Iterator<Item = (&'a str, u64, &'a Lease)> {
        (self.holders.iter())
            .flat_map(|(epoch, record)| {
                (record.leases.iter()).map(move |(number, lease)| (epoch.as_str(), *number, lease))
            })
            .filter(move |(_, _, lease)| {
                lease.worker == *worker && lease.incarnation == *incarnation
            })
    }

    fn note(&mut self, epoch: &str, number: u64, what: What) {
        self.changes.push(Change {
            epoch: epoch.to_owned(),
            number,
            what,
        });
    }
}
