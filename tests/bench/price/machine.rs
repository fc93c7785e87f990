//! What a measurement was made on, and where it is kept.

use harness::http::Failure;
use harness::paths;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The machine and the versions, in the words of those who know them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    pub(crate) envoy: String,
    pub(crate) redis: String,
    pub(crate) berth: String,
    pub(crate) filter_bytes: u64,
    /// Runnable processes when the measurement began: on a quiet machine, below one.
    pub(crate) load_before: f64,
}

impl Machine {
    pub(crate) fn here() -> Result<Self, Failure> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let line = |text: String, name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(known, _)| known.trim() == name);
            found.map_or_else(String::new, |(_, value)| value.trim().to_owned())
        };
        let memory = line(read("/proc/meminfo"), "MemTotal");
        let memory_kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
        let load = read("/proc/loadavg");
        Ok(Self {
            cpu: line(read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: memory_kib.div_ceil(1 << 20),
            kernel: (read("/proc/sys/kernel/osrelease").split(['-', '\n']).next())
                .unwrap_or_default()
                .to_owned(),
            envoy: envoy_version(&said(&paths::envoy(), "--version")?),
            redis: redis_version(&said(&redis_server(), "--version")?),
            berth: said(&paths::program("berth"), "--version")?,
            filter_bytes: std::fs::metadata(paths::filter_wasm())?.len(),
            load_before: load
                .split(' ')
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or(f64::NAN),
        })
    }
}

fn redis_server() -> PathBuf {
    std::env::var_os("REDIS_SERVER_BIN").map_or_else(|| "redis-server".into(), PathBuf::from)
}

fn said(program: &Path, flag: &str) -> Result<String, Failure> {
    let output = Command::new(program).arg(flag).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// `PATH  version: HASH/1.40.0/Clean/RELEASE/BoringSSL`
fn envoy_version(said: &str) -> String {
    let version = said.split("version: ").nth(1).unwrap_or(said);
    version.split('/').nth(1).unwrap_or(version).to_owned()
}

/// `Redis server v=7.0.15 sha=… …`
fn redis_version(said: &str) -> String {
    let version = said
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="));
    version.unwrap_or(said).to_owned()
}

fn directory() -> PathBuf {
    paths::top().join("target/bench")
}

/// Keeps what was measured, with the machine beside it.
pub(crate) fn keep(part: &str, machine: &Machine, mut figures: Value) -> Result<(), Failure> {
    figures["machine"] = serde_json::to_value(machine)?;
    std::fs::create_dir_all(directory())?;
    let text = serde_json::to_string_pretty(&figures)?;
    Ok(std::fs::write(
        directory().join(format!("{part}.json")),
        text,
    )?)
}

/// What a part has kept.
pub(crate) fn kept(part: &str) -> Result<Value, Failure> {
    let file = directory().join(format!("{part}.json"));
    let text = std::fs::read_to_string(&file)
        .map_err(|error| format!("{}: {error}; `make bench-{part}` writes it", file.display()))?;
    Ok(serde_json::from_str(&text)?)
}
