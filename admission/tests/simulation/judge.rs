//! What must never happen. The names I1 to I12 are those of the design.

use crate::history::tell;
use crate::sidecar::Sidecar;
use crate::stream::Phase;
use crate::vm::VmState;
use crate::world::{SECOND, World};
use admission::id::{BEAT_SHIFT, HolderId};
use admission::message::{DenyReason, RenewAnswer, RenewRequest, Verdict};
use admission::model::ledger::What;
use std::collections::{BTreeMap, BTreeSet};

/// A release may overtake the close of its session.
pub(crate) const OVERLAP_US: u64 = 100_000;
/// After the store lost its data, everything is told again within this time.
const REPAIR_US: u64 = 4 * SECOND;
/// How long a release takes when all is calm.
const RELEASE_US: u64 = SECOND / 10;
/// A release that was dropped is made up for by the next beat, at most 3.6 s later, and the list that
/// follows it.
const RENOUNCE_US: u64 = 3_700_000;
/// What the reapers need to find and take everything.
const REAP_US: u64 = 2 * SECOND;
/// A dead holder's places are back this long after its last beat came: its time, the longest step of
/// the pool's clock, and what the reapers need.
const GONE_MS: u64 = 15_000 + 1_000 + 2_000;
/// The same, if the store heard that its presence ended: the grace instead of its time.
const LEFT_MS: u64 = 1_500 + 1_000 + 2_000;

#[derive(Debug, Clone)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    pub(crate) what: String,
}

type Id = (usize, u64);

#[derive(Debug, Default)]
pub(crate) struct Judge {
    pub(crate) violation: Option<Violation>,
    pub(crate) store_lost_at_us: Option<u64>,
    pub(crate) losses: u64,
    /// The pool's clock when the store came back; a rebuild begins with the first call.
    pub(crate) rebuilt_from_ms: u64,
    /// Since when somebody can reap.
    reaped_from_us: u64,
    /// Ended, and the store knows.
    ended: BTreeSet<Id>,
    /// Ended, and taken in again since then, because the store has lost that.
    ghosts: BTreeMap<Id, u64>,
    /// With how many losses of the store each was admitted.
    admitted: BTreeSet<(Id, u64)>,
    /// VMs that lost their places once.
    reclaimed: BTreeSet<usize>,
}

impl World {
    pub(crate) fn violate(&mut self, rule: &'static str, what: String) {
        tell!(self, "VIOLATION", "{rule}: {what}");
        self.judge.violation.get_or_insert(Violation { rule, what });
    }

    /// Whether the store lost data so lately that not all can have been told again.
    fn is_repairing(&self) -> bool {
        (self.judge.store_lost_at_us).is_some_and(|at_us| self.now_us < at_us + REPAIR_US)
    }

    fn stream_of(&self, (vm, number): Id) -> Option<usize> {
        self.vms[vm].by_number.get(&number).copied()
    }

    fn is_live(&self, id: Id) -> bool {
        self.vms[id.0].state == VmState::Alive
            && (self.stream_of(id)).is_some_and(|s| self.streams[s].phase == Phase::Live)
    }

    /// Looks at what the store just did.
    pub(crate) fn judge_changes(&mut self) {
        if let Err(what) = self.store.ledger.check() {
            self.violate("I2 the ledger is consistent", what);
        }
        for change in self.store.ledger.take_changes() {
            let Some(vm) = self.epochs.get(&change.epoch).copied() else {
                continue;
            };
            let id = (vm, change.number);
            let lease = format!("vm {vm} {}", crate::words::number(change.number));
            match change.what {
                What::Admitted | What::Reasserted => {
                    tell!(self, "store", "takes in {lease}: {:?}", change.what);
                    // A late copy of its holder's list, when the store has lost that it ended. If the
                    // holder lives, its next beat puts that right.
                    let excused = change.what == What::Reasserted && self.is_repairing();
                    if self.judge.ended.contains(&id) && !excused {
                        self.violate("I5 what ended stays ended", lease.clone());
                    } else if self.judge.ended.contains(&id) {
                        self.judge.ghosts.insert(id, self.now_us);
                    }
                    let counted = (id, self.judge.losses);
                    if change.what == What::Admitted && !self.judge.admitted.insert(counted) {
                        self.violate("I3 counted once", lease);
                    }
                }
                What::Released => {
                    self.judge.ended.insert(id);
                }
                What::Renounced | What::Reclaimed | What::Freed => {
                    tell!(self, "store", "lets go {lease}: {:?}", change.what);
                    if change.what == What::Reclaimed {
                        self.judge.reclaimed.insert(vm);
                    }
                    // How many of a silent holder's have ended its worker tells, not which.
                    if change.what == What::Freed {
                        self.judge_freed(id);
                    } else if self.is_live(id) {
                        let what = format!("{lease} is live, and {:?}", change.what);
                        self.violate("I8 a live stream keeps its lease", what);
                    } else if change.what == What::Renounced {
                        self.judge.ended.insert(id);
                    }
                }
            }
        }
    }

