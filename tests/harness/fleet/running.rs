//! A fleet in service, and what tests do with it.

use super::{Journals, Outlook};
use crate::backend::Backend;
use crate::envoy::Envoy;
use crate::fault_proxy::FaultProxy;
use crate::redis::Redis;
use crate::sidecar::Sidecar;
use crate::worker::{Entry, Record, Worker};
use futures_util::future::join_all;
use std::ops::Deref;
use std::path::PathBuf;
use tempfile::TempDir;

/// A fleet in service, every part of it within reach. Dropping it ends every process.
#[derive(Debug)]
pub struct RunningFleet {
    pub envoys: Vec<Envoy>,
    pub workers: Vec<Worker>,
    pub backend: Backend,
    pub sidecars: Vec<Sidecar>,
    pub redis: Redis,
    /// From each sidecar to Redis, and from each Envoy to its sidecar, where links were asked for.
    pub redis_links: Vec<FaultProxy>,
    pub sidecar_links: Vec<FaultProxy>,
    pub(super) outlook: Outlook,
    pub(super) directory: TempDir,
}

/// To whoever only uses it, it is like any other.
impl Deref for RunningFleet {
    type Target = Outlook;

    fn deref(&self) -> &Outlook {
        &self.outlook
    }
}

impl Journals for Vec<Record> {
    fn workers(&self) -> usize {
        self.len()
    }

    fn entries(&self) -> Vec<(String, Vec<Entry>)> {
        self.iter().map(Record::entries).collect()
    }
}

impl RunningFleet {
    pub(super) async fn ready(&self) {
        self.redis.ready().await;
        join_all(self.sidecars.iter().map(Sidecar::ready)).await;
        join_all(self.envoys.iter().map(Envoy::ready)).await;
        let workers = self.workers.len();
        self.sees("all workers available", |pool| {
            pool.available() == workers && !pool.rebuilding
        })
        .await;
    }

    /// A file of this fleet, in the directory with its logs.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn log_tails(&self) -> String {
        let processes = (self.envoys.iter().map(|envoy| &envoy.process))
            .chain(self.sidecars.iter().map(|sidecar| &sidecar.process))
            .chain([&self.redis.process]);
        let tails: Vec<String> = processes.map(|process| process.log_tail()).collect();
        tails.join("\n")
    }
}

impl Drop for RunningFleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.directory.disable_cleanup(true);
            let logs = self.directory.path().display();
            eprintln!("{}\n--- all logs stay in {logs}", self.log_tails());
        }
    }
}
