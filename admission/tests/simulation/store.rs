//! The store: the ledger, on a server that may pause, stop, and start anew.

use crate::event::{Answer, Event, Op, Then};
use crate::history::tell;
use crate::world::World;
use admission::message::AdmitAnswer;
use admission::model::ledger::{Ledger, Presence};

pub(crate) struct Store {
    pub(crate) ledger: Ledger,
    pub(crate) up: bool,
    /// How often the server was started. Connections do not outlive it.
    pub(crate) run: u64,
    pub(crate) paused_until_us: u64,
    /// The server's clock, at the beginning of the world, and with its jumps.
    pub(crate) clock_ms: u64,
    pub(crate) saved: Option<Box<Ledger>>,
}

impl Store {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            up: true,
            run: 1,
            paused_until_us: 0,
            clock_ms: 1_000_000_000,
            saved: None,
        }
    }
}

impl World {
    pub(crate) fn store_asked(&mut self, sidecar: usize, life: u64, run: u64, op: Op, then: Then) {
        if !self.store.up || self.store.run != run {
            return;
        }
        if self.now_us < self.store.paused_until_us {
            let until_us = self.store.paused_until_us;
            let event = Event::ToStore {
                sidecar,
                life,
                run,
                op,
                then,
            };
            return self.queue.push(until_us, event);
        }
        self.store
            .ledger
            .at(self.store.clock_ms + self.now_us / 1000);
        let answer = self.execute(&op);
        self.judge_changes();
        let delay = self.weather.delay(&mut self.chance);
        self.after(
            delay,
            Event::FromStore {
                sidecar,
                life,
                answer,
                then,
            },
        );
    }

    fn execute(&mut self, op: &Op) -> Answer {
        let stranger =
            matches!(op, Op::Admit(request) if !self.store.ledger.knows(&request.holder));
        let ledger = &mut self.store.ledger;
        let answer = match op {
            Op::Admit(request) => Answer::Admit(ledger.admit(request)),
            Op::Release(request) => {
                ledger.release(request);
                Answer::Released
            }
            Op::Renew(request) => Answer::Renew(ledger.renew(request)),
            Op::Listed(holder, beat) => Answer::Listed(ledger.listed(holder, *beat)),
            Op::Reassert(holder, beat, place) => {
                Answer::Done(ledger.reassert(holder, *beat, place))
            }
            Op::Renounce(holder, beat, numbers) => {
                Answer::Done(ledger.renounce(holder, *beat, numbers))
            }
            Op::Presence(holder, number, presence) => {
                ledger.presence(holder, *number, *presence);
                Answer::Done(true)
            }
            Op::Announce(holder, number) => {
                ledger.announce(holder, *number);
                Answer::Done(true)
            }
            Op::Reap => Answer::Reaped(ledger.reap()),
            Op::Reclaim(holder) => Answer::Done(ledger.reclaim(holder)),
            Op::Register(worker, request) => Answer::Worker(ledger.register(worker, request)),
            Op::Heartbeat(worker, request) => Answer::Worker(ledger.heartbeat(worker, request)),
        };
        if self.history.is_on() {
            self.tell_store(op, &answer);
        }
        match (op, &answer) {
            (Op::Admit(request), Answer::Admit(AdmitAnswer::Admitted(_))) if stranger => {
                self.believe(&request.holder);
            }
            (Op::Presence(holder, number, Presence::Ended), _) => self.note_end(holder, *number),
            (Op::Presence(holder, number, Presence::Opened | Presence::Vouched), _)
            | (Op::Announce(holder, number), _) => self.note_sight(holder, *number),
            (Op::Renew(request), Answer::Renew(renewed)) => self.judge_beat(request, *renewed),
            _ => {}
        }
        answer
    }

    fn tell_store(&mut self, op: &Op, answer: &Answer) {
        use crate::words::{number, numbers, releases, renewed};
        let vm = |world: &Self, holder: &admission::id::HolderId| {
            world
                .epochs
                .get(&*holder.epoch.text())
                .copied()
                .unwrap_or_default()
        };
        let words = match (op, answer) {
            (Op::Admit(request), Answer::Admit(answer)) => {
                let result = match answer {
                    AdmitAnswer::Admitted(admitted) => format!("admitted on {}", admitted.worker),
                    AdmitAnswer::Denied(denied) => denied.reason.as_str().to_owned(),
                    AdmitAnswer::Redirected(_) => "redirected".to_owned(),
                };
                let lease = number(request.lease.seq);
                format!("admit vm {} {lease}: {result}", vm(self, &request.holder))
            }
            (Op::Release(request), _) => {
                format!(
                    "release vm {} {}",
                    vm(self, &request.holder),
                    releases(request)
                )
            }
            (Op::Renew(request), Answer::Renew(answer)) => {
                let who = vm(self, &request.holder);
                format!("renew vm {who} beat {}: {}", request.beat, renewed(*answer))
            }
            (Op::Listed(holder, beat), Answer::Listed(Some(held))) => {
                format!(
                    "list vm {} beat {beat}: {}",
                    vm(self, holder),
                    numbers(held)
                )
            }
            (Op::Reassert(holder, beat, place), _) => {
                let all: Vec<u64> = place.leases.iter().map(|lease| lease.0).collect();
                let (who, all) = (vm(self, holder), numbers(&all));
                format!("reassert vm {who} beat {beat} {all}: {answer:?}")
            }
            (Op::Renounce(holder, beat, all), _) => {
                let (who, all) = (vm(self, holder), numbers(all));
                format!("renounce vm {who} beat {beat} {all}: {answer:?}")
            }
            (Op::Presence(holder, number, presence), _) => {
                format!("presence vm {} {number} {presence:?}", vm(self, holder))
            }
            (Op::Announce(holder, number), _) => {
                format!("announce vm {} {number}", vm(self, holder))
            }
            (Op::Reclaim(holder), _) => format!("reclaim vm {}: {answer:?}", vm(self, holder)),
            (Op::Heartbeat(worker, request), _) => {
                format!("heartbeat {worker} sessions {:?}", request.sessions)
            }
            (Op::Register(worker, _), _) => format!("register {worker}"),
            _ => return,
        };
        tell!(self, "store", "{words}");
    }

    pub(crate) fn stop_store(&mut self) {
        self.store.up = false;
    }

    pub(crate) fn start_store(&mut self, older: Option<Box<Ledger>>) {
        self.store.up = true;
        self.store.run += 1;
        self.store.paused_until_us = 0;
        match older {
            Some(older) => self.store.ledger.rollback(*older),
            None => self.store.ledger.wipe(),
        }
        let now_ms = self.store.ledger.now_ms();
        for vm in &mut self.vms {
            vm.died_at_ms = vm.died_at_ms.map(|_| now_ms);
            vm.left_at_ms = None;
            vm.presence_over = 0;
        }
        self.judge.rebuilt_from_ms = now_ms;
        self.judge.store_lost_at_us = Some(self.now_us);
        self.judge.losses += 1;
    }
}
