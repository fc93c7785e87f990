//! What happened around a violation, in words, for whoever has to find out why.

use crate::clients::Admission;
use harness::history::Excess;
use harness::worker::{Change, Worker};
use std::time::{Duration, Instant};

/// Something that was done to the fleet, or that it did.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) at: Instant,
    pub(crate) what: String,
}

/// Faults last for seconds; sessions are shown for as long before and after.
const AROUND: Duration = Duration::from_secs(3);
const FAULTS_AROUND: Duration = Duration::from_secs(20);

pub(crate) struct Timeline<'a> {
    pub(crate) start: Instant,
    pub(crate) faults: &'a [Event],
    pub(crate) admissions: &'a [Admission],
    pub(crate) workers: &'a [Worker],
}

impl Timeline<'_> {
    pub(crate) fn around(&self, excess: &Excess) -> String {
        let Excess {
            worker,
            from,
            lasted,
            peak,
        } = excess;
        let mut events = self.sessions_of(worker, *from);
        events.extend(
            self.faults
                .iter()
                .filter(|event| {
                    let until = *from + *lasted;
                    event.at + FAULTS_AROUND > *from && event.at < until + AROUND
                })
                .cloned(),
        );
        events.sort_by_key(|event| event.at);
        let seconds = |at: Instant| (at - self.start).as_secs_f64();
        let head = format!(
            "{worker} had {peak} sessions from {:.3} s, too many for {lasted:?}:",
            seconds(*from)
        );
        let lines = events
            .iter()
            .map(|event| format!("  {:>9.3} {}", seconds(event.at), event.what));
        [head]
            .into_iter()
            .chain(lines)
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn sessions_of(&self, worker: &str, from: Instant) -> Vec<Event> {
        let near = |at: Instant| at + AROUND > from && at < from + AROUND;
        let told = self.admissions.iter().filter(|told| told.worker == worker);
        let mut events: Vec<Event> = told
            .filter(|told| near(told.at))
            .map(|told| Event {
                at: told.at,
                what: format!("client {} is told of its admission", told.client),
            })
            .collect();
        let workers = self.workers.iter();
        for journal in workers.filter(|other| other.id().as_str() == worker) {
            let mut open = 0_usize;
            for entry in journal.journal().entries() {
                let word = match entry.change {
                    Change::Opened => "opens",
                    Change::Closed => "closes",
                };
                match entry.change {
                    Change::Opened => open += 1,
                    Change::Closed => open -= 1,
                }
                if near(entry.at) {
                    let what = format!("{worker} {word} a session: {open} open");
                    events.push(Event { at: entry.at, what });
                }
            }
        }
        events
    }
}
