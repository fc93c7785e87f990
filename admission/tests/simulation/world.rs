//! Envoys, sidecars, workers and the store, and everything that happens between them.

use crate::chance::Chance;
use crate::event::{Event, Fault, Queue};
use crate::history::History;
use crate::judge::{Judge, Violation};
use crate::network::Weather;
use crate::schedule;
use crate::sidecar::Sidecar;
use crate::store::Store;
use crate::stream::Stream;
use crate::vm::Vm;
use crate::worker::Worker;
use admission::config::{OnLeaseLost, OnOutage};
use admission::model::ledger::{Guards, Ledger, Settings};
use std::collections::BTreeMap;

pub(crate) const SECOND: u64 = 1_000_000;
/// Faults and new sessions end here.
pub(crate) const BUSY_US: u64 = 60 * SECOND;
/// From then on, everything heals: what lives must be held, and nothing else.
const SETTLE_US: u64 = 6 * SECOND;
const QUIET_US: u64 = 40 * SECOND;
const JUDGE_US: u64 = SECOND / 4;

/// An Envoy. A trapped VM may live on beside the one that serves.
#[derive(Debug, Default)]
pub(crate) struct Envoy {
    pub(crate) vm: Option<usize>,
    pub(crate) frozen_until_us: u64,
    pub(crate) muffled_until_us: u64,
    /// Until then nobody hears it, but its presence stands.
    pub(crate) unheard_until_us: u64,
    /// Mean time between two clients.
    pub(crate) arrival_us: u64,
}

pub(crate) struct World {
    pub(crate) now_us: u64,
    pub(crate) queue: Queue,
    pub(crate) chance: Chance,
    pub(crate) weather: Weather,
    pub(crate) history: History,
    pub(crate) envoys: Vec<Envoy>,
    pub(crate) vms: Vec<Vm>,
    /// Which VM has which epoch.
    pub(crate) epochs: BTreeMap<String, usize>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) sidecars: Vec<Sidecar>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) store: Store,
    pub(crate) judge: Judge,
    pub(crate) tokens: u64,
    pub(crate) on_lease_lost: OnLeaseLost,
    pub(crate) on_outage: OnOutage,
    pub(crate) backlog_max: usize,
    pub(crate) session_us: u64,
    pub(crate) quiet: bool,
    /// When a presence was last cut.
    pub(crate) last_cut_us: u64,
}

