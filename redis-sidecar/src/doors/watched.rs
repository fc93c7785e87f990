//! Files that may change while the sidecar runs: secrets are rotated, certificates renewed.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often files are looked at, at most: a look is a system call for each.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What was read from some files, read again when one of them changes. Whoever asks never waits for a file:
/// on a file system that hangs, that would be everybody.
pub(crate) struct Watched<T>(Arc<Inner<T>>);

struct Inner<T> {
    files: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<T, String> + Send + Sync>,
    known: Mutex<Known<T>>,
}

struct Known<T> {
    value: Arc<T>,
    marks: Vec<Mark>,
    looked: Instant,
    /// Somebody looks now.
    looking: bool,
}

/// Device, inode, size, time of change: another file, or the same with other contents.
type Mark = Option<(u64, u64, u64, i64, i64)>;

impl<T: Send + Sync + 'static> Watched<T> {
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
            looking: false,
        };
        Ok(Self(Arc::new(Inner {
            files,
            read: Box::new(read),
            known: Mutex::new(known),
        })))
    }

    /// As the files were when they were last looked at, which is now and then done by a thread of its own. What
    /// cannot be read leaves what was read before. Must be called inside a tokio runtime.
    pub(crate) fn current(&self) -> Arc<T> {
        let mut known = self.0.lock();
        if !known.looking && known.looked.elapsed() >= LOOK_EVERY {
            known.looking = true;
            let inner = self.0.clone();
            tokio::task::spawn_blocking(move || inner.look());
        }
        known.value.clone()
    }
}

impl<T> Inner<T> {
    fn look(&self) {
        let found = marks(&self.files);
        let changed = self.lock().marks != found;
        let read = changed.then(|| (self.read)());
        let mut known = self.lock();
        known.looking = false;
        known.looked = Instant::now();
        known.marks = found;
        match read {
            Some(Ok(value)) => {
                known.value = Arc::new(value);
                tracing::info!(files = ?self.files, "read anew");
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "a changed file is not used: what it said before holds");
            }
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known<T>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
        f.debug_tuple("Watched").field(&self.0.files).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A file system that hangs keeps whoever reads, and nobody who asks.
    #[tokio::test]
    async fn whoever_asks_does_not_wait_for_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (go_on, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let reads = Arc::new(Mutex::new(0));
        let counted = reads.clone();
        let watched = Watched::new(vec![file.path().to_owned()], move || {
            let mut reads = counted.lock().unwrap();
            *reads += 1;
            if *reads > 1 {
                let _ = wait.lock().unwrap().recv();
            }
            Ok(*reads)
        });
        let watched = watched.unwrap();
        std::fs::write(file.path(), "changed").unwrap();
        let started = Instant::now();
        while reads.try_lock().is_ok() {
            assert_eq!(*watched.current(), 1);
            assert!(started.elapsed().as_secs() < 20, "nobody reads");
            std::thread::yield_now();
        }
        assert_eq!(*watched.current(), 1, "while it is being read");
        go_on.send(()).unwrap();
        while *watched.current() != 2 {
            assert!(started.elapsed().as_secs() < 20, "never");
            std::thread::yield_now();
        }
    }
}
