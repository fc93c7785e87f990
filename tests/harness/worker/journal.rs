//! A worker's own record of its sessions.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Opened,
    Closed,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: Instant,
    incarnation: usize,
    change: Change,
}

#[derive(Debug, Default)]
struct Pages {
    incarnation: usize,
    entries: Vec<Entry>,
}

#[derive(Debug, Default)]
pub struct Journal {
    pages: Mutex<Pages>,
}

impl Journal {
    pub(super) fn opened(&self) {
        self.note(Change::Opened);
    }

    pub(super) fn closed(&self) {
        self.note(Change::Closed);
    }

    pub(super) fn restarted(&self) {
        self.pages().incarnation += 1;
    }

    /// Sessions opened in each life that has ended.
    pub fn sessions_of_past_lives(&self) -> Vec<usize> {
        let pages = self.pages();
        let opened = |life| {
            let of_life =
                |entry: &&Entry| entry.incarnation == life && entry.change == Change::Opened;
            pages.entries.iter().filter(of_life).count()
        };
        (0..pages.incarnation).map(opened).collect()
    }

    pub fn opened_total(&self) -> usize {
        let opened = |entry: &&Entry| entry.change == Change::Opened;
        self.pages().entries.iter().filter(opened).count()
    }

    /// The longest time for which more than `limit` sessions were open at once. A release may
    /// overtake its session's close by some milliseconds, so it is rarely exactly zero.
    pub fn longest_excess(&self, limit: usize) -> Duration {
        let mut open = 0_usize;
        let mut excess_since: Option<Instant> = None;
        let mut longest = Duration::ZERO;
        for entry in &self.pages().entries {
            match entry.change {
                Change::Opened => open += 1,
                Change::Closed => open -= 1,
            }
            if open > limit {
                excess_since.get_or_insert(entry.at);
            } else if let Some(since) = excess_since.take() {
                longest = longest.max(entry.at - since);
            }
        }
        longest.max(excess_since.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    fn note(&self, change: Change) {
        let mut pages = self.pages();
        let incarnation = pages.incarnation;
        pages.entries.push(Entry {
            at: Instant::now(),
            incarnation,
            change,
        });
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
