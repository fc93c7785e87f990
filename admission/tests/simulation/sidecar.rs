//! The sidecar's side: it passes calls on and reaps.

use crate::event::{Answer, Call, Event, Op, Owed, Reply, Then};
use crate::presence::VOUCH_US;
use crate::world::{SECOND, World};
use std::collections::{BTreeMap, BTreeSet};

const REAP_US: u64 = SECOND / 2;
/// A health check fails twice before an Envoy breaks its connections.
const BREAK_US: u64 = 3 * SECOND / 2;

#[derive(Debug, Default)]
pub(crate) struct Sidecar {
    pub(crate) up: bool,
    /// How often it was started.
    pub(crate) life: u64,
    pub(crate) frozen_until_us: u64,
    /// Since when it does not answer health checks.
    pub(crate) away_since_us: Option<u64>,
    /// The VMs whose presence it sees, and the number.
    pub(crate) presences: BTreeMap<usize, u64>,
    pub(crate) owed: BTreeSet<(usize, u64, Owed)>,
    /// The rebuild for which it has announced its presences.
    pub(crate) announced: Option<u64>,
}

impl World {
    pub(crate) fn start_sidecar(&mut self, sidecar: usize) {
        let life = self.sidecars[sidecar].life + 1;
        self.sidecars[sidecar] = Sidecar {
            up: true,
            life,
            ..Sidecar::default()
        };
        let first = self.chance.between(0, REAP_US);
        self.after(first, Event::Reap { sidecar, life });
        self.after(VOUCH_US, Event::Vouch { sidecar, life });
    }

    pub(crate) fn crash_sidecar(&mut self, sidecar: usize) {
        if !self.sidecars[sidecar].up {
            return;
        }
        self.sidecars[sidecar].up = false;
        self.sidecars[sidecar]
            .away_since_us
            .get_or_insert(self.now_us);
        let presences = std::mem::take(&mut self.sidecars[sidecar].presences);
        for (vm, number) in presences {
            let way = self.soon();
            self.after(
                way,
                Event::PresenceEnded {
                    vm,
                    number,
                    answered: false,
                },
            );
        }
    }

    pub(crate) fn freeze_sidecar(&mut self, sidecar: usize, us: u64) {
        if !self.sidecars[sidecar].up {
            return;
        }
        self.sidecars[sidecar].frozen_until_us = self.now_us + us;
        self.sidecars[sidecar].away_since_us = Some(self.now_us);
        let life = self.sidecars[sidecar].life;
        self.after(BREAK_US, Event::BreakPresences { sidecar, life });
    }

    /// The Envoys have given a frozen sidecar up. It will see the broken connections when it wakes.
    pub(crate) fn break_frozen(&mut self, sidecar: usize, life: u64) {
        let until_us = self.sidecars[sidecar].frozen_until_us;
        if self.sidecars[sidecar].life != life || self.now_us >= until_us {
            return;
        }
        for (vm, number) in self.sidecars[sidecar].presences.clone() {
            if self.now_us < self.envoys[self.vms[vm].envoy].frozen_until_us {
                continue;
            }
            let ended = Event::PresenceEnded {
                vm,
                number,
                answered: false,
            };
            self.after(1_000, ended);
            let eof = Event::Eof {
                sidecar,
                life,
                vm,
                number,
            };
            self.queue.push(until_us, eof);
        }
    }

    /// A frozen sidecar does everything later; a dead one nothing. Returns whether it acts now.
    pub(crate) fn acts(
        &mut self,
        sidecar: usize,
        life: u64,
        event: impl FnOnce() -> Event,
    ) -> bool {
        let it = &mut self.sidecars[sidecar];
        if !it.up || it.life != life {
            return false;
        }
        if self.now_us < it.frozen_until_us {
            let until_us = it.frozen_until_us;
            self.queue.push(until_us, event());
            return false;
        }
        it.away_since_us = None;
        true
    }

