use super::PolicyError;
use serde::{Deserialize, Serialize};

/// What each part of a worker's load counts for in one operation. All are given, or none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreWeights {
    pub db_free: f64,
    pub http_free: f64,
    pub tx_free: f64,
    pub latency: f64,
    pub errors: f64,
    pub timeouts: f64,
    pub wait: f64,
    pub idle: f64,
    pub uptime: f64,
}

/// The settings of the strategy `score`. A part is 1 at its best and 0 at the figure named here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Score {
    /// The draw is among this many of the best.
    pub top_k: u32,
    /// Judges a latency by the pool's median, not by itself.
    pub relative_latency: bool,
    /// How fast the relative part falls above the median.
    pub relative_k: f64,
    pub latency_max_ms: f64,
    pub errors_max: f64,
    pub timeouts_max: f64,
    pub wait_max: f64,
    /// Here a longer time is better: from this on the part is 1.
    pub uptime_full_s: f64,
    /// A worker that is up for less gets nothing.
    pub min_uptime_s: f64,
    /// A transaction needs this part of the worker's transactions free …
    pub begin_tx_free_min: f64,
    /// … and fewer than this waiting for a connection.
    pub begin_wait_max: u32,
    pub query: ScoreWeights,
    pub execute: ScoreWeights,
    pub begin: ScoreWeights,
}

impl Default for Score {
    fn default() -> Self {
        Self {
            top_k: 3,
            relative_latency: true,
            relative_k: 2.0,
            latency_max_ms: 2000.0,
            errors_max: 0.05,
            timeouts_max: 20.0,
            wait_max: 10.0,
            uptime_full_s: 300.0,
            min_uptime_s: 0.0,
            begin_tx_free_min: 0.05,
            begin_wait_max: 20,
            query: ScoreWeights {
                db_free: 0.22,
                http_free: 0.18,
                tx_free: 0.10,
                latency: 0.20,
                errors: 0.12,
                timeouts: 0.08,
                wait: 0.06,
                idle: 0.02,
                uptime: 0.02,
            },
            execute: ScoreWeights {
                db_free: 0.30,
                http_free: 0.14,
                tx_free: 0.08,
                latency: 0.14,
                errors: 0.14,
                timeouts: 0.10,
                wait: 0.08,
                idle: 0.02,
                uptime: 0.0,
            },
            begin: ScoreWeights {
                db_free: 0.22,
                http_free: 0.08,
                tx_free: 0.42,
                latency: 0.04,
                errors: 0.10,
                timeouts: 0.06,
                wait: 0.06,
                idle: 0.02,
                uptime: 0.0,
            },
        }
    }
}

/// A decision reads as many workers.
const TOP_K_MAX: u32 = 16;

impl Score {
    pub(super) fn validate(&self) -> Result<(), PolicyError> {
        if !(1..=TOP_K_MAX).contains(&self.top_k) {
            let rule = "between 1 and 16";
            return Err(PolicyError::new("score.top_k", rule, self.top_k));
        }
        for (field, value) in [
            ("score.latency_max_ms", self.latency_max_ms),
            ("score.errors_max", self.errors_max),
            ("score.timeouts_max", self.timeouts_max),
            ("score.wait_max", self.wait_max),
            ("score.uptime_full_s", self.uptime_full_s),
            ("score.relative_k", self.relative_k),
        ] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(PolicyError::new(field, "above 0", value));
            }
        }
        for (field, value) in [("score.min_uptime_s", self.min_uptime_s)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(PolicyError::new(field, "0 or above", value));
            }
        }
        if !(0.0..=1.0).contains(&self.begin_tx_free_min) {
            let (field, rule) = ("score.begin_tx_free_min", "between 0 and 1");
            return Err(PolicyError::new(field, rule, self.begin_tx_free_min));
        }
        for (field, value) in self.weights() {
            if !(0.0..=1.0).contains(&value) {
                return Err(PolicyError::new(field, "between 0 and 1", value));
            }
        }
        Ok(())
    }

    fn weights(&self) -> impl Iterator<Item = (&'static str, f64)> {
        macro_rules! named {
            ($($operation:ident)+) => {
                [$(
                    (concat!("score.", stringify!($operation), ".db_free"), self.$operation.db_free),
                    (concat!("score.", stringify!($operation), ".http_free"), self.$operation.http_free),
                    (concat!("score.", stringify!($operation), ".tx_free"), self.$operation.tx_free),
                    (concat!("score.", stringify!($operation), ".latency"), self.$operation.latency),
                    (concat!("score.", stringify!($operation), ".errors"), self.$operation.errors),
                    (concat!("score.", stringify!($operation), ".timeouts"), self.$operation.timeouts),
                    (concat!("score.", stringify!($operation), ".wait"), self.$operation.wait),
                    (concat!("score.", stringify!($operation), ".idle"), self.$operation.idle),
                    (concat!("score.", stringify!($operation), ".uptime"), self.$operation.uptime),
                )+]
            };
        }
        named!(query execute begin).into_iter()
    }
}
