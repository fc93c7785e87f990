//! Workers: what really happens.

use crate::event::{Event, Op, Then};
use crate::history::tell;
use crate::world::{SECOND, World};
use admission::id::{Address, Incarnation, WorkerId};
use admission::message::{Advice, HeartbeatRequest, RegisterRequest, WorkerAnswer};
use std::collections::BTreeSet;

const HEARTBEAT_US: u64 = 5 * SECOND;
const RETRY_US: u64 = SECOND;

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    address: Address,
    pub(crate) max_concurrent: u64,
    pub(crate) life: u64,
    /// From then on the present life listens at the worker's address.
    listens_from_us: u64,
    registered: bool,
    /// As it was last told.
    lifetime: u64,
    pub(crate) sessions: BTreeSet<usize>,
    pub(crate) over_since_us: Option<u64>,
    heard_at_us: Option<u64>,
}

impl Worker {
    pub(crate) fn new(number: u64, max_concurrent: u64) -> Self {
        Self {
            id: WorkerId::parse(&format!("w{number}")).unwrap(),
            address: Address::parse(&format!("10.0.0.{}:80", number + 1)).unwrap(),
            max_concurrent,
            life: 1,
            listens_from_us: 0,
            registered: false,
            lifetime: 0,
            sessions: BTreeSet::new(),
            over_since_us: None,
            heard_at_us: None,
        }
    }

    fn incarnation(&self) -> Incarnation {
        Incarnation::parse(&format!("i{}", self.life)).unwrap()
    }
}

impl World {
    pub(crate) fn worker_beats(&mut self, worker: usize, life: u64) {
        if self.workers[worker].life != life {
            return;
        }
        let it = &self.workers[worker];
        let heard =
            (it.heard_at_us).is_some_and(|at_us| self.now_us < at_us + HEARTBEAT_US + RETRY_US);
        let op = if it.registered {
            let request = HeartbeatRequest {
                incarnation: it.incarnation(),
                sessions: Some(it.sessions.len() as u64),
                report: None,
            };
            Op::Heartbeat(it.id.clone(), request)
        } else {
            let request = RegisterRequest {
                address: it.address,
                incarnation: it.incarnation(),
                max_concurrent: None,
                weight: 1.0,
                lifetime: Some(it.lifetime),
                origin: None,
            };
            Op::Register(it.id.clone(), request)
        };
        let next = if it.registered && heard {
            HEARTBEAT_US
        } else {
            RETRY_US
        };
        self.after(next, Event::Heartbeat { worker, life });
        let sidecar = self.chance.between(0, self.sidecars.len() as u64) as usize;
        if self.sidecars[sidecar].up && self.now_us >= self.sidecars[sidecar].frozen_until_us {
            self.ask_store(sidecar, op, Then::Worker { worker, life });
        }
    }

    pub(crate) fn worker_answered(&mut self, worker: usize, life: u64, answer: &WorkerAnswer) {
        let now_us = self.now_us;
        let it = &mut self.workers[worker];
        if it.life != life {
            return;
        }
        it.heard_at_us = Some(now_us);
        match answer.advice {
            Advice::Register => {
                if it.registered {
                    it.registered = false;
                    // The regular heartbeat is far away.
                    it.life = life;
                    self.queue.push(now_us, Event::Heartbeat { worker, life });
                }
            }
            Advice::Serve | Advice::Drain | Advice::Recycle => {
                it.registered = true;
                it.lifetime = it.lifetime.max(answer.lifetime);
            }
        }
    }

    pub(crate) fn session_opens(&mut self, stream: usize, worker: usize, life: u64) {
        // Whoever is sent to a place long after it was given meets whoever listens there now. (For those
        // whose place is new, a restart in between is too short a time to listen again.)
        let it = &self.workers[worker];
        let heard = self.streams[stream].reused && self.now_us >= it.listens_from_us;
        if it.life != life && !heard {
            let way = self.soon();
            return self.after(way, Event::Cut { stream });
        }
        self.workers[worker].sessions.insert(stream);
        self.note_overlap(worker);
    }

    pub(crate) fn session_closes(&mut self, stream: usize, worker: usize) {
        self.workers[worker].sessions.remove(&stream);
        self.note_overlap(worker);
    }

    fn note_overlap(&mut self, worker: usize) {
        let it = &mut self.workers[worker];
        if it.sessions.len() as u64 <= it.max_concurrent {
            it.over_since_us = None;
        } else if it.over_since_us.is_none() {
            let since_us = self.now_us;
            it.over_since_us = Some(since_us);
            tell!(self, format!("worker {worker}"), "has one session too many");
            let patience = crate::judge::OVERLAP_US;
            self.after(patience, Event::Overlap { worker, since_us });
        }
    }

    pub(crate) fn restart_worker(&mut self, worker: usize) {
        let sessions = std::mem::take(&mut self.workers[worker].sessions);
        for stream in sessions {
            let way = self.soon();
            self.after(way, Event::Cut { stream });
        }
        let it = &mut self.workers[worker];
        it.life += 1;
        it.registered = false;
        it.lifetime = 0;
        it.over_since_us = None;
        let life = it.life;
        let boot = self.chance.between(10_000, SECOND);
        self.workers[worker].listens_from_us = self.now_us + boot;
        self.after(boot, Event::Heartbeat { worker, life });
    }
}
