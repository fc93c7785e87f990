//! Brute-force models: what the scripts in Redis must do, written the plain way. A decision looks at
//! every worker, which is exactly what the scripts may not do; tests compare the two.

mod dice;
mod least_connections;
mod lifetime_first;
mod random;
mod round_robin;
mod sewt;

use crate::id::{Incarnation, WorkerId};
use crate::message::{DenyReason, Use};
use crate::policy::{Policy, Strategy};
use dice::Dice;
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
    pub weight: f64,
    /// The worker's own limit, below the pool's.
    pub max_concurrent: Option<u32>,
    /// When it was last chosen, counted in choices of its pool.
    pub chosen: u64,
    /// When its alarm rings, for the strategies that leave it to chance.
    clock: f64,
    /// Whether it could be chosen after its last event.
    listed: bool,
    estimates: [sewt::Estimate; 3],
    /// Its lives before this one, the latest first.
    former: Vec<Life>,
}

/// What is known of a worker's former life.
#[derive(Debug, Clone)]
struct Life {
    incarnation: Incarnation,
    state: State,
    active: u64,
    lifetime: u64,
}

/// More lives than this are not remembered.
const FORMER_MAX: usize = 4;

impl Worker {
    /// Another life takes the place of this one: a new one, or one that comes back.
    fn begin(&mut self, incarnation: Incarnation) {
        let ended = Life {
            incarnation: std::mem::replace(&mut self.incarnation, incarnation),
            state: self.state,
            active: self.active,
            lifetime: self.lifetime,
        };
        self.former.insert(0, ended);
        self.former.truncate(FORMER_MAX);
        let back = (self.former.iter()).position(|life| life.incarnation == self.incarnation);
        (self.state, self.active, self.lifetime) = match back.map(|at| self.former.remove(at)) {
            Some(life) => (life.state, life.active, life.lifetime),
            None => (State::Available, 0, 0),
        };
    }
}

/// What a worker says about itself when it registers.
#[derive(Debug, Clone)]
pub struct Registration {
    pub incarnation: Incarnation,
    pub max_concurrent: Option<u32>,
    pub weight: f64,
}

#[derive(Debug, Clone)]
pub struct Lease {
    worker: WorkerId,
    incarnation: Incarnation,
    kind: usize,
}

/// How a lease ended.
#[derive(Debug, Clone, Copy)]
pub struct End {
    pub r#use: Use,
    /// How long the worker took, if it answered well.
    pub served_us: Option<u64>,
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
    policy: Policy,
    pub workers: BTreeMap<WorkerId, Worker>,
    /// By lease number.
    pub leases: BTreeMap<u64, Lease>,
    choices: u64,
    dice: Dice,
}

impl Pool {
    /// The seed is the one that the pool in Redis was created with.
    pub fn new(policy: Policy, seed: u32) -> Self {
        Self {
            policy,
            workers: BTreeMap::new(),
            leases: BTreeMap::new(),
            choices: 0,
            dice: Dice::new(seed),
        }
    }

    pub fn register(&mut self, id: &WorkerId, registration: Registration) {
        let Registration {
            incarnation,
            max_concurrent,
            weight,
        } = registration;
        let mut worker = self.workers.remove(id).unwrap_or_else(|| Worker {
            incarnation: incarnation.clone(),
            state: State::Available,
            active: 0,
            lifetime: 0,
            weight: 1.0,
            max_concurrent,
            chosen: 0,
            clock: 0.0,
            listed: false,
            estimates: Default::default(),
            former: Vec::new(),
        });
        if worker.incarnation != incarnation {
            worker.begin(incarnation);
        }
        worker.max_concurrent = max_concurrent;
        self.dice.reweigh(&mut worker, weight);
        self.settle(id, worker);
    }

    pub fn drain(&mut self, id: &WorkerId) {
        if let Some(mut worker) = self.workers.remove(id) {
            if worker.state == State::Available {
                worker.state = State::Draining;
            }
            self.settle(id, worker);
        }
    }

