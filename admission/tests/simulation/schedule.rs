//! Which faults happen when. What the protocol does not promise to survive is kept apart: two at once
//! of a store that lost its data, a holder that is stopped or trapped, and sidecars that are all gone.

use crate::chance::Chance;
use crate::event::Fault;
use crate::history::tell;
use crate::vm::VmState;
use crate::world::{BUSY_US, SECOND, World};
use admission::config::OnOutage;

const FIRST_US: u64 = 2 * SECOND;
const LAST_US: u64 = BUSY_US - 3 * SECOND;
/// A holder that is stopped for longer lives by its presence alone.
const SILENT_US: u64 = 10 * SECOND;

/// A time in which some faults must not happen.
#[derive(Debug, Clone, Copy)]
struct Window {
    from_us: u64,
    to_us: u64,
}

fn meets(windows: &[Window], from_us: u64, to_us: u64) -> bool {
    (windows.iter()).any(|window| from_us <= window.to_us && window.from_us <= to_us)
}

struct Plan<'a> {
    chance: &'a mut Chance,
    faults: Vec<(u64, Fault)>,
    /// No sidecar may be away.
    sidecars_needed: Vec<Window>,
    /// No sidecar is there: a presence that ended before cannot be opened again.
    sidecars_gone: Vec<Window>,
    envoys: usize,
    workers: usize,
    losses: bool,
    on_outage: OnOutage,
}

pub(crate) fn faults(
    chance: &mut Chance,
    (envoys, workers): (usize, usize),
    on_outage: OnOutage,
) -> Vec<(u64, Fault)> {
    let losses = chance.in_thousand(500);
    let mut plan = Plan {
        chance,
        faults: Vec::new(),
        sidecars_needed: Vec::new(),
        sidecars_gone: Vec::new(),
        envoys,
        workers,
        losses,
        on_outage,
    };
    plan.grave();
    plan.common();
    plan.faults
}

