//! Events in the order of their time: what clients and workers do to the pool, and what that
//! leads to. Decisions are the models'; nothing here chooses a worker.

use super::run::{Admitted, Lifetime, Run, Served};
use super::server::Server;
use super::workload::{Arrivals, Plan, us};
use admission::id::{Incarnation, WorkerId};
use admission::message::{LoadReport, ServingStatus};
use admission::model::{Decision, End, Pool, Registration, Request, State};
use admission::policy::MAX_CONCURRENT_MAX;
use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client asks; a client without a number asks once.
    Ask(Option<u32>),
    /// A worker answers a request, unless its load has changed since this was foreseen.
    Answer {
        worker: usize,
        foreseen: u64,
    },
    Heartbeat {
        worker: usize,
    },
    /// A worker begins a life.
    Register {
        worker: usize,
    },
}

#[derive(Debug)]
struct Worker {
    id: WorkerId,
    lives: u64,
    life: Life,
    server: Server,
    /// Counts the changes of its load.
    changes: u64,
    dice: Rng,
    started_us: u64,
    /// Latencies since the last heartbeat, for its report.
    latencies_us: Vec<u64>,
    p95_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Serving,
    /// It was told to restart and finishes its sessions.
    Draining,
    /// Not there yet, or between two lives.
    Away,
}

#[derive(Debug)]
struct Stream {
    client: Option<u32>,
    worker: usize,
    admitted_us: u64,
}

pub fn run(plan: &Plan) -> Run {
    let mut engine = Engine::new(plan);
    engine.start();
    engine.finish();
    engine.run
}

struct Engine<'a> {
    plan: &'a Plan,
    pool: Pool,
    workers: Vec<Worker>,
    numbers: BTreeMap<WorkerId, usize>,
    /// By lease.
    streams: BTreeMap<u64, Stream>,
    leases: u64,
    /// (time, order of scheduling, event): what was scheduled first happens first.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    now_us: u64,
    dice: Rng,
    run: Run,
}

impl<'a> Engine<'a> {
    fn new(plan: &'a Plan) -> Self {
        let mut seeds = Rng::with_seed(plan.seed);
        // The dice of the models are never 0 and stay below 2³¹ − 1.
        let pool_seed = seeds.u32(1..(1 << 31) - 1);
        // Each source of chance has its own dice: all strategies see the same arrivals.
        let dice = seeds.fork();
        let workers: Vec<Worker> = (1..=plan.workers.len())
            .map(|number| Worker {
                id: WorkerId::parse(&format!("w{number:02}"))
                    .expect("a letter and a number are a name"),
                lives: 0,
                life: Life::Away,
                server: Server::new(plan.queueing),
                changes: 0,
                dice: seeds.fork(),
                started_us: 0,
                latencies_us: Vec::new(),
                p95_us: 0,
            })
            .collect();
        let numbers = workers.iter().map(|worker| worker.id.clone()).zip(0..);
        Self {
            plan,
            pool: Pool::new(plan.policy.clone(), pool_seed),
            numbers: numbers.collect(),
            streams: BTreeMap::new(),
            leases: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            now_us: 0,
            dice,
            run: Run {
                workers: workers.len(),
                length_us: us(plan.seconds * 1000.0),
                ..Run::default()
            },
            workers,
        }
    }

    fn start(&mut self) {
        for (worker, plan) in self.plan.workers.iter().enumerate() {
            self.schedule(us(plan.joins_ms), Event::Register { worker });
        }
        match self.plan.arrivals {
            Arrivals::Closed { clients } => {
                for client in 0..clients {
                    self.schedule(0, Event::Ask(Some(client)));
                }
            }
            Arrivals::Poisson { .. } | Arrivals::Paced { .. } => self.schedule_next_arrival(),
        }
    }

    /// What was admitted is served to its end: slow requests count as much as fast ones.
    fn finish(&mut self) {
        while let Some(Reverse((at_us, _, event))) = self.events.pop() {
            if at_us > self.run.length_us && self.streams.is_empty() {
                break;
            }
            self.now_us = at_us;
            self.pool.at(at_us as f64 / 1000.0);
            self.handle(event);
        }
    }

