use super::{Ledger, What};
use crate::id::{Address, BEAT_SHIFT, Incarnation, WorkerId};
use crate::message::{Advice, HeartbeatRequest, RegisterRequest, WorkerAnswer};
use std::collections::BTreeMap;

/// What is known of one life of a worker.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) address: Address,
    pub(super) active: u64,
    pub(super) lifetime: u64,
}

/// A worker that has registered, in its present life.
#[derive(Debug, Clone)]
pub(super) struct Worker {
    pub(super) incarnation: Incarnation,
    pub(super) max_concurrent: u64,
    pub(super) heartbeat_at_ms: u64,
    /// The figures of its last heartbeats, the latest first.
    figures: Vec<Figure>,
}

#[derive(Debug, Clone, Copy)]
struct Figure {
    at_ms: u64,
    sessions: Option<u64>,
}

impl Ledger {
    pub fn register(&mut self, id: &WorkerId, request: &RegisterRequest) -> WorkerAnswer {
        let limit = self.settings.max_concurrent;
        let max_concurrent = request
            .max_concurrent
            .map_or(limit, |own| limit.min(own.into()));
        let life = self.live(id, &request.incarnation, request.address);
        life.address = request.address;
        life.lifetime = life.lifetime.max(request.lifetime.unwrap_or_default());
        let heartbeat_at_ms = self.now_ms;
        let former = self.workers.get(id);
        let figures = former
            .filter(|worker| worker.incarnation == request.incarnation)
            .map_or_else(Vec::new, |worker| worker.figures.clone());
        let worker = Worker {
            incarnation: request.incarnation.clone(),
            max_concurrent,
            heartbeat_at_ms,
            figures,
        };
        self.workers.insert(id.clone(), worker);
        self.answer_worker(id)
    }

    pub fn heartbeat(&mut self, id: &WorkerId, request: &HeartbeatRequest) -> WorkerAnswer {
        let now_ms = self.now_ms;
        let known =
            (self.workers.get_mut(id)).filter(|worker| worker.incarnation == request.incarnation);
        let Some(worker) = known else {
            return WorkerAnswer {
                advice: Advice::Register,
                active: 0,
                lifetime: 0,
            };
        };
        worker.heartbeat_at_ms = now_ms;
        let figure = Figure {
            at_ms: now_ms,
            sessions: request.sessions,
        };
        worker.figures.insert(0, figure);
        worker.figures.truncate(2);
        self.free_silent(id);
        self.answer_worker(id)
    }

    /// A life of a worker, noted if it was not known.
    pub(super) fn live(
        &mut self,
        id: &WorkerId,
        life: &Incarnation,
        address: Address,
    ) -> &mut Life {
        (self.lives.entry((id.clone(), life.clone()))).or_insert(Life {
            address,
            active: 0,
            lifetime: 0,
        })
    }

    /// The worker with the fewest leases that has room; ties go to the first id.
    pub(super) fn choose(&self) -> Option<WorkerId> {
        (self.workers.iter())
            .filter(|(_, worker)| self.is_fresh(worker))
            .filter_map(|(id, worker)| {
                let life = self.lives.get(&(id.clone(), worker.incarnation.clone()))?;
                (life.active < worker.max_concurrent).then_some((life.active, id))
            })
            .min()
            .map(|(_, id)| id.clone())
    }

    pub(super) fn is_fresh(&self, worker: &Worker) -> bool {
        self.now_ms < worker.heartbeat_at_ms + self.settings.lease_ttl_ms
    }

    /// Frees leases of silent holders above what their worker says it has.
    ///
    /// A figure says how many, not whose. Nothing is taken off for others: their releases may be on
    /// the way, or they may be dead and not known to be. So each silent holder is looked at as if all
    /// sessions were its own.
    fn free_silent(&mut self, id: &WorkerId) {
        let Some(worker) = self.workers.get(id) else {
            return;
        };
        let [figure, before] = worker.figures[..] else {
            return;
        };
        let Some(sessions) = figure.sessions else {
            return;
        };
        let incarnation = worker.incarnation.clone();
        let mut silent: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for (epoch, number, lease) in self.leases_on(id, &incarnation) {
            let Some(record) = self.holders.get(epoch) else {
                continue;
            };
            // A younger lease's session may not have begun when the worker counted, and of what no
            // beat has told nobody knows whether it will.
            let told = number < record.beat << BEAT_SHIFT && !record.asking.contains(&number);
            if record.quarantined && told && lease.since_ms < before.at_ms {
                silent.entry(epoch.to_owned()).or_default().push(number);
            }
        }
        let possible = usize::try_from(sessions).unwrap_or(usize::MAX);
        for (epoch, numbers) in silent {
            for number in numbers.into_iter().skip(possible) {
                self.give_back(&epoch, number);
                self.repairs.freed += 1;
                self.note(&epoch, number, What::Freed);
            }
        }
    }

    fn answer_worker(&self, id: &WorkerId) -> WorkerAnswer {
        let life = (self.workers.get(id))
            .and_then(|worker| self.lives.get(&(id.clone(), worker.incarnation.clone())));
        WorkerAnswer {
            advice: Advice::Serve,
            active: life.map_or(0, |life| life.active),
            lifetime: life.map_or(0, |life| life.lifetime),
        }
    }
}