    pub fn admit(&mut self, lease: u64, bytes: u64) -> Decision {
        let kind = match self.policy.strategy {
            Strategy::Sewt => sewt::kind_of(&self.policy.sewt, bytes),
            Strategy::LifetimeFirst
            | Strategy::RoundRobin
            | Strategy::LeastConnections
            | Strategy::Random => 0,
        };
        let chosen = match self.policy.strategy {
            Strategy::LifetimeFirst => lifetime_first::choose(self),
            Strategy::RoundRobin => round_robin::choose(self),
            Strategy::LeastConnections => least_connections::choose(self),
            Strategy::Random => random::choose(self),
            Strategy::Sewt => sewt::choose(self, kind),
        };
        let Some((id, mut worker)) = chosen.and_then(|id| self.workers.remove_entry(&id)) else {
            let open = self.workers.values().any(|worker| self.is_open(worker));
            return Decision::Denied(if open {
                DenyReason::PoolFull
            } else {
                DenyReason::NoWorker
            });
        };
        self.choices += 1;
        worker.chosen = self.choices;
        worker.active += 1;
        worker.lifetime += 1;
        if self.limit_reached(&worker) {
            worker.state = State::Recycling;
        }
        if self.policy.strategy == Strategy::Random {
            self.dice.ring(&mut worker);
        }
        let decision = Decision::Admitted {
            worker: id.clone(),
            active: worker.active,
            lifetime: worker.lifetime,
        };
        let taken = Lease {
            worker: id.clone(),
            incarnation: worker.incarnation.clone(),
            kind,
        };
        self.leases.insert(lease, taken);
        self.settle(&id, worker);
        decision
    }

    pub fn release(&mut self, lease: u64, end: End) {
        let Some(lease) = self.leases.remove(&lease) else {
            return;
        };
        let given_back = match end.r#use {
            Use::Used => 0,
            Use::Unused => 1,
        };
        let Some(mut worker) = self.workers.remove(&lease.worker) else {
            return;
        };
        if worker.incarnation == lease.incarnation {
            worker.active -= 1;
            worker.lifetime -= given_back;
            if let Some(us) = end.served_us {
                worker.estimates[lease.kind].observe(&self.policy.sewt, us as f64);
            }
        } else {
            let taken_on = |life: &&mut Life| life.incarnation == lease.incarnation;
            if let Some(life) = worker.former.iter_mut().find(taken_on) {
                life.active -= 1;
                life.lifetime -= given_back;
            }
        }
        self.settle(&lease.worker, worker);
    }

    /// After an event on a worker: puts it back, noting whether it may be chosen now.
    fn settle(&mut self, id: &WorkerId, mut worker: Worker) {
        let listed = self.may_be_chosen(&worker);
        if listed && !worker.listed && self.policy.strategy == Strategy::Random {
            self.dice.enter(&mut worker);
        }
        worker.listed = listed;
        self.workers.insert(id.clone(), worker);
    }

    fn limit_reached(&self, worker: &Worker) -> bool {
        let max_lifetime = u64::from(self.policy.max_lifetime);
        max_lifetime > 0 && worker.lifetime >= max_lifetime
    }

    /// Could serve if it had room.
    fn is_open(&self, worker: &Worker) -> bool {
        worker.state == State::Available && !self.limit_reached(worker)
    }

    fn may_be_chosen(&self, worker: &Worker) -> bool {
        let limit = self.policy.max_concurrent;
        let limit = worker.max_concurrent.map_or(limit, |own| own.min(limit));
        self.is_open(worker) && worker.active < u64::from(limit)
    }

    /// The candidate with the lowest cost; ties go to the least recently chosen, then to the id.
    fn lowest<Cost: PartialOrd>(&self, cost: impl Fn(&Worker) -> Option<Cost>) -> Option<WorkerId> {
        let mut best: Option<(Cost, &Worker, &WorkerId)> = None;
        for (id, worker) in &self.workers {
            if !self.may_be_chosen(worker) {
                continue;
            }
            let Some(cost) = cost(worker) else {
                continue;
            };
            let better = best.as_ref().is_none_or(|(lowest, other, _)| {
                cost < *lowest || (cost == *lowest && worker.chosen < other.chosen)
            });
            if better {
                best = Some((cost, worker, id));
            }
        }
        best.map(|(_, _, id)| id.clone())
    }
}