    fn schedule(&mut self, in_us: u64, event: Event) {
        self.scheduled += 1;
        let at_us = self.now_us + in_us;
        self.events.push(Reverse((at_us, self.scheduled, event)));
    }

    fn schedule_next_arrival(&mut self) {
        if let Some(gap_us) = self.plan.arrivals.gap_us(&mut self.dice) {
            self.schedule(gap_us, Event::Ask(None));
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Ask(client) => {
                if client.is_none() {
                    self.schedule_next_arrival();
                }
                self.ask(client);
            }
            Event::Answer { worker, foreseen } => {
                if self.workers[worker].changes == foreseen {
                    self.answer(worker);
                }
            }
            Event::Heartbeat { worker } => self.heartbeat(worker),
            Event::Register { worker } => self.register(worker),
        }
    }

    fn ask(&mut self, client: Option<u32>) {
        if self.now_us > self.run.length_us {
            return;
        }
        self.leases += 1;
        let lease = self.leases;
        match self.pool.admit(lease, &Request::default()) {
            Decision::Admitted {
                worker, lifetime, ..
            } => {
                let worker = self.numbers[&worker];
                let stream = Stream {
                    client,
                    worker,
                    admitted_us: self.now_us,
                };
                self.streams.insert(lease, stream);
                self.run.admitted.push(Admitted {
                    at_us: self.now_us,
                    worker,
                });
                self.note_lifetime(worker, lifetime);
                let chosen = &mut self.workers[worker];
                let work_us = self.plan.workers[worker].draw_us(self.now_us, &mut chosen.dice);
                chosen.server.begin(self.now_us, lease, work_us);
                self.foresee(worker);
            }
            Decision::Denied(_) => {
                self.run.denied += 1;
                if client.is_some() {
                    let wait_us = self.plan.policy.retry_after_ms.max(1) * 1000;
                    self.schedule(wait_us, Event::Ask(client));
                }
            }
        }
    }

    /// After a change of a worker's load: when it answers next.
    fn foresee(&mut self, worker: usize) {
        let changed = &mut self.workers[worker];
        changed.changes += 1;
        let foreseen = changed.changes;
        if let Some(at_us) = changed.server.next_us() {
            self.schedule(at_us - self.now_us, Event::Answer { worker, foreseen });
        }
    }

    fn answer(&mut self, worker: usize) {
        let Some(lease) = self.workers[worker].server.end(self.now_us) else {
            return;
        };
        self.foresee(worker);
        let Some(stream) = self.streams.remove(&lease) else {
            return;
        };
        let served_us = self.now_us - stream.admitted_us;
        self.pool.release(lease, End::served(served_us));
        self.run.served.push(Served {
            worker: stream.worker,
            admitted_us: stream.admitted_us,
            ended_us: self.now_us,
        });
        self.workers[worker].latencies_us.push(served_us);
        self.restart_if_drained(worker);
        if stream.client.is_some() {
            self.schedule(0, Event::Ask(stream.client));
        }
    }

    fn heartbeat(&mut self, worker: usize) {
        self.schedule(us(self.plan.heartbeat_ms), Event::Heartbeat { worker });
        if self.workers[worker].life == Life::Away {
            return;
        }
        let report = self.report(worker);
        let beating = &mut self.workers[worker];
        self.pool.heartbeat(&beating.id, Some(&report));
        let told = self.pool.workers.get(&beating.id);
        if told.is_some_and(|told| told.state == State::Recycling) {
            beating.life = Life::Draining;
        }
        self.restart_if_drained(worker);
    }

    fn restart_if_drained(&mut self, worker: usize) {
        let drained = &mut self.workers[worker];
        if drained.life == Life::Draining && drained.server.active() == 0 {
            drained.life = Life::Away;
            self.schedule(us(self.plan.restart_ms), Event::Register { worker });
        }
    }

