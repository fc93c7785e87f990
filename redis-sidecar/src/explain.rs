//! Why a worker would be chosen, and why the others would not: what `lua/explain.lua` writes and the
//! API shows.

use admission::id::WorkerId;
use admission::message::Operation;
use admission::policy::Strategy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A request that might come.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExplainRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// The worker that it stands on.
    #[serde(rename = "self", skip_serializing_if = "Option::is_none")]
    pub own: Option<WorkerId>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Explanation {
    pub strategy: Strategy,
    /// Who would be chosen now; nobody when all are kept out.
    pub chosen: Option<WorkerId>,
    pub why: String,
    pub workers: Vec<ExplainedWorker>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExplainedWorker {
    pub worker: WorkerId,
    /// What keeps it out: its state, its limits, and the strategy's own gates.
    pub gates: Vec<String>,
    /// What the strategy ranks it by.
    pub inputs: BTreeMap<String, f64>,
    /// Its place, lowest first, as of its last event; none for those kept out.
    pub rank: Option<f64>,
    /// When it was last chosen, counted in choices of its pool: the least recent wins a tie.
    pub last_choice: u64,
}

/// A part of an explanation, small enough for one call.
#[derive(Debug, Clone)]
pub(crate) struct ExplainPage {
    pub(crate) chosen: Option<WorkerId>,
    /// Workers that the passing of time has moved, unnoticed yet.
    pub(crate) due: u64,
    pub(crate) workers: Vec<ExplainedWorker>,
    pub(crate) next: Option<String>,
}

impl Explanation {
    pub(crate) fn new(
        strategy: Strategy,
        chosen: Option<WorkerId>,
        workers: Vec<ExplainedWorker>,
    ) -> Self {
        let why = match &chosen {
            Some(_) => rule(strategy).to_owned(),
            None => nobody(&workers),
        };
        Self {
            strategy,
            chosen,
            why,
            workers,
        }
    }
}

/// What makes a worker the chosen one.
fn rule(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::LifetimeFirst => {
            "the highest lifetime below primary_below, or, if all are above, the highest of all; \
             then the fewest leases"
        }
        Strategy::RoundRobin => "the least recently chosen",
        Strategy::LeastConnections => "the fewest leases for its weight",
        Strategy::Random => "the clock that rings first: a draw by weight",
        Strategy::Sewt => {
            "the lowest active x expected_ms / weight; of the idle ones, the lowest expected_ms"
        }
        Strategy::Score => {
            "a draw among the best scores, by score x weight; or the worker that the request \
             stands on, if nothing keeps it out"
        }
        Strategy::Nodeads => {
            "the clock that rings first, a draw by karma x weight, among those that are not dead"
        }
        Strategy::Noerrors => {
            "the clock that rings first, a draw by karma x weight, among the lowest error ratios"
        }
    }
}

fn nobody(workers: &[ExplainedWorker]) -> String {
    let mut gates: BTreeMap<&str, usize> = BTreeMap::new();
    for gate in workers.iter().filter_map(|worker| worker.gates.first()) {
        *gates.entry(gate).or_default() += 1;
    }
    if gates.is_empty() {
        return "the pool has no workers".into();
    }
    let counts: Vec<String> = gates
        .iter()
        .map(|(gate, count)| format!("{count} {gate}"))
        .collect();
    format!("every worker is kept out: {}", counts.join(", "))
}
