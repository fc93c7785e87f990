//! The filter's side: what `admission::holder` and `admission::lifecycle` decide is carried out here,
//! as the filter does.

use crate::event::{Call, Event, Reply};
use crate::history::tell;
use crate::network::QUICK_US;
use crate::world::{SECOND, World};
use admission::holder::{Errand, Holder, Settings};
use admission::id::{Epoch, HolderId, PoolName, ProxyId};
use admission::inspect::Demand;
use admission::inventory::Delivery;
use admission::lifecycle::{Effect, Event as Happening, Lifecycle, Traffic};
use admission::message::{AdmitAnswer, AdmitRequest, ReleaseRequest};
use admission::outcome::{Author, ResponseFlags};
use std::collections::BTreeMap;

const TICK_US: u64 = 10_000;
const IDLE_TICK_US: u64 = 20_000;
const TIMEOUT_US: u64 = 300_000;
/// An answer that is older is not used: the Envoy stood still meanwhile.
const WATCHDOG_US: u64 = SECOND;
/// After this long without an answer to its health check, a sidecar is not asked any more.
const UNHEALTHY_US: u64 = SECOND;

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
    waiting: BTreeMap<u64, Call>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Asking,
    Live,
    Over,
}

pub(crate) struct Stream {
    pub(crate) vm: usize,
    pub(crate) number: u64,
    pub(crate) phase: Phase,
    asked_at_us: u64,
    lifecycle: Lifecycle,
    /// The worker, and when its session begins there.
    pub(crate) session: Option<(usize, u64)>,
    pub(crate) missing_since_us: Option<u64>,
    pub(crate) over_at_us: u64,
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
            delivery_retry_ms: 350,
            on_lease_lost: self.on_lease_lost,
        };
        let pool = PoolName::parse("pool").unwrap();
        self.epochs.insert(id.epoch.as_str().to_owned(), index);
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
    fn put_off(&mut self, vm: usize, event: Event) -> bool {
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
            }
        }
        let busy = self.vms[vm].holder.inventory().has_news();
        self.after(
            if busy { TICK_US } else { IDLE_TICK_US },
            Event::Tick { vm },
        );
    }

    fn deliver(&mut self, vm: usize, delivery: Delivery) {
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

    /// The first sidecar, or the spare while the first is not healthy.
    fn sidecar_of(&self, vm: usize) -> usize {
        let first = self.vms[vm].envoy % self.sidecars.len();
        let sick = |sidecar: usize| {
            (self.sidecars[sidecar].away_since_us)
                .is_some_and(|since_us| self.now_us >= since_us + UNHEALTHY_US)
        };
        match (first + 1) % self.sidecars.len() {
            spare if sick(first) && !sick(spare) => spare,
            _ => first,
        }
    }

    fn is_muffled(&self, vm: usize) -> bool {
        self.now_us < self.envoys[self.vms[vm].envoy].muffled_until_us
    }

    fn call(&mut self, vm: usize, call: Call) {
        self.tokens += 1;
        let token = self.tokens;
        self.vms[vm].waiting.insert(token, call.clone());
        self.after(TIMEOUT_US, Event::Timeout { vm, token });
        if self.is_muffled(vm) && matches!(call, Call::Renew(_)) {
            return;
        }
        let sidecar = self.sidecar_of(vm);
        for arrival in self.weather.send(&mut self.chance).into_iter().flatten() {
            let call = call.clone();
            self.after(
                arrival,
                Event::ToSidecar {
                    sidecar,
                    vm,
                    token,
                    call,
                },
            );
        }
    }

    fn be_present(&mut self, vm: usize, number: u64) {
        let sidecar = self.sidecar_of(vm);
        let life = self.sidecars[sidecar].life;
        tell!(
            self,
            Name(vm),
            "opens presence {number} at sidecar {sidecar}"
        );
        self.vms[vm].presence = Some((number, sidecar, life));
        self.vms[vm].presences = number;
        let delay = self.weather.delay(&mut self.chance);
        // Whose beats are lost has only this to say that it is there, and 1.5 s for it if the last one
        // was cut. On a slow way too it would have said nothing in its whole grace, and that is how
        // the store knows the dead: docs/leases.md promises nothing then.
        let delay = if self.is_muffled(vm) {
            delay.min(QUICK_US)
        } else {
            delay
        };
        self.after(
            delay,
            Event::Present {
                sidecar,
                vm,
                number,
            },
        );
    }

    pub(crate) fn presence_ended(&mut self, vm: usize, number: u64, answered: bool) {
        let event = Event::PresenceEnded {
            vm,
            number,
            answered,
        };
        if self.put_off(vm, event) || self.vms[vm].state != VmState::Alive {
            return;
        }
        if self.vms[vm]
            .presence
            .is_some_and(|(open, ..)| open == number)
        {
            tell!(
                self,
                Name(vm),
                "presence {number} ended, answered: {answered}"
            );
            self.vms[vm].presence = None;
            let now_us = self.now_us;
            (self.vms[vm].holder).presence_ended(number, answered, now_us);
        }
    }

    pub(crate) fn timeout(&mut self, vm: usize, token: u64) {
        if !self.put_off(vm, Event::Timeout { vm, token }) {
            self.reply_arrives(vm, token, Reply::Failed);
        }
    }

    pub(crate) fn reply_arrives(&mut self, vm: usize, token: u64, reply: Reply) {
        let event = Event::ToVm {
            vm,
            token,
            reply: reply.clone(),
        };
        if self.put_off(vm, event) || self.vms[vm].state != VmState::Alive {
            return;
        }
        let now_us = self.now_us;
        let Some(call) = self.vms[vm].waiting.remove(&token) else {
            return;
        };
        match (call, reply) {
            (Call::Admit { stream, .. }, Reply::Admit(_))
                if now_us >= self.streams[stream].asked_at_us + WATCHDOG_US =>
            {
                let effects = self.streams[stream].lifecycle.handle(Happening::Overdue);
                self.carry_out(stream, effects);
            }
            (Call::Admit { stream, .. }, Reply::Admit(answer)) => self.answered(stream, answer),
            (Call::Admit { stream, .. }, _) => {
                let effects = self.streams[stream].lifecycle.handle(Happening::Failed);
                self.carry_out(stream, effects);
            }
            (Call::Release { delivery, .. }, Reply::Released) => {
                self.vms[vm].holder.delivered(delivery);
            }
            (Call::Release { delivery, .. }, _) => {
                self.vms[vm].holder.undelivered(delivery, now_us);
                self.note_drops(vm);
            }
            (Call::Renew(request), Reply::Renew(answer)) => {
                tell!(
                    self,
                    Name(vm),
                    "hears of beat {}: {}",
                    request.beat,
                    crate::words::renewed(answer)
                );
                self.vms[vm]
                    .holder
                    .beat_answered(request.beat, Some(answer), now_us);
            }
            (Call::Renew(request), _) => {
                tell!(self, Name(vm), "hears nothing of beat {}", request.beat);
                (self.vms[vm].holder).beat_answered(request.beat, None, now_us);
            }
        }
    }

    pub(crate) fn arrive(&mut self, envoy: usize) {
        if self.quiet {
            return;
        }
        let wait = self.chance.wait(self.envoys[envoy].arrival_us);
        self.after(wait, Event::Arrive { envoy });
        let Some(vm) = self.envoys[envoy].vm else {
            return;
        };
        if self.now_us < self.envoys[envoy].frozen_until_us {
            return;
        }
        let lease = self.vms[vm].holder.mint();
        let stream = self.streams.len();
        self.vms[vm].by_number.insert(lease.seq, stream);
        let mut lifecycle = Lifecycle::new();
        let demand = Demand::Upgrade;
        lifecycle.handle(Happening::Wanted {
            lease: lease.clone(),
            demand,
        });
        self.streams.push(Stream {
            vm,
            number: lease.seq,
            phase: Phase::Asking,
            asked_at_us: self.now_us,
            lifecycle,
            session: None,
            missing_since_us: None,
            over_at_us: 0,
        });
        let holder = &self.vms[vm].holder;
        let request = AdmitRequest::new(holder.pool().clone(), holder.id().clone(), lease);
        tell!(
            self,
            Name(vm),
            "asks for {}",
            crate::words::number(request.lease.seq)
        );
        self.call(vm, Call::Admit { stream, request });
        if self.chance.in_thousand(50) {
            let patience = self.chance.between(100, 6_000);
            self.after(patience, Event::Leave { stream });
        }
    }

    fn answered(&mut self, stream: usize, answer: AdmitAnswer) {
        let Stream {
            vm, number, phase, ..
        } = self.streams[stream];
        let now_us = self.now_us;
        if let AdmitAnswer::Denied(denied) = &answer {
            tell!(
                self,
                Name(vm),
                "{} is denied: {}",
                crate::words::number(number),
                denied.reason.as_str()
            );
            self.vms[vm].holder.denied(number, denied.reason, now_us);
            if phase == Phase::Asking {
                self.judge_denial(stream, denied.reason);
            }
        }
        let effects =
            (self.streams[stream].lifecycle).handle(Happening::Answered { answer, now_us });
        self.carry_out(stream, effects);
    }

    fn carry_out(&mut self, stream: usize, effects: Vec<Effect>) {
        let Stream { vm, number, .. } = self.streams[stream];
        for effect in effects {
            match effect {
                Effect::Route(admitted) => {
                    self.vms[vm].holder.inventory().admitted(&admitted);
                    self.route(
                        stream,
                        admitted.worker.as_str(),
                        admitted.incarnation.as_str(),
                    );
                }
                Effect::Refuse(_) => {
                    self.streams[stream].phase = Phase::Over;
                    self.vms[vm].by_number.remove(&number);
                }
                Effect::Release(release) => {
                    self.vms[vm].holder.inventory().ended(release);
                    self.note_drops(vm);
                }
                Effect::Pass | Effect::Ask(_) | Effect::Observe(_) => {}
            }
        }
    }

    fn note_drops(&mut self, vm: usize) {
        if self.vms[vm].holder.inventory().take_dropped() > 0 {
            self.vms[vm].dropped_at_us = Some(self.now_us);
        }
    }

    fn route(&mut self, stream: usize, worker: &str, incarnation: &str) {
        let Stream { vm, number, .. } = self.streams[stream];
        let index = (self.workers.iter()).position(|known| known.id.as_str() == worker);
        let worker = index.unwrap();
        let life: u64 = incarnation[1..].parse().unwrap();
        tell!(
            self,
            Name(vm),
            "routes {} to worker {worker}",
            crate::words::number(number)
        );
        let connect = self.chance.between(100, 3_000);
        let opens_at_us = self.now_us + connect;
        self.streams[stream].phase = Phase::Live;
        self.streams[stream].session = Some((worker, opens_at_us));
        self.vms[vm].live += 1;
        let now_us = opens_at_us;
        (self.streams[stream].lifecycle).handle(Happening::Responding {
            status: 101,
            author: Author::Worker,
            now_us,
        });
        self.queue.push(
            opens_at_us,
            Event::Open {
                stream,
                worker,
                life,
            },
        );
        let stay = self.chance.wait(self.session_us);
        self.after(stay, Event::Leave { stream });
        self.judge_route(stream);
    }

    /// The client leaves, or the worker ends the session.
    pub(crate) fn leave(&mut self, stream: usize) {
        let vm = self.streams[stream].vm;
        if !self.put_off(vm, Event::Leave { stream }) {
            self.end(stream);
        }
    }

    fn end(&mut self, stream: usize) {
        let Stream {
            vm, number, phase, ..
        } = self.streams[stream];
        if phase == Phase::Over {
            return;
        }
        self.close_session(stream);
        if self.vms[vm].state != VmState::Alive {
            return;
        }
        tell!(self, Name(vm), "{} ends", crate::words::number(number));
        let effects = self.streams[stream].lifecycle.handle(Happening::Ended {
            flags: ResponseFlags::default(),
            traffic: Traffic::default(),
            now_us: self.now_us,
        });
        self.carry_out(stream, effects);
    }

    fn close_session(&mut self, stream: usize) {
        let vm = self.streams[stream].vm;
        if self.streams[stream].phase == Phase::Live {
            self.vms[vm].live -= 1;
        }
        self.streams[stream].phase = Phase::Over;
        self.streams[stream].over_at_us = self.now_us;
        self.vms[vm].by_number.remove(&self.streams[stream].number);
        if let Some((worker, opens_at_us)) = self.streams[stream].session {
            let way = self.chance.between(0, 20_000);
            let at_us = (self.now_us + way).max(opens_at_us + 1);
            self.queue.push(at_us, Event::Close { stream, worker });
        }
        if self.vms[vm].state == VmState::Trapped && self.vms[vm].live == 0 {
            self.bury(vm);
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

    fn bury(&mut self, vm: usize) {
        self.vms[vm].state = VmState::Dead;
        self.vms[vm].died_at_ms = Some(self.store.ledger.now_ms());
        tell!(self, Name(vm), "is gone");
        self.break_presence(vm);
    }

    /// The connection of its presence breaks; its sidecar notices.
    pub(crate) fn break_presence(&mut self, vm: usize) {
        if let Some((number, sidecar, life)) = self.vms[vm].presence {
            let way = self.soon();
            self.after(
                way,
                Event::Eof {
                    sidecar,
                    life,
                    vm,
                    number,
                },
            );
        }
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
