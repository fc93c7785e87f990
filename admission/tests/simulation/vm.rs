//! The filter's side: what `admission::holder` and `admission::lifecycle` decide is carried out here,
//! as the filter does.

use crate::event::{Call, Event};
use crate::history::tell;
use crate::stream::Phase;
use crate::world::World;
use admission::holder::{Errand, Holder, Settings};
use admission::id::{Epoch, HolderId, PoolName, ProxyId};
use admission::inventory::Delivery;
use admission::message::ReleaseRequest;
use std::collections::BTreeMap;

const TICK_US: u64 = 10_000;
const IDLE_TICK_US: u64 = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VmState {
    Alive,
    /// It does nothing more; its sessions live on without it.
    Trapped,
    Dead,
}

pub(crate) struct Vm {
    pub(crate) envoy: usize,
    pub(crate) state: VmState,
    pub(crate) holder: Holder,
    pub(crate) id: HolderId,
    pub(crate) by_number: BTreeMap<u64, usize>,
    /// Sessions that are open.
    pub(crate) live: usize,
    /// Number, sidecar, and which life of it.
    pub(crate) presence: Option<(u64, usize, u64)>,
    pub(crate) waiting: BTreeMap<u64, Call>,
    /// The pool's clock when it died, or when it was last believed after that.
    pub(crate) died_at_ms: Option<u64>,
    /// The pool's clock when the store heard that its presence ended, and nothing to the contrary since.
    pub(crate) left_at_ms: Option<u64>,
    /// The highest presence that the store knows to have ended.
    pub(crate) presence_over: u64,
    /// When it last dropped a release, because its backlog was full.
    pub(crate) dropped_at_us: Option<u64>,
    /// The last presence that it opened.
    pub(crate) presences: u64,
}

impl World {
    pub(crate) fn start_vm(&mut self, envoy: usize) {
        let index = self.vms.len();
        let mut bytes = [0; 16];
        bytes[0] = index as u8 + 1;
        let id = HolderId {
            proxy: ProxyId::parse(&format!("envoy-{envoy}")).unwrap(),
            epoch: Epoch::from_random(bytes),
        };
        let settings = Settings {
            backlog_max: self.backlog_max,
            delivery_delay_ms: 0,
            delivery_retry_ms: 350,
            on_lease_lost: self.on_lease_lost,
            on_outage: self.on_outage,
        };
        let pool = PoolName::parse("pool").unwrap();
        self.epochs.insert(id.epoch.to_string(), index);
        self.vms.push(Vm {
            envoy,
            state: VmState::Alive,
            holder: Holder::new(pool, id.clone(), settings),
            id,
            by_number: BTreeMap::new(),
            live: 0,
            presence: None,
            waiting: BTreeMap::new(),
            died_at_ms: None,
            left_at_ms: None,
            presence_over: 0,
            dropped_at_us: None,
            presences: 0,
        });
        self.envoys[envoy].vm = Some(index);
        let first = self.chance.between(0, 200_000);
        self.after(first, Event::Tick { vm: index });
    }

    /// A frozen Envoy does everything later. Returns whether the event was put off.
    pub(crate) fn put_off(&mut self, vm: usize, event: Event) -> bool {
        let until_us = self.envoys[self.vms[vm].envoy].frozen_until_us;
        if self.now_us < until_us && self.vms[vm].state != VmState::Dead {
            self.queue.push(until_us, event);
            return true;
        }
        false
    }

    pub(crate) fn tick(&mut self, vm: usize) {
        if self.put_off(vm, Event::Tick { vm }) || self.vms[vm].state != VmState::Alive {
            return;
        }
        let now_us = self.now_us;
        for errand in self.vms[vm].holder.due(now_us) {
            match errand {
                Errand::BePresent { number } => self.be_present(vm, number),
                Errand::Beat(request) => {
                    tell!(self, Name(vm), "beats {}", crate::words::beat(&request));
                    self.call(vm, Call::Renew(request));
                }
                Errand::Deliver(delivery) => self.deliver(vm, delivery),
                Errand::Close(numbers) => {
                    tell!(self, Name(vm), "closes {numbers:?}: their places are lost");
                    for number in numbers {
                        if let Some(stream) = self.vms[vm].by_number.get(&number).copied() {
                            self.end(stream);
                        }
                    }
                }
                Errand::Tell(news) => tell!(self, Name(vm), "says {news:?}"),
            }
        }
        let busy = self.vms[vm].holder.inventory().has_news();
        self.after(
            if busy { TICK_US } else { IDLE_TICK_US },
            Event::Tick { vm },
        );
    }

    pub(crate) fn deliver(&mut self, vm: usize, delivery: Delivery) {
        match &delivery {
            // What a stream learned of its worker is not part of the protocol.
            Delivery::Observations(_) => self.vms[vm].holder.delivered(delivery),
            Delivery::Releases(releases) => {
                let holder = &self.vms[vm].holder;
                let request = ReleaseRequest {
                    pool: holder.pool().clone(),
                    holder: holder.id().clone(),
                    releases: releases.clone(),
                };
                tell!(
                    self,
                    Name(vm),
                    "releases {}",
                    crate::words::releases(&request)
                );
                self.call(vm, Call::Release { delivery, request });
            }
        }
    }

    pub(crate) fn note_drops(&mut self, vm: usize) {
        if self.vms[vm].holder.inventory().take_dropped() > 0 {
            self.vms[vm].dropped_at_us = Some(self.now_us);
        }
    }

    /// The VM is gone: its sessions are cut, and its presence ends.
    pub(crate) fn kill(&mut self, vm: usize) {
        let streams: Vec<usize> = self.vms[vm].by_number.values().copied().collect();
        self.vms[vm].state = VmState::Dead;
        for stream in streams {
            self.close_session(stream);
        }
        self.bury(vm);
    }

    pub(crate) fn bury(&mut self, vm: usize) {
        self.vms[vm].state = VmState::Dead;
        self.vms[vm].died_at_ms = Some(self.store.ledger.now_ms());
        tell!(self, Name(vm), "is gone");
        self.break_presence(vm);
    }

    pub(crate) fn trap(&mut self, vm: usize) {
        self.vms[vm].state = VmState::Trapped;
        let streams: Vec<usize> = self.vms[vm].by_number.values().copied().collect();
        for stream in streams {
            if self.streams[stream].phase == Phase::Asking {
                self.streams[stream].phase = Phase::Over;
            }
        }
        if self.vms[vm].live == 0 {
            self.bury(vm);
        }
    }
}

/// How history calls a VM.
pub(crate) struct Name(pub(crate) usize);

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "vm {}", self.0)
    }
}
