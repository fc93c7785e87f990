use super::holder::Holder;
use super::{Ledger, What};
use crate::id::HolderId;

/// What is to become of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Believed,
    /// It is there, but silent.
    Quarantined,
    Gone,
}

impl Ledger {
    /// The holders that are to be looked at.
    pub(super) fn due(&self) -> Vec<HolderId> {
        (self.holders.values())
            .filter(|record| match self.fate(record) {
                Fate::Believed => false,
                Fate::Quarantined => !record.quarantined,
                Fate::Gone => !record.reclaimed || !record.leases.is_empty(),
            })
            .map(|record| record.id.clone())
            .collect()
    }

    fn fate(&self, record: &Holder) -> Fate {
        let within = |since_ms: u64| self.now_ms < since_ms + self.settings.lease_ttl_ms;
        // What spoke against the end may have been lost with the data, and is told again.
        let rebuilt_ms = self.rebuilt_at_ms + self.settings.grace_ms;
        let closed =
            (record.closing_at_ms).is_some_and(|at_ms| self.now_ms >= at_ms.max(rebuilt_ms));
        if record.reclaimed || closed {
            Fate::Gone
        } else if record.closing_at_ms.is_some() || !self.guards.ttl || within(record.beaten_at_ms)
        {
            Fate::Believed
        } else if self.guards.vouching && record.open && record.vouched_at_ms.is_some_and(within) {
            Fate::Quarantined
        } else {
            Fate::Gone
        }
    }

    /// Looks at a holder. Returns whether there is more to take.
    pub fn reclaim(&mut self, holder: &HolderId) -> bool {
        let epoch = &*holder.epoch.text();
        let Some(fate) = self.holders.get(epoch).map(|record| self.fate(record)) else {
            return false;
        };
        match fate {
            Fate::Believed => false,
            Fate::Quarantined => {
                let record = self.holder(holder);
                if !record.quarantined {
                    record.quarantined = true;
                    self.repairs.quarantined += 1;
                }
                false
            }
            Fate::Gone => {
                let reclaim_max = self.settings.reclaim_max;
                let record = self.holder(holder);
                record.reclaimed = true;
                record.quarantined = false;
                let taken: Vec<u64> = record.leases.keys().take(reclaim_max).copied().collect();
                for number in &taken {
                    self.give_back(epoch, *number);
                    self.repairs.reclaimed += 1;
                    self.note(epoch, *number, What::Reclaimed);
                }
                self.note_report(epoch);
                !self.holder(holder).leases.is_empty()
            }
        }
    }
}
