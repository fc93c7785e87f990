//! A pool as operators see it: what `lua/view.lua` writes and the API shows.

use admission::id::{Address, Incarnation, Origin, PoolName, WorkerId};
use admission::message::LoadReport;
use admission::policy::Policy;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PoolView {
    pub pool: PoolName,
    pub policy: Policy,
    #[serde(flatten)]
    pub head: PoolHead,
    pub workers: Vec<WorkerView>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PoolHead {
    pub policy_version: u64,
    /// Leases now, of all workers.
    pub active: u64,
    /// Workers that could serve if they had room.
    pub open: u64,
    /// Workers with a recent heartbeat.
    pub fresh: u64,
    /// Workers that reached their lifetime limit and have not restarted yet.
    pub at_limit: u64,
    pub recycles_total: u64,
    /// How often a worker reached its limit while another was still there.
    pub overlaps_total: u64,
    pub ejections_total: u64,
    /// The last restart's length, from the limit to the new registration. Restarts overlap once
    /// this exceeds `margin_ms`.
    pub recycle_ms: f64,
    /// How long `margin` admissions take at the present rate.
    pub margin_ms: f64,
    /// Denials since the pool began, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// What limits that are only watched would have denied, by limit.
    pub shadowed: BTreeMap<String, u64>,
    /// Clients that have leases, and those whose rate is kept.
    pub clients: u64,
    pub client_rates: u64,
    /// Affinity keys that are bound, and how many could not be, because too many were.
    pub bindings: u64,
    pub unbound_total: u64,
    /// Decisions that the strategy in the shadow saw, and of how many it would have chosen otherwise.
    pub shadow_decisions_total: u64,
    pub shadow_differed_total: u64,
    /// How much of the pool's rate is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateView>,
    /// What was put right since the pool began, by kind.
    pub repairs: BTreeMap<String, u64>,
    /// Holders that are believed.
    pub holders: u64,
    /// Those of them that are present but silent.
    pub quarantined_holders: u64,
    /// The store may have lost data and waits for the holders to tell what they hold.
    pub rebuilding: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RateView {
    /// `rate_limit:<window>` of the source.
    Window { window: f64, used: u64 },
    /// How many could come at once.
    Even { free: u64 },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerView {
    pub worker: WorkerId,
    pub address: Address,
    pub incarnation: Incarnation,
    pub state: WorkerState,
    /// Where clients are sent to reach it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    pub active: u64,
    /// Those of them that came by their affinity, whatever the limit.
    pub bound: u64,
    pub lifetime: u64,
    pub weight: f64,
    pub heartbeat_age_ms: f64,
    #[serde(deserialize_with = "total")]
    pub requests_total: u64,
    #[serde(deserialize_with = "total")]
    pub errors_total: u64,
    #[serde(deserialize_with = "total")]
    pub bytes_read_total: u64,
    #[serde(deserialize_with = "total")]
    pub bytes_written_total: u64,
    /// Mean of the pool's `service_time`, of all that went well.
    pub mean_ms: f64,
    /// What the worker last said about its load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<LoadReport>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    Available,
    Draining,
    Recycling,
    Ejected,
    /// Its heartbeats ended.
    Absent,
    /// Taken out of its pool; kept until its last lease ends.
    Removed,
}

/// A part of a pool, small enough for one script.
#[derive(Debug, Clone)]
pub struct PoolPage {
    pub policy: Policy,
    pub head: PoolHead,
    pub workers: Vec<WorkerView>,
    /// Where the next page starts; none after the last.
    pub next: Option<String>,
}

/// Scripts write numbers from 100,000,000,000,000 on as 1e+14: bytes get there.
fn total<'de, D: Deserializer<'de>>(number: D) -> Result<u64, D::Error> {
    f64::deserialize(number).map(|total| total as u64)
}
