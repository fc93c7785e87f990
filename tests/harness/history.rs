//! What really happened at the workers, judged by their own journals.

use crate::worker::{Change, Entry, Worker};
use std::fmt;
use std::time::{Duration, Instant};

/// A place may be given to the next client some milliseconds before the worker has seen the last one
/// go: the release overtakes the close. Longer is a session too many.
pub const OVERLAP_MAX: Duration = Duration::from_millis(100);

/// A time in which a worker had more sessions than it may have.
#[derive(Debug, Clone)]
pub struct Excess {
    pub worker: String,
    pub from: Instant,
    pub lasted: Duration,
    /// The most sessions in that time.
    pub peak: usize,
}

#[derive(Debug, Clone, Default)]
pub struct History {
    pub sessions: usize,
    /// Longer than `OVERLAP_MAX`.
    pub violations: Vec<Excess>,
    /// Not longer.
    pub overlaps: Vec<Excess>,
}

impl History {
    pub fn of<'a>(workers: impl IntoIterator<Item = &'a Worker>, max_concurrent: usize) -> Self {
        let journal = |worker: &Worker| (worker.id().to_string(), worker.journal().entries());
        let journals: Vec<_> = workers.into_iter().map(journal).collect();
        Self::read(&journals, max_concurrent)
    }

    /// The same from the journals themselves, each with its worker's name.
    pub fn read(journals: &[(String, Vec<Entry>)], max_concurrent: usize) -> Self {
        let mut history = Self::default();
        for (worker, entries) in journals {
            history.add(worker, entries, max_concurrent);
        }
        history
    }

    fn add(&mut self, worker: &str, entries: &[Entry], max_concurrent: usize) {
        let opened = |entry: &&Entry| entry.change == Change::Opened;
        self.sessions += entries.iter().filter(opened).count();
        for excess in excesses(worker, entries, max_concurrent) {
            if excess.lasted > OVERLAP_MAX {
                self.violations.push(excess);
            } else {
                self.overlaps.push(excess);
            }
        }
    }

    pub fn longest_overlap(&self) -> Duration {
        let lasted = self.overlaps.iter().map(|overlap| overlap.lasted);
        lasted.max().unwrap_or_default()
    }

    pub fn assert_clean(&self) {
        assert!(self.violations.is_empty(), "{self}");
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} sessions, {} overlaps of at most {} ms, {} violations",
            self.sessions,
            self.overlaps.len(),
            self.longest_overlap().as_millis(),
            self.violations.len(),
        )?;
        for violation in &self.violations {
            let Excess {
                worker,
                lasted,
                peak,
                ..
            } = violation;
            writeln!(f, "  {worker} had {peak} sessions, for {lasted:?} too many")?;
        }
        Ok(())
    }
}

/// The times in which more than `limit` sessions were open; one that goes on lasts until now.
fn excesses(worker: &str, entries: &[Entry], limit: usize) -> Vec<Excess> {
    let mut found = Vec::new();
    let mut open = 0_usize;
    let mut excess: Option<(Instant, usize)> = None;
    let mut end = |excess: &mut Option<(Instant, usize)>, at: Instant| {
        if let Some((from, peak)) = excess.take() {
            found.push(Excess {
                worker: worker.to_owned(),
                from,
                lasted: at - from,
                peak,
            });
        }
    };
    for entry in entries {
        match entry.change {
            Change::Opened => open += 1,
            Change::Closed => open -= 1,
        }
        if open > limit {
            let (_, peak) = excess.get_or_insert((entry.at, open));
            *peak = open.max(*peak);
        } else {
            end(&mut excess, entry.at);
        }
    }
    end(&mut excess, Instant::now());
    found
}
