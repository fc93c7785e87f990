//! A wall clock that jumps, for a Redis that is started with it.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is preloaded; its comment says why it is not libfaketime.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/harness/clock.c");

#[derive(Debug)]
pub struct Clock {
    library: PathBuf,
    offset: PathBuf,
}

impl Clock {
    /// Compiles the library into `directory`; the compiler is there, because rustc links with it.
    pub fn new(directory: &Path) -> Self {
        let clock = Self {
            library: directory.join("clock.so"),
            offset: directory.join("clock-offset"),
        };
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-o"])
            .arg(&clock.library)
            .arg(SOURCE)
            .status();
        assert!(
            compiled.is_ok_and(|status| status.success()),
            "cannot compile {SOURCE}"
        );
        clock.jump_to(0);
        clock
    }

    pub fn preload_into(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("BERTH_CLOCK_OFFSET", &self.offset);
    }

    /// From now on the clock is this many seconds ahead, or behind.
    pub fn jump_to(&self, offset_s: i64) {
        // In place: the process has mapped this very file.
        let written = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(&self.offset)
            .and_then(|mut file| {
                file.seek(SeekFrom::Start(0))?;
                file.write_all(&offset_s.to_ne_bytes())
            });
        if let Err(error) = written {
            panic!("{}: {error}", self.offset.display());
        }
    }
}
