//! What reads bytes that others wrote, as functions of those bytes. Each panics when something is not
//! as it must be, and nothing else; what must be is more than staying alive.
//!
//! `make test` tries each for two seconds: the corpus, and seeded changes to it. `make fuzz` lets
//! libFuzzer go on from there, guided by what the code does with an input. Every finding becomes a
//! file of the corpus.

mod config;
mod headers;
mod ids;
mod messages;
mod mutate;
mod settings;

pub use mutate::Mutator;

use std::path::PathBuf;

/// Something that reads bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
}

pub const TARGETS: [Target; 5] = [
    Target {
        name: "headers",
        run: headers::run,
    },
    Target {
        name: "messages",
        run: messages::run,
    },
    Target {
        name: "ids",
        run: ids::run,
    },
    Target {
        name: "config",
        run: config::run,
    },
    Target {
        name: "settings",
        run: settings::run,
    },
];

impl Target {
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Inputs to begin with, and every finding.
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let mut files: Vec<PathBuf> = std::fs::read_dir(directory.join(self.name))
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        files.sort();
        files
            .iter()
            .filter_map(|file| std::fs::read(file).ok())
            .collect()
    }
}

/// Two JSON texts of one value may differ in the last digit of a fraction: serde_json reads those fast,
/// not to the last bit.
fn is_same(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (one, other) {
        (Number(one), Number(other)) => match (one.as_f64(), other.as_f64()) {
            (Some(one), Some(other)) => (one - other).abs() <= one.abs() * 1e-14,
            (_, _) => one == other,
        },
        (Array(one), Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| is_same(one, other))
        }
        (Object(one), Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| is_same(one, other)))
        }
        (_, _) => one == other,
    }
}
