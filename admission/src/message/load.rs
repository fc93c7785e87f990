//! What a worker says about its load.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ServingStatus {
    Serving,
    Draining,
    Down,
}

/// A worker's own figures. What it leaves out is 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "a load report"
)]
pub struct LoadReport {
    pub status: ServingStatus,
    #[serde(default)]
    pub running_http_session: u32,
    /// Shown, and used by no formula.
    #[serde(default)]
    pub running_sql: u32,
    #[serde(default)]
    pub running_tx: u32,
    #[serde(default)]
    pub max_http_sessions: u32,
    #[serde(default)]
    pub max_open_conns: u32,
    #[serde(default)]
    pub max_transaction_conns: u32,
    #[serde(default)]
    pub open_conns: u32,
    #[serde(default)]
    pub idle_conns: u32,
    #[serde(default)]
    pub wait_conn_count: u32,
    #[serde(default)]
    pub p95_latency_ms: f64,
    #[serde(rename = "errorRate1m", default)]
    pub error_rate_1m: f64,
    #[serde(rename = "timeouts1m", default)]
    pub timeouts_1m: u32,
    #[serde(default)]
    pub uptime_sec: f64,
}

impl LoadReport {
    /// A sentence that names the figure which cannot be, if there is one.
    pub fn validate(&self) -> Result<(), String> {
        let refuse = |field: &str, rule: &str, value: f64| {
            Err(format!("report.{field} must be {rule}, not {value}"))
        };
        for (field, value) in [
            ("p95LatencyMs", self.p95_latency_ms),
            ("uptimeSec", self.uptime_sec),
        ] {
            if !(0.0..=1e12).contains(&value) {
                return refuse(field, "between 0 and 1e12", value);
            }
        }
        if !(0.0..=1.0).contains(&self.error_rate_1m) {
            return refuse("errorRate1m", "between 0 and 1", self.error_rate_1m);
        }
        Ok(())
    }
}