    pub(crate) fn call_arrives(&mut self, sidecar: usize, vm: usize, token: u64, call: Call) {
        if !self.sidecars[sidecar].up {
            let way = self.soon();
            let reply = Reply::Failed;
            return self.after(way, Event::ToVm { vm, token, reply });
        }
        let life = self.sidecars[sidecar].life;
        let again = call.clone();
        let event = || Event::ToSidecar {
            sidecar,
            vm,
            token,
            call: again,
        };
        if !self.acts(sidecar, life, event) {
            return;
        }
        match call {
            Call::Admit { request, .. } => {
                self.ask_store(sidecar, Op::Admit(request), Then::Reply { vm, token });
            }
            Call::Release { request, .. } => {
                self.ask_store(sidecar, Op::Release(request), Then::Reply { vm, token });
            }
            Call::Renew(request) => {
                let then = Then::Renew {
                    vm,
                    token,
                    request: request.clone(),
                };
                self.ask_store(sidecar, Op::Renew(request), then);
            }
        }
    }

    pub(crate) fn sidecar_reaps(&mut self, sidecar: usize, life: u64) {
        if !self.acts(sidecar, life, || Event::Reap { sidecar, life }) {
            return;
        }
        self.after(REAP_US, Event::Reap { sidecar, life });
        for owed in self.sidecars[sidecar].owed.clone() {
            self.pay(sidecar, owed);
        }
        self.ask_store(sidecar, Op::Reap, Then::Reap);
    }

    pub(crate) fn ask_store(&mut self, sidecar: usize, op: Op, then: Then) {
        let life = self.sidecars[sidecar].life;
        let run = self.store.run;
        if matches!(op, Op::Reassert(..)) && self.chance.in_thousand(400) {
            // A step that was thought lost, and comes when the comparison is long over.
            let late = self.chance.between(SECOND, 6 * SECOND);
            let (op, then) = (op.clone(), Then::Nothing);
            let event = Event::ToStore {
                sidecar,
                life,
                run,
                op,
                then,
            };
            self.after(late, event);
        }
        for arrival in self.weather.send(&mut self.chance).into_iter().flatten() {
            let (op, then) = (op.clone(), then.clone());
            self.after(
                arrival,
                Event::ToStore {
                    sidecar,
                    life,
                    run,
                    op,
                    then,
                },
            );
        }
    }

    pub(crate) fn store_answered(&mut self, sidecar: usize, life: u64, answer: Answer, then: Then) {
        let (again, later) = (answer.clone(), then.clone());
        let event = || Event::FromStore {
            sidecar,
            life,
            answer: again,
            then: later,
        };
        if !self.acts(sidecar, life, event) {
            return;
        }
        match (then, answer) {
            (Then::Reply { vm, token }, Answer::Admit(answer)) => {
                self.reply(vm, token, Reply::Admit(answer));
            }
            (Then::Reply { vm, token }, _) => self.reply(vm, token, Reply::Released),
            (Then::Renew { vm, token, request }, Answer::Renew(answer)) => {
                self.renewed(sidecar, (vm, token), request, answer);
            }
            (
                Then::Compare {
                    vm,
                    token,
                    comparison,
                },
                answer,
            ) => self.compare(sidecar, (vm, token), comparison, answer),
            (Then::Reap, Answer::Reaped(reaped)) => {
                for holder in reaped.due {
                    let then = Then::Reclaim(holder.clone());
                    self.ask_store(sidecar, Op::Reclaim(holder), then);
                }
                self.hear_of_rebuild(sidecar, reaped.rebuilding);
            }
            (Then::Reclaim(holder), Answer::Done(true)) => {
                let then = Then::Reclaim(holder.clone());
                self.ask_store(sidecar, Op::Reclaim(holder), then);
            }
            (
                Then::Owed {
                    vm,
                    number,
                    presence,
                },
                _,
            ) => self.paid(sidecar, vm, number, presence),
            (Then::Worker { worker, life }, Answer::Worker(answer)) => {
                self.worker_answered(worker, life, &answer);
            }
            _ => {}
        }
    }

    pub(crate) fn reply(&mut self, vm: usize, token: u64, reply: Reply) {
        for arrival in self.weather.send(&mut self.chance).into_iter().flatten() {
            let reply = reply.clone();
            self.after(arrival, Event::ToVm { vm, token, reply });
        }
    }
}
