//! Brute-force models: what the scripts in Redis must do, written the plain way. A decision looks at
//! every worker, which is exactly what the scripts may not do; tests compare the two.

mod lifetime_first;

use crate::id::{Incarnation, WorkerId};
use crate::message::{DenyReason, Use};
use crate::policy::{Policy, Strategy};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Available,
    Draining,
    Recycling,
}

#[derive(Debug, Clone)]
pub struct Worker {
    pub incarnation: Incarnation,
    pub state: State,
    pub active: u64,
    pub lifetime: u64,
    /// The worker's own limit, below the pool's.
    pub max_concurrent: Option<u32>,
    /// When it was last chosen, counted in choices of its pool.
    pub chosen: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Admitted {
        worker: WorkerId,
        active: u64,
        lifetime: u64,
    },
    Denied(DenyReason),
}

/// A pool whose workers all have fresh heartbeats.
#[derive(Debug)]
pub struct Pool {
    pub policy: Policy,
    pub workers: BTreeMap<WorkerId, Worker>,
    /// Lease number to the worker's life it was taken on.
    pub leases: BTreeMap<u64, (WorkerId, Incarnation)>,
    choices: u64,
}

impl Pool {
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            workers: BTreeMap::new(),
            leases: BTreeMap::new(),
            choices: 0,
        }
    }

    pub fn register(
        &mut self,
        id: &WorkerId,
        incarnation: Incarnation,
        max_concurrent: Option<u32>,
    ) {
        let known = self.workers.get(id);
        let worker = match known {
            Some(worker) if worker.incarnation == incarnation => Worker {
                max_concurrent,
                ..worker.clone()
            },
            Some(_) | None => Worker {
                incarnation,
                state: State::Available,
                active: 0,
                lifetime: 0,
                max_concurrent,
                chosen: known.map_or(0, |worker| worker.chosen),
            },
        };
        self.workers.insert(id.clone(), worker);
    }

    pub fn drain(&mut self, id: &WorkerId) {
        if let Some(worker) = self.workers.get_mut(id)
            && worker.state == State::Available
        {
            worker.state = State::Draining;
        }
    }

    pub fn admit(&mut self, lease: u64) -> Decision {
        let chosen = match self.policy.strategy {
            Strategy::LifetimeFirst => lifetime_first::choose(self),
        };
        let Some(id) = chosen else {
            let open = self.workers.values().any(|worker| self.is_open(worker));
            return Decision::Denied(if open {
                DenyReason::PoolFull
            } else {
                DenyReason::NoWorker
            });
        };
        self.choices += 1;
        let max_lifetime = u64::from(self.policy.max_lifetime);
        let worker = self.workers.get_mut(&id).expect("a chosen worker is known");
        worker.chosen = self.choices;
        worker.active += 1;
        worker.lifetime += 1;
        if worker.lifetime >= max_lifetime {
            worker.state = State::Recycling;
        }
        let decision = Decision::Admitted {
            worker: id.clone(),
            active: worker.active,
            lifetime: worker.lifetime,
        };
        self.leases.insert(lease, (id, worker.incarnation.clone()));
        decision
    }

    pub fn release(&mut self, lease: u64, used: Use) {
        let Some((id, incarnation)) = self.leases.remove(&lease) else {
            return;
        };
        if let Some(worker) = self.workers.get_mut(&id)
            && worker.incarnation == incarnation
        {
            worker.active -= 1;
            worker.lifetime -= match used {
                Use::Used => 0,
                Use::Unused => 1,
            };
        }
    }

    /// Could serve if it had room.
    fn is_open(&self, worker: &Worker) -> bool {
        worker.state == State::Available && worker.lifetime < u64::from(self.policy.max_lifetime)
    }

    fn may_be_chosen(&self, worker: &Worker) -> bool {
        let limit = self.policy.max_concurrent;
        let limit = worker.max_concurrent.map_or(limit, |own| own.min(limit));
        self.is_open(worker) && worker.active < u64::from(limit)
    }
}
