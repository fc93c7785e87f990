//! Brute-force models: what the scripts in Redis must do, written the plain way. A decision looks at
//! every worker, which is exactly what the scripts may not do; tests compare the two.

mod conduct;
mod dice;
mod least_connections;
pub mod ledger;
mod lifetime_first;
mod random;
mod round_robin;
mod score;
mod sewt;

use crate::id::{Incarnation, WorkerId};
use crate::message::{DenyReason, LoadReport, Operation, Use};
use crate::outcome::Outcome;
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
    /// What it last said about its load.
    load: Option<score::Load>,
    /// For each operation, as of its last event.
    scores: [Option<f64>; 3],
    conduct: conduct::Conduct,
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

/// More lives than this are not remembered, unless they have leases.
const FORMER_MAX: usize = 4;

impl Worker {
    pub fn karma(&self) -> f64 {
        self.conduct.karma
    }

    /// When its alarm rings, if it may be chosen and the choice is by chance.
    pub fn clock(&self) -> f64 {
        self.clock
    }

    /// How fast its clock runs.
    fn pace(&self) -> f64 {
        self.weight * self.conduct.pace()
    }

    /// Another life takes the place of this one: a new one, or one that comes back.
    fn begin(&mut self, incarnation: Incarnation) {
        let ended = Life {
            incarnation: std::mem::replace(&mut self.incarnation, incarnation),
            state: self.state,
            active: self.active,
            lifetime: self.lifetime,
        };
        self.load = None;
        self.former.insert(0, ended);
        // Who has leases is remembered, however many lives came after.
        for at in (0..self.former.len()).rev() {
            if self.former.len() > FORMER_MAX && self.former[at].active == 0 {
                self.former.remove(at);
            }
        }
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
    /// The event of its pool that it began with.
    since: u64,
    /// What an observation has told of its worker.
    told: Option<Outcome>,
}

/// What is known of a request before it is decided upon.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub bytes: u64,
    pub operation: Operation,
    /// The worker it stands on.
    pub own: Option<WorkerId>,
}

/// How a lease ended.
#[derive(Debug, Clone, Copy)]
pub struct End {
    pub r#use: Use,
    pub outcome: Outcome,
    /// How long the worker took; only a success teaches anything by it.
    pub served_us: Option<u64>,
}

impl End {
    pub fn unused() -> Self {
        Self {
            r#use: Use::Unused,
            outcome: Outcome::Unknown,
            served_us: None,
        }
    }

