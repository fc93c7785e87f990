//! When the VM's root is to look again, and at what: news that gathers, streams that wait too long.

use super::{Moment, Vm, Waiting};
use crate::host;
use admission::lifecycle::Event;
use std::time::Duration;

/// Between two looks at waiting streams when there is no news to deliver. A quarter of the time a
/// stream may wait, but no more often than this costs nothing.
const WATCH_MS: std::ops::RangeInclusive<u64> = 10..=250;

const TICK_MIN: Duration = Duration::from_millis(1);

impl Vm {
    /// The first tick comes soon: requests are not answered well before the holder has beaten. Not
    /// now: Envoy also configures a VM that it throws away, and does not send its calls.
    pub(crate) fn start(&self) {
        self.set_tick(TICK_MIN);
    }

    /// The next tick when nothing is urgent.
    pub(crate) fn rest(&self, now_us: u64) {
        let quarter = self.config.watchdog_ms.checked_div(4).unwrap_or_default();
        let rest_ms = quarter.clamp(*WATCH_MS.start(), *WATCH_MS.end());
        self.set_tick(Duration::from_millis(rest_ms));
        self.watch_asks();
        self.watch_news(now_us);
    }

    fn set_tick(&self, period: Duration) {
        if self.tick.replace(period) != period {
            host::set_tick(period);
        }
    }

    /// News waits for company, but not for long; a full batch does not wait if it may go. What has waited long
    /// enough and is still here was not delivered, and is tried again in its time.
    pub(crate) fn watch_news(&self, now_us: u64) {
        let mut holder = self.holder.borrow_mut();
        let Some(wait_us) = holder.gathers_for_us(now_us) else {
            return;
        };
        let wait = if holder.has_delivery(now_us) {
            TICK_MIN
        } else {
            Duration::from_micros(wait_us).max(TICK_MIN)
        };
        if wait_us > 0 {
            self.tick_within(wait);
        }
    }

    pub(crate) fn tick_soon(&self) {
        self.tick_within(TICK_MIN);
    }

    pub(crate) fn tick_within(&self, delay: Duration) {
        if self.tick.get().is_zero() || delay < self.tick.get() {
            self.set_tick(delay);
        }
    }

    /// Whether the stream waits for an answer that would come too late.
    pub(crate) fn is_overdue(&self, context: u32, now_us: u64) -> bool {
        let waiting = self.waiting.borrow();
        (waiting.get(&context)).is_some_and(|waiting| self.waited_too_long(waiting, now_us))
    }

    fn waited_too_long(&self, waiting: &Waiting, now_us: u64) -> bool {
        let watchdog_us = self.config.watchdog_ms.saturating_mul(1000);
        now_us.saturating_sub(waiting.since_us) >= watchdog_us
    }

    /// Answers the streams that waited too long, in the place of a sidecar that never did.
    pub(crate) fn answer_overdue(&self, root: u32, now_us: u64) {
        let moment = Moment::later(now_us);
        let overdue: Vec<_> = (self.waiting.borrow().iter())
            .filter(|(_, waiting)| self.waited_too_long(waiting, moment.now_us))
            .map(|(&context, waiting)| (context, waiting.lifecycle.clone()))
            .collect();
        for (context, lifecycle) in overdue {
            if host::act_for(context).is_ok() {
                let event = self.unanswered(&lifecycle, Event::Overdue, moment.now_us);
                self.handle(context, &lifecycle, event, moment);
            }
        }
        let _ = host::act_for(root);
    }
}