impl Plan<'_> {
    fn add(&mut self, at_us: u64, fault: Fault) {
        if at_us < BUSY_US {
            self.faults.push((at_us, fault));
        }
    }

    fn seconds(&mut self, low: u64, high: u64) -> u64 {
        self.chance.between(low * SECOND, high * SECOND)
    }

    fn need_sidecars(&mut self, from_us: u64, to_us: u64) {
        let window = Window { from_us, to_us };
        self.sidecars_needed.push(window);
    }

    /// One at a time, and the next when the last has healed.
    fn grave(&mut self) {
        let mut at_us = self.seconds(2, 15);
        while at_us < LAST_US {
            let kind = self.chance.between(0, if self.losses { 5 } else { 3 });
            let unhear = self.on_outage == OnOutage::LocalShare && self.chance.in_thousand(300);
            let end_us = match kind {
                _ if unhear => self.unhear_envoy(at_us),
                0 => self.stop_envoy(at_us),
                1 => self.stop_sidecars(at_us),
                2 => self.lose_host(at_us),
                _ => self.lose_data(at_us),
            };
            at_us = end_us + self.seconds(6, 20);
        }
    }

    fn stop_envoy(&mut self, at_us: u64) -> u64 {
        let envoy = self.chance.between(0, self.envoys as u64) as usize;
        let long = self.chance.in_thousand(400);
        let us = if long {
            self.seconds(12, 25)
        } else {
            self.chance.between(SECOND / 10, SILENT_US)
        };
        let us = us.min(LAST_US + 2 * SECOND - at_us);
        if long {
            self.need_sidecars(at_us.saturating_sub(3 * SECOND), at_us + us + 2 * SECOND);
        }
        self.add(at_us, Fault::FreezeEnvoy { envoy, us });
        at_us + us
    }

    /// It lives by its presence alone, and goes on with what it has.
    fn unhear_envoy(&mut self, at_us: u64) -> u64 {
        let envoy = self.chance.between(0, self.envoys as u64) as usize;
        let us = self.seconds(1, 25).min(LAST_US + 2 * SECOND - at_us);
        self.need_sidecars(at_us.saturating_sub(9 * SECOND), at_us + us + 2 * SECOND);
        self.add(at_us, Fault::Unhear { envoy, us });
        at_us + us
    }

    /// All of them, for less than a holder is believed without a beat.
    fn stop_sidecars(&mut self, at_us: u64) -> u64 {
        let end_us = (at_us + self.seconds(1, 8)).min(LAST_US);
        self.need_sidecars(at_us.saturating_sub(9 * SECOND), end_us + 5 * SECOND);
        self.sidecars_gone.push(Window {
            from_us: at_us.saturating_sub(2 * SECOND),
            to_us: end_us,
        });
        for sidecar in 0..2 {
            let after = self.chance.between(0, 50_000);
            self.add(at_us + after, Fault::CrashSidecar { sidecar });
            self.add(end_us, Fault::StartSidecar { sidecar });
        }
        end_us
    }

    /// An Envoy and the sidecar beside it: nobody sees the presence end.
    fn lose_host(&mut self, at_us: u64) -> u64 {
        let envoy = self.chance.between(0, self.envoys as u64) as usize;
        let sidecar = envoy % 2;
        let end_us = (at_us + self.seconds(1, 8)).min(LAST_US);
        self.need_sidecars(at_us.saturating_sub(9 * SECOND), end_us + 2 * SECOND);
        self.add(at_us, Fault::CrashSidecar { sidecar });
        self.add(at_us + 1, Fault::CrashEnvoy { envoy });
        self.add(end_us, Fault::StartSidecar { sidecar });
        let back_us = end_us + self.seconds(0, 2);
        self.add(back_us, Fault::StartEnvoy { envoy });
        end_us
    }

    fn lose_data(&mut self, at_us: u64) -> u64 {
        let down_us = self.chance.between(SECOND / 20, 3 * SECOND);
        let end_us = at_us + down_us;
        self.need_sidecars(at_us.saturating_sub(5 * SECOND), end_us + 4 * SECOND);
        self.add(at_us, Fault::StopStore);
        if self.chance.in_thousand(500) {
            let envoy = self.chance.between(0, self.envoys as u64) as usize;
            let us = down_us + self.chance.between(SECOND, 5 * SECOND / 2);
            self.add(at_us, Fault::Muffle { envoy, us });
        }
        if self.chance.in_thousand(500) {
            self.add(end_us, Fault::StartStoreEmpty);
        } else {
            let lost_us = self.chance.between(1_000, SECOND);
            self.add(at_us - lost_us, Fault::Save);
            self.add(end_us, Fault::StartStoreFromSave);
        }
        end_us
    }

    /// These may meet each other and the grave ones.
    fn common(&mut self) {
        let pace = self.chance.pick(&[1, 3, 8]);
        let mut at_us = FIRST_US;
        let mut sidecar_free_us = 0;
        let mut clock_free_us = 0;
        loop {
            at_us += self.chance.wait(pace * SECOND);
            if at_us >= LAST_US {
                return;
            }
            let envoy = self.chance.between(0, self.envoys as u64) as usize;
            match self.chance.between(0, 9) {
                0 => {
                    self.add(at_us, Fault::CrashEnvoy { envoy });
                    let back_us = at_us + self.chance.between(SECOND / 5, 4 * SECOND);
                    self.add(back_us, Fault::StartEnvoy { envoy });
                }
                1 if !self.losses => {
                    self.add(at_us, Fault::Trap { envoy });
                    let back_us = at_us + self.chance.between(SECOND / 5, SECOND);
                    self.add(back_us, Fault::StartEnvoy { envoy });
                }
                2 => {
                    let us = self.chance.between(SECOND / 2, 12 * SECOND);
                    let us = us.min(LAST_US + SECOND - at_us);
                    self.add(at_us, Fault::PauseStore { us });
                }
                // Two steps of the clock are more than the grace.
                3 if at_us >= clock_free_us => {
                    clock_free_us = at_us + 3 * SECOND;
                    let forward = self.chance.in_thousand(500);
                    let ms = self.chance.pick(&[2_000, 20_000, 3_600_000]);
                    self.add(at_us, Fault::JumpClock { forward, ms });
                }
                4 => {
                    let worker = self.chance.between(0, self.workers as u64) as usize;
                    self.add(at_us, Fault::RestartWorker { worker });
                }
                5 | 6 => {
                    let end_us =
                        (at_us + self.chance.between(SECOND / 10, 8 * SECOND)).min(LAST_US);
                    if at_us >= sidecar_free_us && !meets(&self.sidecars_needed, at_us, end_us) {
                        self.stop_sidecar(at_us, end_us);
                        sidecar_free_us = end_us + 3 * SECOND;
                    }
                }
                _ => {
                    if !meets(&self.sidecars_gone, at_us, at_us) {
                        self.add(at_us, Fault::CutPresence { envoy });
                    }
                }
            }
        }
    }

    fn stop_sidecar(&mut self, at_us: u64, end_us: u64) {
        let sidecar = self.chance.between(0, 2) as usize;
        if self.chance.in_thousand(500) {
            let us = end_us.saturating_sub(at_us).max(1);
            self.add(at_us, Fault::FreezeSidecar { sidecar, us });
        } else {
            self.add(at_us, Fault::CrashSidecar { sidecar });
            self.add(end_us.max(at_us + 1), Fault::StartSidecar { sidecar });
        }
    }
}