    pub fn served(us: u64) -> Self {
        Self {
            r#use: Use::Used,
            outcome: Outcome::Success,
            served_us: Some(us),
        }
    }
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
    /// The pool's clock.
    now_ms: f64,
    events: u64,
    ledger: conduct::Ledger,
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
            now_ms: 0.0,
            events: 0,
            ledger: conduct::Ledger::default(),
        }
    }

    /// What follows happens at this time of the pool's clock.
    pub fn at(&mut self, now_ms: f64) {
        self.now_ms = now_ms;
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
            load: None,
            scores: [None; 3],
            conduct: conduct::Conduct::default(),
            former: Vec::new(),
        });
        if worker.incarnation != incarnation {
            worker.begin(incarnation);
        }
        worker.max_concurrent = max_concurrent;
        let pace = worker.pace();
        worker.weight = weight;
        self.dice.repace(&mut worker, pace);
        self.ping(&mut worker);
        self.settle(id, worker);
    }

    pub fn heartbeat(&mut self, id: &WorkerId, report: Option<&LoadReport>) {
        if let Some(mut worker) = self.workers.remove(id) {
            self.events += 1;
            self.ping(&mut worker);
            if let Some(report) = report {
                worker.load = Some(score::Load {
                    report: report.clone(),
                    at: self.events,
                });
            }
            self.settle(id, worker);
        }
    }

    pub fn drain(&mut self, id: &WorkerId) {
        if let Some(mut worker) = self.workers.remove(id) {
            if worker.state == State::Available {
                worker.state = State::Draining;
            }
            self.settle(id, worker);
        }
    }

    pub fn admit(&mut self, lease: u64, request: &Request) -> Decision {
        let kind = match self.policy.strategy {
            Strategy::Sewt => sewt::kind_of(&self.policy.sewt, request.bytes),
            Strategy::Score => score::kind_of(request.operation),
            Strategy::LifetimeFirst
            | Strategy::RoundRobin
            | Strategy::LeastConnections
            | Strategy::Random
            | Strategy::Nodeads
            | Strategy::Noerrors => 0,
        };
        let own = self.own_worker(request, kind);
        let drawn = own.is_none();
        let chosen = own.or_else(|| self.choose(kind));
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
        if self.draws() && drawn {
            self.dice.ring(&mut worker);
        }
        let decision = Decision::Admitted {
            worker: id.clone(),
            active: worker.active,
            lifetime: worker.lifetime,
        };
        self.events += 1;
        let taken = Lease {
            worker: id.clone(),
            incarnation: worker.incarnation.clone(),
            kind,
            since: self.events,
            told: None,
        };
        self.leases.insert(lease, taken);
        self.settle(&id, worker);
        decision
    }

    /// The worker that the request stands on keeps it, if it may be chosen at all.
    fn own_worker(&self, request: &Request, kind: usize) -> Option<WorkerId> {
        let own = request.own.as_ref()?;
        let worker = self.workers.get(own)?;
        let scored = self.policy.strategy != Strategy::Score || worker.scores[kind].is_some();
        (self.may_be_chosen(worker) && scored).then(|| own.clone())
    }

    fn choose(&mut self, kind: usize) -> Option<WorkerId> {
        match self.policy.strategy {
            Strategy::LifetimeFirst => lifetime_first::choose(self),
            Strategy::RoundRobin => round_robin::choose(self),
            Strategy::LeastConnections => least_connections::choose(self),
            Strategy::Random => random::choose(self),
            Strategy::Sewt => sewt::choose(self, kind),
            Strategy::Score => score::choose(self, kind),
            Strategy::Nodeads | Strategy::Noerrors => conduct::choose(self),
        }
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
            self.learn(worker, &lease, end.outcome, end.served_us);
        } else {
            let taken_on = |life: &&mut Life| life.incarnation == lease.incarnation;
            if let Some(life) = worker.former.iter_mut().find(taken_on) {
                life.active -= 1;
                life.lifetime -= given_back;
            }
            self.workers.insert(lease.worker, worker);
        }
    }

    /// A lease tells of its worker while it goes on.
    pub fn observe(&mut self, lease: u64, outcome: Outcome, served_us: Option<u64>) {
        let Some(lease) = self.leases.get_mut(&lease) else {
            return;
        };
        let before = lease.clone();
        let Some(worker) = self.workers.get(&lease.worker) else {
            return;
        };
        if worker.incarnation == lease.incarnation {
            lease.told = Some(outcome);
            if let Some(worker) = self.workers.remove(&before.worker) {
                self.learn(worker, &before, outcome, served_us);
            }
        }
    }

    fn learn(&mut self, mut worker: Worker, lease: &Lease, outcome: Outcome, us: Option<u64>) {
        let id = &lease.worker;
        if self.judges() && lease.told != Some(outcome) {
            worker.conduct.judge(&self.policy, self.now_ms, outcome);
        }
        if let (Outcome::Success, Some(us)) = (outcome, us) {
            let us = us as f64;
            worker.estimates[lease.kind].observe(&self.policy.sewt, us);
            if self.judges() {
                self.workers.insert(id.clone(), worker);
                // What was served in an earlier period is settled before this is added to it.
                conduct::step(self, id);
                let Some(settled) = self.workers.remove(id) else {
                    return;
                };
                worker = settled;
                worker.conduct.time(&self.policy, self.now_ms, us);
            }
        }
        self.settle(id, worker);
    }

    /// After an event on a worker: puts it back, noting whether it may be chosen now.
    fn settle(&mut self, id: &WorkerId, worker: Worker) {
        self.workers.insert(id.clone(), worker);
        if self.judges() {
            conduct::settle(self, id);
        }
        let scores = score::scores(self, id);
        let draws = self.draws();
        if let Some((id, mut worker)) = self.workers.remove_entry(id) {
            let listed = self.may_be_chosen(&worker);
            if listed && !worker.listed && draws {
                self.dice.wind(&mut worker);
            }
            worker.listed = listed;
            worker.scores = scores;
            self.workers.insert(id, worker);
        }
    }

    /// Whether the choice is by clocks.
    fn draws(&self) -> bool {
        self.policy.strategy == Strategy::Random || self.judges()
    }

    /// Whether the choice is by how workers conduct themselves.
    fn judges(&self) -> bool {
        matches!(self.policy.strategy, Strategy::Nodeads | Strategy::Noerrors)
    }

    /// A worker shows a sign of life.
    fn ping(&self, worker: &mut Worker) {
        if self.judges() {
            worker.conduct.ping(&self.policy, self.now_ms);
        }
    }

    /// Each worker's part of the whole, by karma.
    pub fn shares(&self) -> BTreeMap<WorkerId, f64> {
        let total: f64 = self
            .workers
            .values()
            .map(|worker| worker.conduct.karma)
            .sum();
        let share = |(id, worker): (&WorkerId, &Worker)| (id.clone(), worker.conduct.karma / total);
        self.workers.iter().map(share).collect()
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
