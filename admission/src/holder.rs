//! One holder's side of the lease protocol (docs/leases.md): when it beats, whether it is present, and
//! when its news goes out. The filter asks what is due, does it, and tells how it went.

mod outage;

pub use outage::{News, Toll};

use crate::config::{OnLeaseLost, OnOutage};
use crate::id::{HolderId, LeaseId, PoolName};
use crate::inventory::{Delivery, Inventory};
use crate::message::{DenyReason, RenewAnswer, RenewRequest, Verdict, mix};
use outage::{Outage, SILENCE_MARGIN_US};

/// From one beat to the next, give or take a fifth, so that the beats of a fleet spread. Sooner where
/// holders are believed for less than 12 s: four beats are to fit.
pub const BEAT_US: u64 = 3_000_000;
pub const BEATS_MIN: u64 = 4;
/// What failed is tried again after this: longer than a question may take, so that one at a time is
/// under way.
pub const RETRY_US: u64 = 350_000;
/// A beat that is neither answered nor failed after this was forgotten by the proxy.
const BEAT_LOST_US: u64 = 5_000_000;
/// With `on_lease_lost: close`, sessions are closed this long before the store gives their places
/// away, or a beat if that is less: time for the closes to reach the workers.
const FENCE_US: u64 = 2_000_000;
/// Deliveries under way at once. While they are out, news gathers and the next carries more.
const DELIVERIES_MAX: usize = 8;

/// A timer is no finer than this, and may be early by as much.
const TICK_US: u64 = 1_000;

/// What is to be done now.
#[derive(Debug, PartialEq, Eq)]
pub enum Errand {
    /// Open the hanging call of this number.
    BePresent {
        number: u64,
    },
    Beat(Box<RenewRequest>),
    Deliver(Delivery),
    /// The places may be others' soon, or are already: close these sessions.
    Close(Vec<u64>),
    /// Say it, and count it.
    Tell(News),
}

#[derive(Debug)]
enum Presence {
    Open {
        since_us: u64,
    },
    /// Not before this time.
    Closed {
        until_us: u64,
    },
}

#[derive(Debug)]
struct Sent {
    beat: u64,
    at_us: u64,
    listed: bool,
}

#[derive(Debug)]
pub struct Holder {
    pool: PoolName,
    id: HolderId,
    on_lease_lost: OnLeaseLost,
    on_outage: OnOutage,
    inventory: Inventory,
    presence: Presence,
    presences: u64,
    /// The beat under way.
    sent: Option<Sent>,
    last_sent_us: Option<u64>,
    beat_due_us: u64,
    /// The store asked for the list.
    list: bool,
    /// The rebuild that was heard of, and the mark at that time.
    rebuild: Option<(u64, u64)>,
    /// When the store would give the places away, less the fence.
    fence_us: Option<u64>,
    /// Sessions to close, because their places were lost.
    closing: Vec<u64>,
    deliveries: usize,
    /// News is not sent before this time, because the last delivery failed.
    deliver_due_us: u64,
    delivery_retry_us: u64,
    /// Since when the oldest news that no delivery has taken waits for company.
    gathering_since_us: Option<u64>,
    delivery_delay_us: u64,
    outage: Option<Outage>,
    news: Vec<News>,
    /// Until then, by the last beat that was answered, places may be taken again.
    share_until_us: Option<u64>,
    /// Since when the store may have heard of a presence's end, and of nothing that speaks against it.
    presence_broken_us: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub backlog_max: usize,
    pub delivery_delay_ms: u64,
    pub delivery_retry_ms: u64,
    pub on_lease_lost: OnLeaseLost,
    pub on_outage: OnOutage,
}

impl Holder {
    pub fn new(pool: PoolName, id: HolderId, settings: Settings) -> Self {
        Self {
            inventory: Inventory::new(id.epoch.clone(), settings.backlog_max),
            pool,
            id,
            on_lease_lost: settings.on_lease_lost,
            on_outage: settings.on_outage,
            presence: Presence::Closed { until_us: 0 },
            presences: 0,
            sent: None,
            last_sent_us: None,
            beat_due_us: 0,
            list: false,
            rebuild: None,
            fence_us: None,
            closing: Vec::new(),
            deliveries: 0,
            deliver_due_us: 0,
            delivery_retry_us: settings.delivery_retry_ms.saturating_mul(1000),
            gathering_since_us: None,
            delivery_delay_us: settings.delivery_delay_ms.saturating_mul(1000),
            outage: None,
            news: Vec::new(),
            share_until_us: None,
            presence_broken_us: None,
        }
    }

