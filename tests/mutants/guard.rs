//! What is removed, and which test must notice.

use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The tables, in the order in which they are gone through.
const TABLES: [&str; 2] = ["core.toml", "counters.toml"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Guard {
    pub(crate) name: String,
    /// Seen from the workspace's top directory.
    pub(crate) file: PathBuf,
    /// The guard's text, which its file has exactly once.
    with: String,
    /// What stands in its place when it is removed.
    without: String,
    pub(crate) test: String,
}

/// A row of the threats in SECURITY.md.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Threat {
    /// Which row; a test compares.
    #[serde(rename = "attack")]
    _attack: String,
    #[serde(rename = "guard")]
    counters: Vec<Guard>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    guard: Vec<Guard>,
    threat: Vec<Threat>,
}

/// How many of the counters to each threat are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    First,
    All,
}

pub(crate) fn read(directory: &Path, extent: Extent) -> Result<Vec<Guard>, String> {
    let most = match extent {
        Extent::First => 1,
        Extent::All => usize::MAX,
    };
    let mut guards = Vec::new();
    for table in TABLES {
        let path = directory.join(table);
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| named(&error))?;
        let Table { guard, threat } = toml::from_str(&text).map_err(|error| named(&error))?;
        guards.extend(guard);
        let counters = |threat: Threat| threat.counters.into_iter().take(most);
        guards.extend(threat.into_iter().flat_map(counters));
    }
    Ok(guards)
}

impl Guard {
    pub(crate) fn mentions(&self, text: &str) -> bool {
        self.name.contains(text)
            || self.test.contains(text)
            || self.file.to_string_lossy().contains(text)
    }

    pub(crate) fn removed_from(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.with).count() {
            1 => Ok(text.replacen(&self.with, &self.without, 1)),
            count => Err(format!(
                "{}: {} must have this once, not {count} times: {}",
                self.name,
                self.file.display(),
                self.with
            )),
        }
    }
}