impl World {
    pub(crate) fn new(seed: u64, guards: Guards, history: History) -> Self {
        let mut chance = Chance::new(seed);
        let max_concurrent = chance.between(1, 5);
        let settings = Settings {
            max_concurrent,
            // Few, so that a reclaim takes several steps.
            reclaim_max: 2,
            ..Settings::default()
        };
        let worker_count = chance.between(2, 4);
        let envoy_count = chance.between(2, 4);
        let arrival_us = chance.between(30_000, 400_000) * envoy_count;
        let envoy = |_| Envoy {
            vm: None,
            frozen_until_us: 0,
            muffled_until_us: 0,
            unheard_until_us: 0,
            arrival_us,
        };
        let mut world = Self {
            now_us: 0,
            queue: Queue::default(),
            weather: Weather::of(&mut chance),
            history,
            envoys: (0..envoy_count).map(envoy).collect(),
            vms: Vec::new(),
            epochs: BTreeMap::new(),
            streams: Vec::new(),
            sidecars: (0..2).map(|_| Sidecar::default()).collect(),
            workers: (0..worker_count)
                .map(|worker| Worker::new(worker, max_concurrent))
                .collect(),
            store: Store::new(Ledger::new(settings, guards)),
            judge: Judge::default(),
            tokens: 0,
            on_lease_lost: if chance.in_thousand(700) {
                OnLeaseLost::Keep
            } else {
                OnLeaseLost::Close
            },
            // Every other world, and nothing else changes in the rest.
            on_outage: if seed.is_multiple_of(2) {
                OnOutage::LocalShare
            } else {
                OnOutage::Deny
            },
            backlog_max: chance.pick(&[1, 2, 1000, 1000]),
            session_us: chance.pick(&[SECOND / 2, 3 * SECOND, 20 * SECOND]),
            quiet: false,
            last_cut_us: 0,
            chance,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for envoy in 0..self.envoys.len() {
            self.start_vm(envoy);
            self.queue.push(0, Event::Arrive { envoy });
        }
        for sidecar in 0..self.sidecars.len() {
            self.start_sidecar(sidecar);
        }
        for worker in 0..self.workers.len() {
            self.queue.push(0, Event::Heartbeat { worker, life: 1 });
        }
        let sizes = (self.envoys.len(), self.workers.len());
        for (at_us, fault) in schedule::faults(&mut self.chance, sizes, self.on_outage) {
            self.queue.push(at_us, Event::Fault(fault));
        }
        self.queue.push(JUDGE_US, Event::Judge);
        self.queue.push(BUSY_US, Event::Quiet);
        self.queue.push(BUSY_US + SETTLE_US, Event::CloseAll);
        self.queue.push(BUSY_US + SETTLE_US + QUIET_US, Event::End);
    }

    /// Runs to the end, or to the first violation.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        while let Some((at_us, event)) = self.queue.pop() {
            self.now_us = at_us;
            if matches!(event, Event::End) {
                self.judge_emptiness();
                break;
            }
            self.happen(event);
            if self.judge.violation.is_some() {
                break;
            }
        }
        self.judge.violation.take().map_or(Ok(()), Err)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick { vm } => self.tick(vm),
            Event::Arrive { envoy } => self.arrive(envoy),
            Event::Leave { stream } => self.leave(stream),
            Event::Cut { stream } => self.leave(stream),
            Event::ToSidecar {
                sidecar,
                vm,
                token,
                call,
            } => self.call_arrives(sidecar, vm, token, call),
            Event::Present {
                sidecar,
                vm,
                number,
            } => self.presence_arrives(sidecar, vm, number),
            Event::PresenceEnded {
                vm,
                number,
                answered,
            } => self.presence_ended(vm, number, answered),
            Event::Eof {
                sidecar,
                life,
                vm,
                number,
            } => self.eof(sidecar, life, vm, number),
            Event::ToStore {
                sidecar,
                life,
                run,
                op,
                then,
            } => self.store_asked(sidecar, life, run, op, then),
            Event::FromStore {
                sidecar,
                life,
                answer,
                then,
            } => self.store_answered(sidecar, life, answer, then),
            Event::ToVm { vm, token, reply } => self.reply_arrives(vm, token, reply),
            Event::Timeout { vm, token } => self.timeout(vm, token),
            Event::Open {
                stream,
                worker,
                life,
            } => self.session_opens(stream, worker, life),
            Event::Close { stream, worker } => self.session_closes(stream, worker),
            Event::Heartbeat { worker, life } => self.worker_beats(worker, life),
            Event::Reap { sidecar, life } => self.sidecar_reaps(sidecar, life),
            Event::Vouch { sidecar, life } => self.sidecar_vouches(sidecar, life),
            Event::BreakPresences { sidecar, life } => self.break_frozen(sidecar, life),
            Event::Fault(fault) => self.fault(fault),
            Event::Judge => {
                self.judge_all();
                self.queue.push(self.now_us + JUDGE_US, Event::Judge);
            }
            Event::Overlap { worker, since_us } => self.judge_overlap(worker, since_us),
            Event::Quiet => {
                self.quiet = true;
                self.weather = Weather::CALM;
                for sidecar in 0..self.sidecars.len() {
                    self.fault(Fault::StartSidecar { sidecar });
                }
                for envoy in 0..self.envoys.len() {
                    self.fault(Fault::StartEnvoy { envoy });
                }
            }
            Event::CloseAll => {
                self.judge_exactness();
                for stream in 0..self.streams.len() {
                    self.leave(stream);
                }
            }
            Event::End => {}
        }
    }

    pub(crate) fn after(&mut self, us: u64, event: Event) {
        self.queue.push(self.now_us + us, event);
    }

    /// A short way, without faults: a local connection, a process that notices.
    pub(crate) fn soon(&mut self) -> u64 {
        self.chance.between(100, 5_000)
    }
}
