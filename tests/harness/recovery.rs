//! How long the fleet took to be well again after each fault: `make recoveries` shows the table.

use crate::paths;
use crate::wait::POLL;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A line of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recovery {
    /// The row of the fault table.
    pub row: u32,
    pub fault: String,
    /// What is promised.
    pub target_ms: u64,
    pub measured_ms: u64,
}

/// What a machine with other work to do may add to a promise before a test fails. The figure is noted
/// as it was measured; without what heals, it would be `lease_ttl_ms`, 15 s.
pub const SLACK: Duration = Duration::from_secs(3);

/// How long nobody waits any more.
const GIVEN_UP: Duration = Duration::from_secs(30);

/// A promise: after this fault, well again within this time.
#[derive(Debug, Clone, Copy)]
pub struct Promise {
    pub row: u32,
    pub fault: &'static str,
    pub within: Duration,
}

impl Promise {
    pub const fn new(row: u32, fault: &'static str, within_ms: u64) -> Self {
        let within = Duration::from_millis(within_ms);
        Self { row, fault, within }
    }

    /// Waits until `well`, notes how long that took since `start`, and fails if it was too long.
    pub async fn kept_since(&self, start: Instant, mut well: impl AsyncFnMut() -> bool) {
        while !well().await {
            assert!(
                start.elapsed() < GIVEN_UP,
                "row {}, {}: not well again within {GIVEN_UP:?}",
                self.row,
                self.fault
            );
            tokio::time::sleep(POLL).await;
        }
        self.kept_in(start.elapsed());
    }

    /// The same for a time that was measured elsewhere.
    pub fn kept_in(&self, measured: Duration) {
        self.note(measured);
        assert!(
            measured <= self.within + SLACK,
            "row {}, {}: well again after {measured:?}, promised {:?}",
            self.row,
            self.fault,
            self.within
        );
    }

    /// The same without slack, for what was measured so often that chance is no excuse.
    pub fn kept_strictly_in(&self, measured: Duration) {
        self.note(measured);
        let Self { row, fault, within } = self;
        assert!(
            measured <= *within,
            "row {row}, {fault}: {measured:?}, promised {within:?}"
        );
    }

    fn note(&self, measured: Duration) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let line = Recovery {
            row: self.row,
            fault: self.fault.to_owned(),
            target_ms: millis(self.within),
            measured_ms: millis(measured),
        };
        let file = file();
        let written = serde_json::to_string(&line)
            .map_err(std::io::Error::other)
            .and_then(|line| {
                fs::create_dir_all(file.parent().unwrap_or(&file))?;
                let mut file = File::options().create(true).append(true).open(&file)?;
                // In one piece: tests write side by side.
                file.write_all(format!("{line}\n").as_bytes())
            });
        if let Err(error) = written {
            panic!("{}: {error}", file.display());
        }
    }
}

pub fn file() -> PathBuf {
    paths::target().join("faults/recovery.jsonl")
}
