//! What a sidecar sees of presences, and tells the store until it is heard.

use crate::event::{Event, Op, Owed, Then};
use crate::history::tell;
use crate::vm::VmState;
use crate::world::{SECOND, World};
use admission::model::ledger::Presence;

pub(crate) const VOUCH_US: u64 = 2 * SECOND;

impl World {
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

    pub(crate) fn pay(&mut self, sidecar: usize, (vm, number, presence): (usize, u64, Owed)) {
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

    pub(crate) fn hear_of_rebuild(&mut self, sidecar: usize, rebuilding: Option<u64>) {
        if rebuilding.is_none() || self.sidecars[sidecar].announced == rebuilding {
            return;
        }
        tell!(self, format!("sidecar {sidecar}"), "hears of a rebuild");
        self.sidecars[sidecar].announced = rebuilding;
        for (vm, number) in self.sidecars[sidecar].presences.clone() {
            self.owe(sidecar, vm, number, Owed::Announced);
        }
    }

    pub(crate) fn paid(&mut self, sidecar: usize, vm: usize, number: u64, presence: Owed) {
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