    /// A silent holder keeps as many places on a worker as it has sessions there.
    fn judge_freed(&mut self, (vm, number): Id) {
        let session = (self.streams.iter())
            .find(|stream| (stream.vm, stream.number) == (vm, number))
            .and_then(|stream| stream.session);
        let Some((worker, _)) = session else {
            return;
        };
        let it = &self.workers[worker];
        let sessions = (it.sessions.iter())
            .filter(|stream| self.streams[**stream].vm == vm)
            .count();
        let places = self.store.ledger.count_on(&self.vms[vm].id, &it.id);
        if places < sessions {
            let what = format!("vm {vm} has {sessions} on worker {worker}, and {places} places");
            self.violate("I8 as many places as sessions", what);
        }
    }

    /// The store has accepted a beat: whatever is over, and was minted before it, it was told of.
    pub(crate) fn judge_beat(&mut self, request: &RenewRequest, answer: RenewAnswer) {
        if answer.verdict == Verdict::Stale {
            return;
        }
        let Some(vm) = self.epochs.get(&*request.holder.epoch.text()).copied() else {
            return;
        };
        self.believe(&request.holder);
        let numbers: Vec<u64> = (self.streams.iter())
            .filter(|stream| stream.vm == vm && stream.phase == Phase::Over)
            .map(|stream| stream.number)
            // Its place may be another's now.
            .filter(|number| !self.vms[vm].by_number.contains_key(number))
            .filter(|number| *number < request.beat << BEAT_SHIFT)
            .filter(|n| !request.asking.contains(n) && !request.ended.contains(n))
            .filter(|n| !self.store.ledger.holds(&request.holder, *n))
            .collect();
        let listed = |number: &u64| {
            (request.leases.iter().flatten())
                .any(|place| place.leases.iter().any(|lease| lease.0 == *number))
        };
        let same = request.held.is_some() && answer.verdict == Verdict::Kept;
        if same || request.leases.is_some() {
            let told = numbers.into_iter().filter(|number| !listed(number));
            self.judge.ended.extend(told.map(|number| (vm, number)));
        }
    }

    /// What is said in the name of a dead holder is believed from when it comes, however late that is:
    /// a beat, a presence that is not known to have ended, and the first admit of a holder that is not
    /// known at all. Later admits prolong nothing.
    pub(crate) fn believe(&mut self, holder: &HolderId) {
        let now_ms = self.store.ledger.now_ms();
        if let Some(vm) = self.epochs.get(&*holder.epoch.text()) {
            let vm = &mut self.vms[*vm];
            vm.died_at_ms = vm.died_at_ms.map(|_| now_ms);
            vm.left_at_ms = None;
        }
    }

    /// A sidecar has told that it sees the presence.
    pub(crate) fn note_sight(&mut self, holder: &HolderId, number: u64) {
        let vm = self.epochs[&*holder.epoch.text()];
        if number > self.vms[vm].presence_over {
            self.believe(holder);
        }
    }

    /// A sidecar has told that the presence ended.
    pub(crate) fn note_end(&mut self, holder: &HolderId, number: u64) {
        let now_ms = self.store.ledger.now_ms();
        let vm = &mut self.vms[self.epochs[&*holder.epoch.text()]];
        if number > vm.presence_over {
            vm.presence_over = number;
            // Of an earlier one it says nothing.
            if number == vm.presences {
                vm.left_at_ms = Some(now_ms);
            }
        }
    }

    /// A stream that waits has not ended.
    pub(crate) fn judge_denial(&mut self, stream: usize, reason: DenyReason) {
        let vm = self.streams[stream].vm;
        let excused = self.is_repairing() || self.judge.reclaimed.contains(&vm);
        if reason == DenyReason::Cancelled && !excused {
            let lease = crate::words::number(self.streams[stream].number);
            self.violate(
                "a stream that waits is not cancelled",
                format!("vm {vm} {lease}"),
            );
        }
    }

    /// Nobody is sent where it has no place.
    pub(crate) fn judge_route(&mut self, stream: usize) {
        let (vm, number) = (self.streams[stream].vm, self.streams[stream].number);
        let held = self.store.ledger.holds(&self.vms[vm].id, number);
        // Until all have told what they hold, nobody else can have got it.
        let waited_for = self.streams[stream].reused && self.store.ledger.is_rebuilding();
        if !held && !self.is_repairing() && !waited_for && self.store.up {
            let lease = crate::words::number(number);
            self.violate(
                "I10 whoever is routed holds a lease",
                format!("vm {vm} {lease}"),
            );
        }
    }

    pub(crate) fn judge_overlap(&mut self, worker: usize, since_us: u64) {
        let it = &self.workers[worker];
        if it.over_since_us == Some(since_us) {
            let what = format!(
                "worker {worker} has {} sessions, {} allowed",
                it.sessions.len(),
                it.max_concurrent
            );
            self.violate("I1 no more than max_concurrent", what);
        }
    }