    pub fn pool(&self) -> &PoolName {
        &self.pool
    }

    pub fn id(&self) -> &HolderId {
        &self.id
    }

    pub fn inventory(&mut self) -> &mut Inventory {
        &mut self.inventory
    }

    pub fn mint(&mut self) -> LeaseId {
        self.inventory.mint()
    }

    /// The sidecar denied a lease. Some denials say that the store does not know what it should.
    pub fn denied(&mut self, number: u64, reason: DenyReason, now_us: u64) {
        self.inventory.refused(number);
        match reason {
            DenyReason::Cancelled | DenyReason::Rebuilding => self.hurry(now_us),
            DenyReason::RateLimited
            | DenyReason::ClientLimit
            | DenyReason::PoolFull
            | DenyReason::NoWorker
            | DenyReason::AffinityLost => {}
        }
    }

    /// What is to be done now. Whatever it names counts as begun.
    pub fn due(&mut self, now_us: u64) -> Vec<Errand> {
        let mut errands = Vec::new();
        errands.extend(self.presence_due(now_us));
        errands.extend(self.beat_due(now_us));
        if !self.shares(now_us) {
            self.inventory.end_spares();
        }
        errands.extend(self.fence_due(now_us));
        self.deliveries_due(now_us, &mut errands);
        for news in std::mem::take(&mut self.news) {
            errands.push(Errand::Tell(news));
        }
        errands
    }

    fn presence_due(&mut self, now_us: u64) -> Option<Errand> {
        match self.presence {
            Presence::Closed { until_us } if now_us >= until_us => {
                self.presence = Presence::Open { since_us: now_us };
                self.presences = self.presences.saturating_add(1);
                // Not sooner: a beat that overtook the news of the end would not speak against it.
                self.hurry(now_us);
                let number = self.presences;
                Some(Errand::BePresent { number })
            }
            Presence::Closed { .. } | Presence::Open { .. } => None,
        }
    }

    fn beat_due(&mut self, now_us: u64) -> Option<Errand> {
        let lost = |sent: &Sent| now_us >= sent.at_us.saturating_add(BEAT_LOST_US);
        if self.sent.as_ref().is_some_and(lost) {
            self.sent = None;
            self.beat_failed(now_us);
        }
        if self.sent.is_some() || now_us < self.beat_due_us {
            return None;
        }
        let mut request = self.inventory.beat(&self.pool, &self.id, self.list);
        request.rebuild = (self.rebuild)
            .filter(|(_, mark)| self.inventory.is_answered(*mark))
            .map(|(number, _)| number);
        self.sent = Some(Sent {
            beat: request.beat,
            at_us: now_us,
            listed: request.leases.is_some(),
        });
        self.last_sent_us = Some(now_us);
        Some(Errand::Beat(Box::new(request)))
    }

    fn fence_due(&mut self, now_us: u64) -> Option<Errand> {
        match self.on_lease_lost {
            OnLeaseLost::Keep => return None,
            OnLeaseLost::Close => {}
        }
        if self.fence_us.is_some_and(|fence_us| now_us >= fence_us) {
            // Until a beat is answered there is nothing to lose.
            self.fence_us = None;
            self.closing = self.inventory.held().collect();
        }
        let closing = std::mem::take(&mut self.closing);
        (!closing.is_empty()).then_some(Errand::Close(closing))
    }

    /// News that has waited for its time goes, all of it; before that, only full batches do.
    fn deliveries_due(&mut self, now_us: u64, errands: &mut Vec<Errand>) {
        if now_us < self.deliver_due_us {
            return;
        }
        let aged = (self.gathers_for_us(now_us)).is_some_and(|wait_us| wait_us < TICK_US);
        while self.deliveries < DELIVERIES_MAX && (aged || self.inventory.has_full_batch()) {
            let Some(delivery) = self.inventory.take_delivery() else {
                break;
            };
            self.deliveries = self.deliveries.saturating_add(1);
            errands.push(Errand::Deliver(delivery));
        }
        if !self.inventory.has_news() {
            self.gathering_since_us = None;
        }
    }

    /// Whether there is a full batch, and it may go now.
    pub fn has_delivery(&self, now_us: u64) -> bool {
        now_us >= self.deliver_due_us
            && self.deliveries < DELIVERIES_MAX
            && self.inventory.has_full_batch()
    }

