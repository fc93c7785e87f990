//! What a VM asks of its sidecar and hears from it, and its presence there.

use crate::event::{Call, Event, Reply};
use crate::history::tell;
use crate::network::QUICK_US;
use crate::vm::{Name, VmState};
use crate::world::{SECOND, World};
use admission::lifecycle::Event as Happening;

const TIMEOUT_US: u64 = 300_000;
/// An answer that is older is not used: the Envoy stood still meanwhile.
const WATCHDOG_US: u64 = SECOND;
/// After this long without an answer to its health check, a sidecar is not asked any more.
const UNHEALTHY_US: u64 = SECOND;

impl World {
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

    pub(crate) fn is_muffled(&self, vm: usize) -> bool {
        self.now_us < self.envoys[self.vms[vm].envoy].muffled_until_us
    }

    pub(crate) fn is_unheard(&self, vm: usize) -> bool {
        self.now_us < self.envoys[self.vms[vm].envoy].unheard_until_us
    }

    pub(crate) fn call(&mut self, vm: usize, call: Call) {
        self.tokens += 1;
        let token = self.tokens;
        self.vms[vm].waiting.insert(token, call.clone());
        self.after(TIMEOUT_US, Event::Timeout { vm, token });
        if self.is_muffled(vm) && matches!(call, Call::Renew(_)) || self.is_unheard(vm) {
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

    pub(crate) fn be_present(&mut self, vm: usize, number: u64) {
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
                self.unanswered(stream, Happening::Overdue);
            }
            (Call::Admit { stream, .. }, Reply::Admit(answer)) => self.answered(stream, answer),
            (Call::Admit { stream, .. }, _) => self.unanswered(stream, Happening::Failed),
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
}
