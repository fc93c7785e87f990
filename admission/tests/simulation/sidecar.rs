//! The sidecar's side: it passes calls on, compares lists, sees presences, and reaps.

use crate::event::{Answer, Call, Comparison, Event, Op, Owed, Reply, Then};
use crate::history::tell;
use crate::vm::VmState;
use crate::world::{SECOND, World};
use admission::message::{Place, RenewAnswer, RenewRequest, Verdict};
use admission::model::ledger::Presence;
use std::collections::{BTreeMap, BTreeSet};

const REAP_US: u64 = SECOND / 2;
const VOUCH_US: u64 = 2 * SECOND;
/// Leases in one step of a comparison; few, so that there are several steps.
const STEP_MAX: usize = 2;
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
    owed: BTreeSet<(usize, u64, Owed)>,
    /// The rebuild for which it has announced its presences.
    announced: Option<u64>,
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
    fn acts(&mut self, sidecar: usize, life: u64, event: impl FnOnce() -> Event) -> bool {
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

    pub(crate) fn presence_arrives(&mut self, sidecar: usize, vm: usize, number: u64) {
        let life = self.sidecars[sidecar].life;
        if !self.sidecars[sidecar].up {
            let way = self.soon();
            let answered = false;
            return self.after(
                way,
                Event::PresenceEnded {
                    vm,
                    number,
                    answered,
                },
            );
        }
        let event = || Event::Present {
            sidecar,
            vm,
            number,
        };
        let open = self.vms[vm]
            .presence
            .is_some_and(|(open, ..)| open == number);
        if !open || self.vms[vm].state == VmState::Dead || !self.acts(sidecar, life, event) {
            return;
        }
        // It may have been started anew while the call was on its way.
        self.vms[vm].presence = Some((number, sidecar, life));
        self.sidecars[sidecar].presences.insert(vm, number);
        self.owe(sidecar, vm, number, Owed::Opened);
    }

    pub(crate) fn eof(&mut self, sidecar: usize, life: u64, vm: usize, number: u64) {
        let event = || Event::Eof {
            sidecar,
            life,
            vm,
            number,
        };
        if !self.acts(sidecar, life, event) {
            return;
        }
        if self.sidecars[sidecar].presences.get(&vm) == Some(&number) {
            self.sidecars[sidecar].presences.remove(&vm);
            tell!(
                self,
                format!("sidecar {sidecar}"),
                "sees presence {number} of vm {vm} end"
            );
            self.sidecars[sidecar]
                .owed
                .remove(&(vm, number, Owed::Opened));
            self.owe(sidecar, vm, number, Owed::Ended);
        }
    }

    fn owe(&mut self, sidecar: usize, vm: usize, number: u64, presence: Owed) {
        self.sidecars[sidecar].owed.insert((vm, number, presence));
        self.pay(sidecar, (vm, number, presence));
    }

    fn pay(&mut self, sidecar: usize, (vm, number, presence): (usize, u64, Owed)) {
        let holder = self.vms[vm].id.clone();
        let op = match presence {
            Owed::Opened => Op::Presence(holder, number, Presence::Opened),
            Owed::Announced => Op::Announce(holder, number),
            Owed::Ended => Op::Presence(holder, number, Presence::Ended),
        };
        let then = Then::Owed {
            vm,
            number,
            presence,
        };
        self.ask_store(sidecar, op, then);
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

    pub(crate) fn sidecar_vouches(&mut self, sidecar: usize, life: u64) {
        if !self.acts(sidecar, life, || Event::Vouch { sidecar, life }) {
            return;
        }
        self.after(VOUCH_US, Event::Vouch { sidecar, life });
        for (vm, number) in self.sidecars[sidecar].presences.clone() {
            let holder = self.vms[vm].id.clone();
            let op = Op::Presence(holder, number, Presence::Vouched);
            self.ask_store(sidecar, op, Then::Nothing);
        }
    }

    pub(crate) fn ask_store(&mut self, sidecar: usize, op: Op, then: Then) {
        let life = self.sidecars[sidecar].life;
        let run = self.store.run;
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

    fn reply(&mut self, vm: usize, token: u64, reply: Reply) {
        for arrival in self.weather.send(&mut self.chance).into_iter().flatten() {
            let reply = reply.clone();
            self.after(arrival, Event::ToVm { vm, token, reply });
        }
    }

    fn renewed(
        &mut self,
        sidecar: usize,
        (vm, token): (usize, u64),
        request: Box<RenewRequest>,
        answer: RenewAnswer,
    ) {
        if request.leases.is_none() || answer.verdict != Verdict::List {
            return self.reply(vm, token, Reply::Renew(answer));
        }
        let op = Op::Listed(request.holder.clone(), request.beat);
        let comparison = Box::new(Comparison {
            request,
            answer,
            steps: Vec::new(),
        });
        let then = Then::Compare {
            vm,
            token,
            comparison,
        };
        self.ask_store(sidecar, op, then);
    }

    fn compare(
        &mut self,
        sidecar: usize,
        (vm, token): (usize, u64),
        mut comparison: Box<Comparison>,
        answer: Answer,
    ) {
        match answer {
            Answer::Listed(Some(numbers)) => {
                comparison.steps = differences(&comparison.request, &numbers);
            }
            Answer::Done(true) => {}
            // A later beat has taken over.
            _ => {
                comparison.answer.verdict = Verdict::Stale;
                comparison.steps.clear();
            }
        }
        match comparison.steps.pop() {
            Some(op) => {
                let then = Then::Compare {
                    vm,
                    token,
                    comparison,
                };
                self.ask_store(sidecar, op, then);
            }
            None => {
                if comparison.answer.verdict == Verdict::List {
                    comparison.answer.verdict = Verdict::Kept;
                }
                self.reply(vm, token, Reply::Renew(comparison.answer));
            }
        }
    }

    fn hear_of_rebuild(&mut self, sidecar: usize, rebuilding: Option<u64>) {
        if rebuilding.is_none() || self.sidecars[sidecar].announced == rebuilding {
            return;
        }
        tell!(self, format!("sidecar {sidecar}"), "hears of a rebuild");
        self.sidecars[sidecar].announced = rebuilding;
        for (vm, number) in self.sidecars[sidecar].presences.clone() {
            self.owe(sidecar, vm, number, Owed::Announced);
        }
    }

    fn paid(&mut self, sidecar: usize, vm: usize, number: u64, presence: Owed) {
        let known = (self.sidecars[sidecar].owed).remove(&(vm, number, presence));
        let there = self.sidecars[sidecar].presences.get(&vm) == Some(&number);
        if known && there && presence == Owed::Announced {
            self.sidecars[sidecar].presences.remove(&vm);
            let way = self.soon();
            let answered = true;
            self.after(
                way,
                Event::PresenceEnded {
                    vm,
                    number,
                    answered,
                },
            );
        }
    }
}

/// The steps that make the store hold what a beat lists.
fn differences(request: &RenewRequest, numbers: &[u64]) -> Vec<Op> {
    let (holder, beat) = (&request.holder, request.beat);
    let places = request.leases.as_deref().unwrap_or_default();
    let listed: BTreeSet<u64> = (places.iter())
        .flat_map(|place| place.leases.iter().map(|lease| lease.0))
        .collect();
    let mut steps = Vec::new();
    let lost: Vec<u64> = (numbers.iter().copied())
        .filter(|number| !listed.contains(number))
        .filter(|number| !request.asking.contains(number) && !request.ended.contains(number))
        .collect();
    for chunk in lost.chunks(STEP_MAX) {
        steps.push(Op::Renounce(holder.clone(), beat, chunk.to_vec()));
    }
    for place in places {
        let missing: Vec<(u64, u64)> = (place.leases.iter().copied())
            .filter(|(number, _)| !numbers.contains(number))
            .collect();
        for chunk in missing.chunks(STEP_MAX) {
            let place = Place {
                leases: chunk.to_vec(),
                ..place.clone()
            };
            steps.push(Op::Reassert(holder.clone(), beat, place));
        }
    }
    steps
}