    /// For how long the news that there is may still wait for company, which saves deliveries.
    pub fn gathers_for_us(&mut self, now_us: u64) -> Option<u64> {
        if !self.inventory.has_news() {
            return None;
        }
        let since_us = *self.gathering_since_us.get_or_insert(now_us);
        let until_us = since_us.saturating_add(self.delivery_delay_us);
        Some(until_us.saturating_sub(now_us))
    }

    /// No answer to a beat counts as none when it failed, or was no answer.
    pub fn beat_answered(&mut self, beat: u64, answer: Option<RenewAnswer>, now_us: u64) {
        let Some(sent) = self.sent.take_if(|sent| sent.beat == beat) else {
            return;
        };
        let Some(answer) = answer else {
            self.beat_due_us = sent.at_us.saturating_add(RETRY_US);
            self.beat_failed(now_us);
            return;
        };
        let ttl_us = answer.lease_ttl_ms.saturating_mul(1000);
        // From when it was sent: the store may have heard it at once, and not again.
        let believed_us = sent.at_us.saturating_add(ttl_us);
        let beat_us = ttl_us
            .checked_div(BEATS_MIN)
            .unwrap_or_default()
            .min(BEAT_US);
        self.fence_us = Some(believed_us.saturating_sub(FENCE_US.min(beat_us)));
        let margin_us = SILENCE_MARGIN_US.min(beat_us.saturating_mul(2));
        self.share_until_us = Some(believed_us.saturating_sub(margin_us));
        if let Presence::Open { since_us } = self.presence
            && sent.at_us >= since_us
        {
            self.presence_broken_us = None;
        }
        if answer.lost {
            self.inventory.end_spares();
        }
        if answer.lost && self.on_lease_lost == OnLeaseLost::Close {
            self.closing = self.inventory.held().collect();
        }
        self.list = answer.verdict == Verdict::List;
        self.hear_of_rebuild(answer.rebuild);
        self.beat_due_us = match answer.verdict {
            Verdict::List if !sent.listed => now_us,
            Verdict::List | Verdict::Stale => now_us.saturating_add(RETRY_US),
            Verdict::Kept if answer.rebuild.is_some() => now_us.saturating_add(RETRY_US),
            // From when it was sent: an answer that is heard late, after a stop of the whole
            // process, is about a time long past.
            Verdict::Kept => (sent.at_us).saturating_add(self.interval_us(beat, beat_us)),
        };
        self.beat_heard(sent.at_us, now_us);
    }

    fn hear_of_rebuild(&mut self, rebuild: Option<u64>) {
        let known = self.rebuild.map(|(number, _)| number);
        if known != rebuild {
            self.rebuild = rebuild.map(|number| (number, self.inventory.mark()));
        }
    }

    /// The hanging call of this number ended: answered by its sidecar, or broken off.
    pub fn presence_ended(&mut self, number: u64, answered: bool, now_us: u64) {
        if number != self.presences {
            return;
        }
        let pause_us = if answered { 0 } else { RETRY_US };
        if !answered {
            self.presence_broken_us.get_or_insert(now_us);
        }
        let until_us = now_us.saturating_add(pause_us);
        self.presence = Presence::Closed { until_us };
    }

    /// The sidecar has the news, or refuses to read it: it is not sent again.
    pub fn delivered(&mut self, delivery: Delivery) {
        self.deliveries = self.deliveries.saturating_sub(1);
        self.inventory.settle(delivery);
    }

    pub fn undelivered(&mut self, delivery: Delivery, now_us: u64) {
        self.deliveries = self.deliveries.saturating_sub(1);
        self.inventory.take_back(delivery);
        self.deliver_due_us = now_us.saturating_add(self.delivery_retry_us);
        self.doubt(now_us);
    }

    /// Beats as soon as it may.
    fn hurry(&mut self, now_us: u64) {
        let rested = |last: u64| last.saturating_add(RETRY_US);
        let earliest_us = self.last_sent_us.map_or(now_us, rested).max(now_us);
        self.beat_due_us = self.beat_due_us.min(earliest_us);
    }

    /// Differs from beat to beat and from holder to holder.
    fn interval_us(&self, beat: u64, beat_us: u64) -> u64 {
        let spread_us = beat_us.checked_div(5).unwrap_or_default();
        let seed = (self.id.epoch.text().bytes()).fold(beat, |seed, byte| {
            seed.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
        let spread = u64::from(mix(seed))
            .checked_rem(spread_us.saturating_mul(2))
            .unwrap_or_default();
        beat_us.saturating_sub(spread_us).saturating_add(spread)
    }
}

#[cfg(test)]
mod tests;
