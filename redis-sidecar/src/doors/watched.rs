//! Files that may change while the sidecar runs: secrets are rotated, certificates renewed.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often files are looked at, at most: a look is a system call for each.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What was read from some files, read again when one of them changes.
pub(crate) struct Watched<T> {
    files: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<T, String> + Send + Sync>,
    known: Mutex<Known<T>>,
}

struct Known<T> {
    value: Arc<T>,
    marks: Vec<Mark>,
    looked: Instant,
}

/// Device, inode, size, time of change: another file, or the same with other contents.
type Mark = Option<(u64, u64, u64, i64, i64)>;

impl<T> Watched<T> {
    /// Fails if the files cannot be read now.
    pub(crate) fn new(
        files: Vec<PathBuf>,
        read: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let read = {
            let files = files.clone();
            move || {
                refuse_odd(&files)?;
                read()
            }
        };
        let marks = marks(&files);
        let known = Known {
            value: Arc::new(read()?),
            marks,
            looked: Instant::now(),
        };
        Ok(Self {
            files,
            read: Box::new(read),
            known: Mutex::new(known),
        })
    }

    /// As the files are now, or were a second ago. What cannot be read leaves what was read before.
    pub(crate) fn current(&self) -> Arc<T> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.looked.elapsed() >= LOOK_EVERY {
            known.looked = Instant::now();
            let marks = marks(&self.files);
            if marks != known.marks {
                known.marks = marks;
                match (self.read)() {
                    Ok(value) => {
                        known.value = Arc::new(value);
                        tracing::info!(files = ?self.files, "read anew");
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a changed file is not used: what it said before holds");
                    }
                }
            }
        }
        known.value.clone()
    }
}

/// What is no file, a pipe say, may keep its reader for ever.
fn refuse_odd(files: &[PathBuf]) -> Result<(), String> {
    let is_odd = |file: &&PathBuf| std::fs::metadata(file).is_ok_and(|found| !found.is_file());
    match files.iter().find(is_odd) {
        Some(odd) => Err(format!("{} is no regular file", odd.display())),
        None => Ok(()),
    }
}

fn marks(files: &[PathBuf]) -> Vec<Mark> {
    let mark = |file: &PathBuf| {
        let found = std::fs::metadata(file).ok()?;
        Some((
            found.dev(),
            found.ino(),
            found.len(),
            found.mtime(),
            found.mtime_nsec(),
        ))
    };
    files.iter().map(mark).collect()
}

impl<T> fmt::Debug for Watched<T> {
    /// Not what was read: it may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watched").field(&self.files).finish()
    }
}
