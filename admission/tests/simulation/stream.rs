//! Streams: clients come, are routed or refused, and leave.

use crate::event::{Call, Event};
use crate::history::tell;
use crate::vm::{Name, VmState};
use crate::world::World;
use admission::inspect::Demand;
use admission::lifecycle::{AffinityNews, Effect, Event as Happening, Lifecycle, Traffic};
use admission::message::{AdmitAnswer, AdmitRequest};
use admission::outcome::{Author, ResponseFlags};

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
    pub(crate) asked_at_us: u64,
    pub(crate) lifecycle: Lifecycle,
    /// It has the place of another, which left in an outage.
    pub(crate) reused: bool,
    /// The worker, and when its session begins there.
    pub(crate) session: Option<(usize, u64)>,
    pub(crate) missing_since_us: Option<u64>,
    pub(crate) over_at_us: u64,
}

impl World {
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
        let demand = Demand::Upgrade;
        let now_us = self.now_us;
        if let Some(admitted) = self.vms[vm].holder.reuse(now_us) {
            let stream = self.new_stream(vm, admitted.lease.seq);
            let placed = Happening::Placed {
                admitted,
                demand,
                now_us,
            };
            let effects = self.streams[stream].lifecycle.handle(placed);
            return self.carry_out(stream, effects);
        }
        let lease = self.vms[vm].holder.mint();
        let stream = self.new_stream(vm, lease.seq);
        self.streams[stream].lifecycle.handle(Happening::Wanted {
            lease: lease.clone(),
            demand,
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

    fn new_stream(&mut self, vm: usize, number: u64) -> usize {
        let stream = self.streams.len();
        self.vms[vm].by_number.insert(number, stream);
        self.streams.push(Stream {
            vm,
            number,
            phase: Phase::Asking,
            asked_at_us: self.now_us,
            lifecycle: Lifecycle::new(),
            reused: false,
            session: None,
            missing_since_us: None,
            over_at_us: 0,
        });
        stream
    }

    /// Nobody answered the stream's question.
    pub(crate) fn unanswered(&mut self, stream: usize, otherwise: Happening) {
        let vm = self.streams[stream].vm;
        let now_us = self.now_us;
        let asking = self.streams[stream].lifecycle.is_asking();
        let place = if asking {
            self.vms[vm].holder.ask_failed(now_us)
        } else {
            None
        };
        let event = place.map_or(otherwise, |admitted| Happening::Rescued {
            admitted,
            now_us,
        });
        let effects = self.streams[stream].lifecycle.handle(event);
        self.carry_out(stream, effects);
    }

    pub(crate) fn answered(&mut self, stream: usize, answer: AdmitAnswer) {
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

    pub(crate) fn carry_out(&mut self, stream: usize, effects: Vec<Effect>) {
        let Stream { vm, number, .. } = self.streams[stream];
        for effect in effects {
            match effect {
                Effect::Route(admitted) => {
                    self.note_reuse(stream, admitted.lease.seq);
                    self.vms[vm].holder.inventory().admitted(&admitted, 0);
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
                    let now_us = self.now_us;
                    self.vms[vm].holder.ended(release, now_us);
                    self.note_drops(vm);
                }
                // Nobody here asks for the last three.
                Effect::Pass
                | Effect::Ask(_)
                | Effect::Observe(_)
                | Effect::Redirect(_)
                | Effect::Bind { .. }
                | Effect::Answer => {}
            }
        }
    }

    fn note_reuse(&mut self, stream: usize, number: u64) {
        let Stream {
            vm, number: asked, ..
        } = self.streams[stream];
        let known = self.vms[vm]
            .holder
            .inventory()
            .held()
            .any(|held| held == number);
        if known {
            tell!(self, Name(vm), "has {} again", crate::words::number(number));
            self.vms[vm].by_number.remove(&asked);
            self.vms[vm].by_number.insert(number, stream);
            self.streams[stream].number = number;
            self.streams[stream].reused = true;
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
            affinity: AffinityNews::default(),
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

    pub(crate) fn end(&mut self, stream: usize) {
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

    pub(crate) fn close_session(&mut self, stream: usize) {
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
}
