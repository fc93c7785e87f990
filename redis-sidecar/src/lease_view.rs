//! Leases as operators see them, and what an audit finds. An epoch is a capability: shown is a hash.

use admission::id::{Epoch, Incarnation, ProxyId, WorkerId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Enough to tell holders apart, too little to be one.
const HASH_DIGITS: usize = 12;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeaseView {
    /// Proxy and a hash of the epoch.
    pub holder: String,
    /// The same hash, and the lease's number.
    pub lease: String,
    pub worker: WorkerId,
    /// The life of the worker that it is on; not known of one that was forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Incarnation>,
    /// Not known of one that was re-asserted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<f64>,
    pub state: LeaseState,
}

impl LeaseView {
    pub(crate) fn number(&self) -> u64 {
        let (_, number) = self.lease.split_once(':').unwrap_or_default();
        number.parse().unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    /// No beat of its holder has spoken for it yet.
    Reserved,
    Held,
    /// Its holder is present but silent.
    Quarantined,
}

impl LeaseState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Held => "held",
            Self::Quarantined => "quarantined",
        }
    }
}

/// A lease as `lua/leases.lua` writes it.
#[derive(Debug, Deserialize)]
pub(crate) struct LeaseRow {
    number: String,
    worker: WorkerId,
    #[serde(default)]
    incarnation: Option<Incarnation>,
    #[serde(default)]
    age_ms: Option<f64>,
    state: LeaseState,
}

impl LeaseRow {
    pub(crate) fn shown(self, proxy: &ProxyId, epoch: &Epoch) -> LeaseView {
        let mut hash = sha1_smol::Sha1::from(&*epoch.text()).hexdigest();
        hash.truncate(HASH_DIGITS);
        LeaseView {
            holder: format!("{proxy}/{hash}"),
            lease: format!("{hash}:{}", self.number),
            worker: self.worker,
            incarnation: self.incarnation,
            age_ms: self.age_ms,
            state: self.state,
        }
    }
}

/// What counting anew has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    pub leases: u64,
    pub workers: u64,
    pub holders: u64,
    /// How far each kept figure is off.
    pub drift: BTreeMap<String, u64>,
}

impl Audit {
    pub fn total(&self) -> u64 {
        self.drift.values().sum()
    }
}
