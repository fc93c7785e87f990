//! What workers in containers write down, in a directory that is theirs and the test's.

use crate::fleet::Journals;
use crate::worker::{Change, Entry, journal};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

#[derive(Debug, Clone)]
pub(super) struct Written {
    directory: PathBuf,
    workers: Arc<AtomicUsize>,
    /// Whoever is killed writes nothing more: its sessions ended then.
    deaths: Arc<Mutex<Vec<Death>>>,
}

#[derive(Debug)]
struct Death {
    worker: String,
    at: Instant,
}

impl Written {
    pub(super) fn new(directory: PathBuf, workers: usize) -> Self {
        Self {
            directory,
            workers: Arc::new(AtomicUsize::new(workers)),
            deaths: Arc::default(),
        }
    }

    pub(super) fn set_workers(&self, workers: usize) {
        self.workers.store(workers, Ordering::Relaxed);
    }

    pub(super) fn died(&self, worker: String) {
        let at = Instant::now();
        self.deaths().push(Death { worker, at });
    }

    fn deaths(&self) -> std::sync::MutexGuard<'_, Vec<Death>> {
        self.deaths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journals for Written {
    fn workers(&self) -> usize {
        self.workers.load(Ordering::Relaxed)
    }

    fn entries(&self) -> Vec<(String, Vec<Entry>)> {
        let mut journals = match journal::read_all(&self.directory) {
            Ok(journals) => journals,
            Err(error) => panic!("{}: {error}", self.directory.display()),
        };
        for Death { worker, at } in self.deaths().iter() {
            // Which of its lives it was: one that had begun, with sessions that never ended.
            let ended = journals.iter_mut().find(|(of, entries)| {
                let begun = entries.first().is_some_and(|first| first.at < *at);
                of == worker && begun && journal::open(entries) > 0
            });
            if let Some((_, entries)) = ended {
                let closed = Entry {
                    at: *at,
                    incarnation: 0,
                    change: Change::Closed,
                };
                let open = journal::open(entries);
                entries.extend(std::iter::repeat_n(closed, open));
            }
        }
        journals
    }
}
