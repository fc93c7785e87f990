//! What a holder knows of an outage, and which of its places it may use again meanwhile
//! (docs/outages.md).
//!
//! For the store and for everyone else, a place that is taken again is one whose first session lasted
//! longer. So it may be taken for as long as that session would have been safe there, and no longer.

use super::Holder;
use crate::config::OnOutage;
use crate::message::{Admitted, Release};
use crate::outcome::Outcome;

/// Places are taken again until this long before the store would take the holder for silent, or
/// two beats if that is less. From then on a worker's figure may free places of it, and the figure is as old
/// as the worker's last heartbeat (5 s): it must not be from a time when a place was spare.
pub(super) const SILENCE_MARGIN_US: u64 = 6_000_000;
/// After the end of a presence a holder has 1.5 s to speak, as its sidecar counts them. Places are taken again
/// only while there is no doubt.
const PRESENCE_DOUBT_US: u64 = 1_000_000;

/// Since something was not answered, until a beat is that was sent later.
#[derive(Debug)]
pub(super) struct Outage {
    pub(super) since_us: u64,
    /// A beat failed too: it was not one question alone.
    confirmed: bool,
    unanswered: u64,
    reused: u64,
}

/// For the log and the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    Begun,
    Over(Toll),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Toll {
    pub lasted_ms: u64,
    /// Requests that nobody could be asked for, and that took no place.
    pub unanswered: u64,
    /// Requests that took a place again.
    pub reused: u64,
}

impl Holder {
    /// Nobody answered a request's question. It may take the place that is returned.
    pub fn ask_failed(&mut self, now_us: u64) -> Option<Admitted> {
        self.doubt(now_us);
        let admitted = self.reuse(now_us);
        if admitted.is_none() {
            self.note_unanswered();
        }
        admitted
    }

    /// The same of a request that belongs to one worker: no other place is for it.
    pub fn bound_ask_failed(&mut self, now_us: u64) {
        self.doubt(now_us);
        self.note_unanswered();
    }

    fn note_unanswered(&mut self) {
        if let Some(outage) = &mut self.outage {
            outage.unanswered = outage.unanswered.saturating_add(1);
        }
    }

    /// A place that a request may take without asking, while there is nobody to ask.
    pub fn reuse(&mut self, now_us: u64) -> Option<Admitted> {
        if !self.shares(now_us) {
            return None;
        }
        let admitted = self.inventory.take_spare()?;
        if let Some(outage) = &mut self.outage {
            outage.reused = outage.reused.saturating_add(1);
        }
        Some(admitted)
    }

    /// A stream is over. During an outage its place may be kept for another.
    pub fn ended(&mut self, release: Release, now_us: u64) {
        if self.shares(now_us) && serves_on(release.outcome) {
            self.inventory.set_aside(release);
        } else {
            self.inventory.ended(release);
        }
    }

    /// Whether what this holder holds is still its own beyond doubt, and nobody can be told of changes.
    pub(super) fn shares(&self, now_us: u64) -> bool {
        let sure = |broken_us: u64| now_us < broken_us.saturating_add(PRESENCE_DOUBT_US);
        self.on_outage == OnOutage::LocalShare
            && self.outage.is_some()
            && self
                .share_until_us
                .is_some_and(|until_us| now_us < until_us)
            && self.presence_broken_us.is_none_or(sure)
    }

    /// Something was not answered. A beat finds out whether that was all.
    pub(super) fn doubt(&mut self, now_us: u64) {
        if self.outage.is_none() {
            self.outage = Some(Outage {
                since_us: now_us,
                confirmed: false,
                unanswered: 0,
                reused: 0,
            });
            self.hurry(now_us);
        }
    }

    pub(super) fn beat_failed(&mut self, now_us: u64) {
        self.doubt(now_us);
        if let Some(outage) = &mut self.outage
            && !outage.confirmed
        {
            outage.confirmed = true;
            self.news.push(News::Begun);
        }
    }

    /// A beat that was sent then is answered.
    pub(super) fn beat_heard(&mut self, sent_us: u64, now_us: u64) {
        let Some(outage) = self.outage.take() else {
            return;
        };
        if sent_us < outage.since_us {
            // It was on its way before something else failed, and says nothing about that.
            self.outage = Some(outage);
            return self.hurry(now_us);
        }
        self.inventory.end_spares();
        if outage.confirmed {
            let lasted_us = now_us.saturating_sub(outage.since_us);
            self.news.push(News::Over(Toll {
                lasted_ms: lasted_us.checked_div(1000).unwrap_or_default(),
                unanswered: outage.unanswered,
                reused: outage.reused,
            }));
        }
    }
}

/// Whether the worker is likely to serve the next session as well. A reset says nothing against it: a worker that
/// closes a WebSocket's connection, as it should after the goodbye, looks like this.
fn serves_on(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Success | Outcome::Warning | Outcome::Unknown | Outcome::Reset => true,
        Outcome::ConnectFailed | Outcome::ResetBeforeHeaders | Outcome::Timeout => false,
    }
}