    fn register(&mut self, worker: usize) {
        let born = &mut self.workers[worker];
        born.lives += 1;
        born.life = Life::Serving;
        born.started_us = self.now_us;
        let registration = Registration {
            incarnation: Incarnation::parse(&format!("life-{}", born.lives))
                .expect("a word and a number are a name"),
            max_concurrent: None,
            weight: 1.0,
        };
        self.pool.register(&born.id, registration);
        if born.lives == 1 {
            // Workers did not start together, so their heartbeats do not come together.
            let phase_us = (us(self.plan.heartbeat_ms) as f64 * born.dice.f64()) as u64;
            self.schedule(phase_us, Event::Heartbeat { worker });
        }
        self.note_lifetime(worker, 0);
    }

    fn note_lifetime(&mut self, worker: usize, lifetime: u64) {
        let max_lifetime = u64::from(self.plan.policy.max_lifetime);
        if max_lifetime == 0 {
            return;
        }
        if lifetime == max_lifetime {
            self.run.recycles += 1;
        }
        self.run.lifetimes.push(Lifetime {
            at_us: self.now_us,
            worker,
            lifetime,
        });
        let workers = self.pool.workers.values();
        let at_limit = workers.filter(|worker| worker.state == State::Recycling);
        self.run.at_limit_max = self.run.at_limit_max.max(at_limit.count());
    }

    /// What a worker says about itself.
    fn report(&mut self, worker: usize) -> LoadReport {
        /// The size that a worker without a limit gives itself.
        const PLACES: u32 = 100;
        let limit = self.plan.policy.max_concurrent;
        let places = if limit == MAX_CONCURRENT_MAX {
            PLACES
        } else {
            limit
        };
        let reporting = &mut self.workers[worker];
        reporting.latencies_us.sort_unstable();
        let rank = reporting.latencies_us.len() * 95 / 100;
        // A worker that served nobody repeats what it said before.
        if let Some(p95_us) = reporting.latencies_us.get(rank) {
            reporting.p95_us = *p95_us;
        }
        reporting.latencies_us.clear();
        let active = u32::try_from(reporting.server.active()).unwrap_or(u32::MAX);
        LoadReport {
            status: ServingStatus::Serving,
            running_http_session: active,
            running_sql: 0,
            running_tx: 0,
            max_http_sessions: places,
            max_open_conns: places,
            max_transaction_conns: places,
            open_conns: active,
            idle_conns: places.saturating_sub(active),
            wait_conn_count: 0,
            p95_latency_ms: reporting.p95_us as f64 / 1000.0,
            error_rate_1m: 0.0,
            timeouts_1m: 0,
            uptime_sec: super::run::seconds(self.now_us - reporting.started_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::{HEARTBEAT_MS, Queueing, WorkerPlan};
    use super::*;
    use admission::policy::{Policy, Strategy};

    #[test]
    fn every_lease_is_given_back() {
        for queueing in [Queueing::Delay, Queueing::Fifo, Queueing::Shared] {
            for strategy in Strategy::ALL {
                let plan = Plan {
                    policy: Policy {
                        strategy,
                        max_concurrent: 3,
                        max_lifetime: 100,
                        ..Policy::default()
                    },
                    workers: [5.0, 10.0, 50.0, 100.0].map(WorkerPlan::constant).to_vec(),
                    queueing,
                    arrivals: Arrivals::Closed { clients: 16 },
                    seconds: 10.0,
                    seed: 1,
                    heartbeat_ms: HEARTBEAT_MS,
                    restart_ms: 1000.0,
                };
                let mut engine = Engine::new(&plan);
                engine.start();
                engine.finish();
                assert!(engine.pool.leases.is_empty());
                assert!(
                    engine
                        .pool
                        .workers
                        .values()
                        .all(|worker| worker.active == 0)
                );
                assert_eq!(engine.run.admitted.len(), engine.run.served.len());
                assert!(engine.run.recycles > 0 && engine.run.denied > 0);
            }
        }
    }
}
