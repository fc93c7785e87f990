//! A worker's own record of its sessions.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Opened,
    Closed,
}

#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub at: Instant,
    /// Which of the worker's lives it was, from 0.
    pub incarnation: usize,
    pub change: Change,
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

    /// Sessions that are open at this moment.
    pub fn open(&self) -> usize {
        let pages = self.pages();
        let opened = |entry: &&Entry| entry.change == Change::Opened;
        let opened = pages.entries.iter().filter(opened).count();
        2 * opened - pages.entries.len()
    }

    /// Everything so far, in its order.
    pub fn entries(&self) -> Vec<Entry> {
        self.pages().entries.clone()
    }

    pub fn opened_total(&self) -> usize {
        let opened = |entry: &&Entry| entry.change == Change::Opened;
        self.pages().entries.iter().filter(opened).count()
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
