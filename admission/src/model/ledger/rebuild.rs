use super::{Ledger, Presence};
use crate::id::HolderId;
use std::collections::BTreeSet;

/// The time after the store may have lost data.
#[derive(Debug, Clone)]
pub(super) struct Rebuild {
    since_ms: u64,
    /// Epochs of holders that are there, and have yet to tell what they hold.
    awaited: BTreeSet<String>,
    reported: BTreeSet<String>,
}

/// What a reaper is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaped {
    pub due: Vec<HolderId>,
    /// The run id with which the rebuild that is under way began.
    pub rebuilding: Option<u64>,
}

impl Ledger {
    pub fn reap(&self) -> Reaped {
        Reaped {
            due: self.due(),
            rebuilding: self.rebuild_number(),
        }
    }

    /// A holder is there: a rebuild that is under way waits until it has told what it holds.
    pub(super) fn await_report(&mut self, epoch: &str) {
        if let Some(rebuild) = &mut self.rebuild
            && !rebuild.reported.contains(epoch)
        {
            rebuild.awaited.insert(epoch.to_owned());
        }
    }

    /// A sidecar has heard of the rebuild, and sees this holder's presence.
    pub fn announce(&mut self, holder: &HolderId, number: u64) {
        self.presence(holder, number, Presence::Vouched);
    }

    /// The server starts anew without its data.
    pub fn wipe(&mut self) {
        let empty = Self::new(self.settings, self.guards);
        self.restart_with(empty);
    }

    /// The server starts anew with older data.
    pub fn rollback(&mut self, older: Self) {
        self.restart_with(older);
    }

    fn restart_with(&mut self, data: Self) {
        let run = self.run + 1;
        let repairs = self.repairs;
        *self = data;
        self.run = run;
        self.repairs = repairs;
    }

    pub(super) fn rebuild_number(&self) -> Option<u64> {
        self.rebuild.as_ref().map(|_| self.run)
    }

    pub fn is_rebuilding(&self) -> bool {
        self.rebuild.is_some()
    }

    /// What a holder holds is known now, or it is gone.
    pub(super) fn note_report(&mut self, epoch: &str) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.awaited.remove(epoch);
            rebuild.reported.insert(epoch.to_owned());
        }
    }

    /// Begins a rebuild, or ends it.
    pub(super) fn tend_rebuild(&mut self) {
        let begins = match self.used_with {
            None => true,
            Some(run) => self.guards.rebuild_by_run_id && run != self.run,
        };
        self.used_with = Some(self.run);
        if begins {
            self.repairs.rebuilds += 1;
            self.rebuilt_at_ms = self.now_ms;
            self.rebuild = Some(Rebuild {
                since_ms: self.now_ms,
                awaited: BTreeSet::new(),
                reported: BTreeSet::new(),
            });
        }
        let over = self.rebuild.as_ref().is_some_and(|rebuild| {
            let age_ms = self.now_ms - rebuild.since_ms;
            let waits = self.guards.rebuild_waits_for_announced && !rebuild.awaited.is_empty();
            age_ms >= self.settings.rebuild_ms && (!waits || age_ms >= self.settings.lease_ttl_ms)
        });
        if over {
            self.rebuild = None;
        }
    }
}
