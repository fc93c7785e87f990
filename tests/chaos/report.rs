//! What a run came to.

use harness::paths;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) minutes: f64,
    pub(crate) operations: u64,
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
    pub(crate) outages: u64,
    /// Refusals, by reason.
    pub(crate) reasons: BTreeMap<String, u64>,
    pub(crate) faults: BTreeMap<String, u64>,
    /// Times in which a worker had too many sessions, longer than an overlap may be.
    pub(crate) violations: usize,
    /// Leases that were left when all sessions had ended.
    pub(crate) leaked: u64,
    /// From the end of a fault until every Envoy served and the store waited for nobody.
    pub(crate) max_recovery_ms: u64,
    pub(crate) max_recovery_of: String,
    pub(crate) overlaps: usize,
    pub(crate) max_overlap_ms: f64,
    /// What the store put right meanwhile, as far as it remembers.
    pub(crate) repairs: BTreeMap<String, u64>,
    /// The store's own audit at the end.
    pub(crate) drift: Value,
}

impl Report {
    pub(crate) fn is_clean(&self) -> bool {
        self.violations == 0 && self.leaked == 0
    }

    #[expect(
        clippy::print_stdout,
        reason = "the report is what this program is for"
    )]
    pub(crate) fn write(&self, file: &Path) {
        let text = match serde_json::to_string_pretty(self) {
            Ok(text) => text,
            Err(error) => panic!("the report: {error}"),
        };
        println!("{text}");
        let directory = file.parent().unwrap_or(file);
        let written = std::fs::create_dir_all(directory)
            .and_then(|()| std::fs::write(file, format!("{text}\n")));
        if let Err(error) = written {
            panic!("{}: {error}", file.display());
        }
    }
}

pub(crate) fn default_file() -> PathBuf {
    paths::target().join("chaos/report.json")
}
