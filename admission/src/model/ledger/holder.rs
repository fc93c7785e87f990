use super::lease::Lease;
use super::{Ledger, What};
use crate::id::{BEAT_SHIFT, HolderId};
use crate::message::{Held, Place, RenewAnswer, RenewRequest, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a holder.
#[derive(Debug, Clone)]
pub(super) struct Holder {
    pub(super) id: HolderId,
    /// The last one; 0 before the first.
    pub(super) beat: u64,
    /// What the last beat was asking for.
    pub(super) asking: BTreeSet<u64>,
    pub(super) beaten_at_ms: u64,
    /// The highest that was opened or ended.
    pub(super) presence: u64,
    pub(super) open: bool,
    /// When it is reclaimed, because its presence ended.
    pub(super) closing_at_ms: Option<u64>,
    pub(super) vouched_at_ms: Option<u64>,
    pub(super) reclaimed: bool,
    pub(super) quarantined: bool,
    pub(super) leases: BTreeMap<u64, Lease>,
}

/// What a sidecar says of a holder's presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Opened,
    Vouched,
    Ended,
}

impl Ledger {
    /// A holder's record. Whoever is new is believed for as long as if it had beaten now.
    pub(super) fn holder(&mut self, id: &HolderId) -> &mut Holder {
        let now_ms = self.now_ms;
        (self.holders.entry(id.epoch.to_string())).or_insert_with(|| Holder {
            id: id.clone(),
            beat: 0,
            asking: BTreeSet::new(),
            beaten_at_ms: now_ms,
            presence: 0,
            open: false,
            closing_at_ms: None,
            vouched_at_ms: None,
            reclaimed: false,
            quarantined: false,
            leases: BTreeMap::new(),
        })
    }

    pub fn renew(&mut self, request: &RenewRequest) -> RenewAnswer {
        let now_ms = self.now_ms;
        let ignores_stale = self.guards.stale_beats_ignored;
        let record = self.holder(&request.holder);
        let stale = request.beat <= record.beat;
        let lost = record.reclaimed;
        if stale && ignores_stale {
            return self.answer_renew(Verdict::Stale, false);
        }
        record.beat = request.beat;
        record.asking = request.asking.iter().copied().collect();
        record.beaten_at_ms = now_ms;
        record.reclaimed = false;
        record.quarantined = false;
        record.closing_at_ms = None;
        let mut spoken_for = Held::default();
        for number in record.leases.keys() {
            let under_way = request.asking.contains(number) || request.ended.contains(number);
            if *number < request.beat << BEAT_SHIFT && !under_way {
                spoken_for.add(*number);
            }
        }
        let same = request.held.is_none_or(|held| held == spoken_for);
        let told_all = request.rebuild == self.rebuild_number();
        if same && request.held.is_some() && told_all {
            self.note_report(&request.holder.epoch.text());
        }
        self.answer_renew(if same { Verdict::Kept } else { Verdict::List }, lost)
    }

    fn answer_renew(&self, verdict: Verdict, lost: bool) -> RenewAnswer {
        RenewAnswer {
            verdict,
            lost,
            rebuild: self.rebuild_number(),
            lease_ttl_ms: self.settings.lease_ttl_ms,
        }
    }

    /// The numbers of the leases that this beat speaks for; none when it is not the last any more.
    pub fn listed(&self, holder: &HolderId, beat: u64) -> Option<Vec<u64>> {
        let record = self.holders.get(&*holder.epoch.text())?;
        (record.beat == beat).then(|| {
            record
                .leases
                .range(..beat << BEAT_SHIFT)
                .map(|(n, _)| *n)
                .collect()
        })
    }

    /// Takes in what the holder lists and the store lacks. Returns whether the beat is still the last.
    pub fn reassert(&mut self, holder: &HolderId, beat: u64, place: &Place) -> bool {
        let epoch = &*holder.epoch.text();
        if self.guards.reassert_needs_last_beat && !self.is_last(epoch, beat) {
            return false;
        }
        for (number, lifetime) in &place.leases {
            let buried = self.tombstones.contains_key(&(epoch.to_owned(), *number));
            if self.holds(holder, *number) || (buried && self.guards.reassert_checks_tombstone) {
                continue;
            }
            let limit = self.settings.max_concurrent;
            let limit = (self.workers.get(&place.worker)).map_or(limit, |w| w.max_concurrent);
            let life = self.live(&place.worker, &place.incarnation, place.address);
            life.active += 1;
            // It was counted when it was admitted.
            life.lifetime = life.lifetime.max(*lifetime);
            let over = life.active > limit;
            let lease = Lease {
                worker: place.worker.clone(),
                incarnation: place.incarnation.clone(),
                lifetime: *lifetime,
                since_ms: self.now_ms,
            };
            self.holder(holder).leases.insert(*number, lease);
            self.repairs.reasserted += 1;
            self.repairs.overcommitted += u64::from(over);
            self.note(epoch, *number, What::Reasserted);
        }
        true
    }

    /// Lets go what the holder does not list. Returns whether the beat is still the last.
    pub fn renounce(&mut self, holder: &HolderId, beat: u64, numbers: &[u64]) -> bool {
        let epoch = &*holder.epoch.text();
        if !self.is_last(epoch, beat) {
            return false;
        }
        for number in numbers {
            if self.give_back(epoch, *number).is_some() {
                self.repairs.renounced += 1;
                self.note(epoch, *number, What::Renounced);
            }
        }
        true
    }

    fn is_last(&self, epoch: &str, beat: u64) -> bool {
        (self.holders.get(epoch)).is_some_and(|record| record.beat == beat && !record.reclaimed)
    }

    pub fn presence(&mut self, holder: &HolderId, number: u64, presence: Presence) {
        let now_ms = self.now_ms;
        let grace_ms = if self.guards.grace {
            self.settings.grace_ms
        } else {
            0
        };
        let numbers_count = self.guards.presence_numbers;
        let record = self.holder(holder);
        match presence {
            Presence::Opened | Presence::Vouched => {
                // What has ended stays so: this was said before, and comes late.
                let over = number < record.presence || (number == record.presence && !record.open);
                if over && record.presence > 0 {
                    return;
                }
                record.presence = number;
                record.open = true;
                record.closing_at_ms = None;
                record.vouched_at_ms = Some(now_ms);
                self.await_report(&holder.epoch.text());
            }
            Presence::Ended => {
                // Said twice, it does not begin again.
                let over = number < record.presence || (number == record.presence && !record.open);
                if numbers_count && over {
                    return;
                }
                record.presence = record.presence.max(number);
                record.open = false;
                record.closing_at_ms = Some(now_ms + grace_ms);
            }
        }
    }
}
