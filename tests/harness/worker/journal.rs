//! A worker's own record of its sessions.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

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
    /// A copy for those who judge this worker from outside.
    file: Option<File>,
}

#[derive(Debug, Default)]
pub struct Journal {
    pages: Mutex<Pages>,
}

impl Journal {
    /// Written into a new file of this directory as well: see `read_all`.
    pub(super) fn written_to(directory: &Path, worker: &str) -> std::io::Result<Self> {
        let name = format!("{}.{worker}", since_epoch_ns(SystemTime::now()));
        let pages = Pages {
            file: Some(File::create_new(directory.join(name))?),
            ..Pages::default()
        };
        Ok(Self {
            pages: Mutex::new(pages),
        })
    }

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
        open(&self.pages().entries)
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
        if let Some(file) = &mut pages.file {
            let line = line(SystemTime::now(), incarnation, change);
            // In one piece: a worker that is killed leaves no half of a line.
            if let Err(error) = file.write_all(line.as_bytes()) {
                eprintln!("the journal is incomplete from here on: {error}");
            }
        }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sessions that are open at the end of these.
pub fn open(entries: &[Entry]) -> usize {
    let opened = |entry: &&Entry| entry.change == Change::Opened;
    let opened = entries.iter().filter(opened).count();
    2 * opened - entries.len()
}

/// All journals of a directory, by worker, those of one worker in the order of its starts.
pub fn read_all(directory: &Path) -> std::io::Result<Vec<(String, Vec<Entry>)>> {
    let mut files: Vec<_> = std::fs::read_dir(directory)?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::file_name);
    let read = |file: &std::fs::DirEntry| {
        let text = std::fs::read_to_string(file.path())?;
        let name = file.file_name();
        let worker = name.to_str().and_then(|name| name.split_once('.'));
        let worker = worker.map_or("", |(_, worker)| worker).to_owned();
        let (now, wall) = (Instant::now(), SystemTime::now());
        // The last line may be on its way.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let entries = whole.lines().map(|line| {
            let entry = parse(line, now, since_epoch_ns(wall));
            entry.unwrap_or_else(|| panic!("{}: {line}", file.path().display()))
        });
        Ok((worker, entries.collect()))
    };
    files.iter().map(read).collect()
}

fn since_epoch_ns(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// By the wall clock, which all containers of a host share.
fn line(at: SystemTime, incarnation: usize, change: Change) -> String {
    let change = match change {
        Change::Opened => "opened",
        Change::Closed => "closed",
    };
    format!("{} {incarnation} {change}\n", since_epoch_ns(at))
}

fn parse(line: &str, now: Instant, wall_ns: u64) -> Option<Entry> {
    let mut words = line.split(' ');
    let ago_ns = wall_ns.saturating_sub(words.next()?.parse().ok()?);
    Some(Entry {
        at: now.checked_sub(std::time::Duration::from_nanos(ago_ns))?,
        incarnation: words.next()?.parse().ok()?,
        change: match words.next()? {
            "opened" => Change::Opened,
            "closed" => Change::Closed,
            _ => return None,
        },
    })
}