impl World {
    pub(crate) fn fault(&mut self, fault: Fault) {
        tell!(self, "FAULT", "{fault:?}");
        match fault {
            Fault::CrashEnvoy { envoy } => {
                self.envoys[envoy].vm = None;
                self.envoys[envoy].frozen_until_us = 0;
                self.envoys[envoy].unheard_until_us = 0;
                for vm in 0..self.vms.len() {
                    if self.vms[vm].envoy == envoy && self.vms[vm].state != VmState::Dead {
                        self.kill(vm);
                    }
                }
            }
            Fault::StartEnvoy { envoy } => {
                if self.envoys[envoy].vm.is_none() {
                    self.start_vm(envoy);
                }
            }
            Fault::FreezeEnvoy { envoy, us } => {
                // Stopped without a presence, nothing tells it from a lost host.
                if self.envoys[envoy].vm.is_some_and(|vm| self.is_seen(vm)) {
                    self.envoys[envoy].frozen_until_us = self.now_us + us;
                }
            }
            Fault::Trap { envoy } => {
                let frozen = self.now_us < self.envoys[envoy].frozen_until_us;
                let seen = |vm: &usize| !frozen && self.is_seen(*vm);
                if let Some(vm) = self.envoys[envoy].vm.filter(seen) {
                    self.envoys[envoy].vm = None;
                    self.trap(vm);
                }
            }
            Fault::CutPresence { envoy } => {
                // Nothing breaks a local connection to a process that is stopped.
                // And whoever is not heard could not open another.
                let it = &self.envoys[envoy];
                let frozen = self.now_us < it.frozen_until_us.max(it.unheard_until_us);
                let Some(vm) = self.envoys[envoy].vm.filter(|_| !frozen) else {
                    return;
                };
                self.last_cut_us = self.now_us;
                if let Some((number, ..)) = self.vms[vm].presence {
                    self.break_presence(vm);
                    let way = self.soon();
                    let ended = crate::event::Event::PresenceEnded {
                        vm,
                        number,
                        answered: false,
                    };
                    self.after(way, ended);
                }
            }
            Fault::Muffle { envoy, us } => {
                self.envoys[envoy].muffled_until_us = self.now_us + us;
            }
            Fault::Unhear { envoy, us } => {
                if self.envoys[envoy].vm.is_some_and(|vm| self.is_seen(vm)) {
                    self.envoys[envoy].unheard_until_us = self.now_us + us;
                }
            }
            Fault::CrashSidecar { sidecar } => {
                if !self.is_needed(sidecar) {
                    self.crash_sidecar(sidecar);
                }
            }
            Fault::StartSidecar { sidecar } => {
                if !self.sidecars[sidecar].up {
                    self.start_sidecar(sidecar);
                }
            }
            Fault::FreezeSidecar { sidecar, us } => {
                if !self.is_needed(sidecar) {
                    self.freeze_sidecar(sidecar, us);
                }
            }
            Fault::PauseStore { us } => {
                let until_us = self.now_us + us;
                self.store.paused_until_us = self.store.paused_until_us.max(until_us);
            }
            Fault::Save => self.store.saved = Some(Box::new(self.store.ledger.clone())),
            Fault::StopStore => self.stop_store(),
            Fault::StartStoreEmpty => self.start_store(None),
            Fault::StartStoreFromSave => {
                let saved = self.store.saved.take();
                self.start_store(saved);
            }
            Fault::JumpClock { forward, ms } => {
                // A rebuild's shortest time is counted by the same clock.
                if !self.store.up || self.store.ledger.is_rebuilding() {
                    return;
                }
                let clock_ms = self.store.clock_ms;
                self.store.clock_ms = if forward {
                    clock_ms + ms
                } else {
                    clock_ms - ms
                };
            }
            Fault::RestartWorker { worker } => self.restart_worker(worker),
        }
    }

    /// Whether a sidecar that is well sees its presence, and the store knows all it should.
    fn is_seen(&self, vm: usize) -> bool {
        let lost_at_us = self.judge.store_lost_at_us.unwrap_or_default();
        let settled = lost_at_us == 0 || self.now_us >= lost_at_us + 6 * SECOND;
        let paused = self.now_us < self.store.paused_until_us;
        if self.is_cut()
            || lost_at_us > 0 && (paused || !settled || self.store.ledger.is_rebuilding())
        {
            return false;
        }
        (self.vms[vm].presence).is_some_and(|(number, at, _)| {
            let sidecar = &self.sidecars[at];
            let well = sidecar.up && self.now_us >= sidecar.frozen_until_us;
            well && sidecar.presences.get(&vm) == Some(&number)
        })
    }

    /// Whether some presence was cut so lately that it may not have been opened again.
    fn is_cut(&self) -> bool {
        self.last_cut_us > 0 && self.now_us < self.last_cut_us + 2 * SECOND
    }

    /// A silent holder cannot open another presence: it lives by the sidecar that sees this one. And
    /// whose presence was cut needs a sidecar to open the next.
    fn is_needed(&self, sidecar: usize) -> bool {
        self.is_cut()
            || (self.vms.iter()).any(|vm| {
                let there = vm.presence.is_some_and(|(_, at, _)| at == sidecar);
                vm.state == VmState::Trapped && there
            })
    }
}