    /// Looks at everything, now and then.
    pub(crate) fn judge_all(&mut self) {
        let now_us = self.now_us;
        let store_there = self.store.up && now_us >= self.store.paused_until_us;
        let sidecars_there =
            (self.sidecars.iter()).all(|sidecar| sidecar.up && now_us >= sidecar.frozen_until_us);
        let all_there = store_there && sidecars_there;
        for stream in 0..self.streams.len() {
            if self.streams[stream].phase != Phase::Live {
                continue;
            }
            let (vm, number) = (self.streams[stream].vm, self.streams[stream].number);
            let frozen = now_us < self.envoys[self.vms[vm].envoy].frozen_until_us;
            let reachable = all_there && !frozen && !self.is_unheard(vm);
            let held = self.store.ledger.holds(&self.vms[vm].id, number);
            if held || !reachable || self.vms[vm].state != VmState::Alive {
                self.streams[stream].missing_since_us = None;
                continue;
            }
            let since_us = *self.streams[stream].missing_since_us.get_or_insert(now_us);
            if now_us >= since_us + REPAIR_US {
                let what = format!("vm {vm} {} is not held", crate::words::number(number));
                self.violate("I12 what is lost is told again", what);
            }
        }
        self.judge_ghosts(all_there);
        self.judge_graves();
    }

    /// What a living holder has ended, and the store took in again, is let go as soon as the rest is told.
    fn judge_ghosts(&mut self, all_there: bool) {
        let now_us = self.now_us;
        for ((vm, number), since_us) in self.judge.ghosts.clone() {
            let it = &self.vms[vm];
            let envoy = &self.envoys[it.envoy];
            let silent_us = envoy.muffled_until_us.max(envoy.unheard_until_us);
            let stopped = now_us < envoy.frozen_until_us.max(silent_us);
            if it.state != VmState::Alive || !self.store.ledger.holds(&it.id, number) {
                self.judge.ghosts.remove(&(vm, number));
            } else if !all_there || stopped {
                self.judge.ghosts.insert((vm, number), now_us);
            } else if now_us >= since_us + REPAIR_US {
                let what = format!("vm {vm} {} is held", crate::words::number(number));
                self.violate("I12 what ended is let go", what);
            }
        }
    }

    fn judge_graves(&mut self) {
        let away = |s: &Sidecar| !s.up || self.now_us < s.frozen_until_us;
        let stopped = !self.store.up || self.now_us < self.store.paused_until_us;
        if stopped || self.sidecars.iter().all(away) {
            self.judge.reaped_from_us = self.now_us;
        }
        if self.now_us < self.judge.reaped_from_us + REAP_US {
            return;
        }
        let now_ms = self.store.ledger.now_ms();
        let mut left = None;
        for (epoch, number) in self.store.ledger.leases() {
            let vm = self.epochs[epoch];
            let Some(died_at_ms) = self.vms[vm].died_at_ms else {
                continue;
            };
            // While a rebuild begins, nobody is reclaimed for a presence.
            let ended = (self.vms[vm].left_at_ms)
                .is_some_and(|at_ms| now_ms > at_ms.max(self.judge.rebuilt_from_ms) + LEFT_MS);
            if ended || now_ms > died_at_ms + GONE_MS {
                left = Some((vm, number));
            }
        }
        if let Some((vm, number)) = left {
            let what = format!(
                "vm {vm} {} is held by the dead",
                crate::words::number(number)
            );
            self.violate("I7 the dead hold nothing", what);
        }
    }

    /// Everything has healed: the store holds what is live, and nothing else.
    pub(crate) fn judge_exactness(&mut self) {
        let releasing: BTreeSet<Id> = (self.streams.iter())
            .filter(|stream| stream.phase == Phase::Over)
            .filter(|stream| {
                let released_us = stream.over_at_us + RELEASE_US;
                let dropped = (self.vms[stream.vm].dropped_at_us)
                    .filter(|at_us| *at_us >= stream.over_at_us)
                    .map_or(0, |at_us| at_us + RENOUNCE_US);
                self.now_us < released_us.max(dropped)
            })
            .map(|stream| (stream.vm, stream.number))
            .filter(|id| !self.is_live(*id)) // another stream has its place
            .collect();
        let held: BTreeSet<Id> = (self.store.ledger.leases())
            .map(|(epoch, number)| (self.epochs[epoch], number))
            .filter(|(vm, _)| self.vms[*vm].state == VmState::Alive)
            .filter(|id| !releasing.contains(id))
            .collect();
        let live: BTreeSet<Id> = (self.streams.iter())
            .filter(|stream| stream.phase == Phase::Live)
            .map(|stream| (stream.vm, stream.number))
            .filter(|(vm, _)| self.vms[*vm].state == VmState::Alive)
            .collect();
        if held != live {
            let what = format!("held {held:?}, live {live:?}");
            self.violate("I12 exact when all is calm", what);
        }
    }

    pub(crate) fn judge_emptiness(&mut self) {
        let left: Vec<String> = (self.store.ledger.leases())
            .map(|(epoch, number)| {
                format!("vm {} {}", self.epochs[epoch], crate::words::number(number))
            })
            .collect();
        if !left.is_empty() {
            self.violate("no leak", left.join(", "));
        }
    }
}
