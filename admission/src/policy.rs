//! A pool's policy: its strategy and its limits.

use serde::{Deserialize, Serialize};

/// The rank packs lifetime and active into one double: active in the low 21 bits.
pub const MAX_CONCURRENT_MAX: u32 = (1 << 21) - 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Pushes one worker to its lifetime limit while the others stay behind.
    LifetimeFirst,
    /// Strict turns, one order for the whole fleet.
    #[serde(alias = "roundrobin")]
    RoundRobin,
    /// The fewest leases for its weight.
    LeastConnections,
    /// Chance by weight.
    Random,
    /// Shortest expected waiting time: leases times the time one takes, for its weight.
    Sewt,
}

impl Strategy {
    pub const ALL: [Self; 5] = [
        Self::LifetimeFirst,
        Self::RoundRobin,
        Self::LeastConnections,
        Self::Random,
        Self::Sewt,
    ];
}

/// What of a lease is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceTime {
    /// Of a plain request, from naming the worker to the response's end; of an upgrade, its
    /// handshake: how long a WebSocket lasts says nothing about its worker's speed.
    Response,
    /// From naming the worker to the stream's end, upgrades too.
    Session,
    /// From naming the worker to the response headers.
    Handshake,
}

/// How `sewt` estimates the time that a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    /// A moving average.
    Ema,
    P95,
    P99,
}

/// The settings of the strategy `sewt`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sewt {
    pub estimator: Estimator,
    /// The newest observation's weight in the moving average.
    pub alpha: f64,
    /// Lets the weight follow the observations' variance, between the two bounds below.
    pub adaptive_alpha: bool,
    pub alpha_min: f64,
    pub alpha_max: f64,
    /// Requests of different sizes are estimated apart: the largest bytes of each size but the last.
    pub size_buckets: Vec<u64>,
}

impl Default for Sewt {
    fn default() -> Self {
        Self {
            estimator: Estimator::Ema,
            alpha: 0.2,
            adaptive_alpha: false,
            alpha_min: 0.05,
            alpha_max: 0.5,
            // Below 1 MB, up to 100 MB, above.
            size_buckets: vec![(1 << 20) - 1, 100 << 20],
        }
    }
}

/// A decision ranks a worker once for each size.
const SIZE_BUCKETS_MAX: usize = 2;

impl Sewt {
    fn validate(&self) -> Result<(), PolicyError> {
        let share = |value: f64| value > 0.0 && value <= 1.0;
        for (field, value) in [
            ("sewt.alpha", self.alpha),
            ("sewt.alpha_min", self.alpha_min),
            ("sewt.alpha_max", self.alpha_max),
        ] {
            if !share(value) {
                return Err(PolicyError::new(field, "above 0 and at most 1", value));
            }
        }
        if self.alpha_min > self.alpha_max {
            let rule = "at most sewt.alpha_max";
            return Err(PolicyError::new("sewt.alpha_min", rule, self.alpha_min));
        }
        if self.size_buckets.len() > SIZE_BUCKETS_MAX || !self.size_buckets.is_sorted() {
            let rule = "at most 2 sizes, the smaller first";
            return Err(PolicyError::new(
                "sewt.size_buckets",
                rule,
                format!("{:?}", self.size_buckets),
            ));
        }
        Ok(())
    }
}

/// Every setting of a pool, with its default. Times are in milliseconds of the pool's own clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    pub strategy: Strategy,
    /// Leases a worker may have at once.
    pub max_concurrent: u32,
    /// Leases a worker may have before it must restart; 0 for no limit.
    pub max_lifetime: u32,
    /// A worker whose last heartbeat is older gets nothing new.
    pub heartbeat_ttl_ms: u64,
    /// How long the id of an ended lease is remembered, so that a late admit cannot revive it.
    pub lease_ttl_ms: u64,
    /// First exile of a worker that could not be reached; each further failure doubles it.
    pub ejection_ms: u64,
    pub ejection_max_ms: u64,
    /// When a denied client is told to come back.
    pub retry_after_ms: u64,
    /// A worker without heartbeats and without leases is forgotten after this.
    pub forget_ms: u64,
    /// What is timed, for the strategies that learn and for the mean in the view.
    pub service_time: ServiceTime,
    pub sewt: Sewt,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            strategy: Strategy::Random,
            max_concurrent: 2,
            max_lifetime: 0,
            heartbeat_ttl_ms: 60_000,
            lease_ttl_ms: 15_000,
            ejection_ms: 1_000,
            ejection_max_ms: 30_000,
            retry_after_ms: 1_000,
            forget_ms: 3_600_000,
            service_time: ServiceTime::Response,
            sewt: Sewt::default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {rule}, not {value}")]
pub struct PolicyError {
    pub field: &'static str,
    pub rule: &'static str,
    pub value: String,
}

impl PolicyError {
    fn new(field: &'static str, rule: &'static str, value: impl ToString) -> Self {
        Self {
            field,
            rule,
            value: value.to_string(),
        }
    }
}

impl Policy {
    /// Checks what no single field can check by itself.
    pub fn validate(&self) -> Result<(), PolicyError> {
        /// A day: no pool time is longer, and sums of times stay exact.
        const DAY_MS: u64 = 86_400_000;
        let rules = [
            (
                "max_concurrent",
                u64::from(self.max_concurrent),
                (1..=u64::from(MAX_CONCURRENT_MAX)).contains(&u64::from(self.max_concurrent)),
                "between 1 and 2097151",
            ),
            (
                "max_lifetime",
                u64::from(self.max_lifetime),
                self.strategy != Strategy::LifetimeFirst || self.max_lifetime > 0,
                "above 0 for the strategy lifetime_first",
            ),
            (
                "heartbeat_ttl_ms",
                self.heartbeat_ttl_ms,
                (10..=DAY_MS).contains(&self.heartbeat_ttl_ms),
                "between 10 and 86400000",
            ),
            (
                "lease_ttl_ms",
                self.lease_ttl_ms,
                (100..=DAY_MS).contains(&self.lease_ttl_ms),
                "between 100 and 86400000",
            ),
            (
                "ejection_ms",
                self.ejection_ms,
                (1..=DAY_MS).contains(&self.ejection_ms),
                "between 1 and 86400000",
            ),
            (
                "ejection_max_ms",
                self.ejection_max_ms,
                (self.ejection_ms..=DAY_MS).contains(&self.ejection_max_ms),
                "between ejection_ms and 86400000",
            ),
            (
                "retry_after_ms",
                self.retry_after_ms,
                self.retry_after_ms <= DAY_MS,
                "at most 86400000",
            ),
            (
                "forget_ms",
                self.forget_ms,
                (self.heartbeat_ttl_ms..=30 * DAY_MS).contains(&self.forget_ms),
                "between heartbeat_ttl_ms and 2592000000",
            ),
        ];
        match rules.into_iter().find(|(_, _, kept, _)| !kept) {
            None => self.sewt.validate(),
            Some((field, value, _, rule)) => Err(PolicyError::new(field, rule, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn the_default_policy_is_valid() {
        assert_eq!(Policy::default().validate(), Ok(()));
    }

    #[test]
    fn a_bad_value_is_named() {
        let policy = Policy {
            strategy: Strategy::LifetimeFirst,
            max_lifetime: 0,
            ..Policy::default()
        };
        let message = policy.validate().unwrap_err().to_string();
        assert_eq!(
            message,
            "max_lifetime must be above 0 for the strategy lifetime_first, not 0"
        );
    }

    #[test]
    fn an_unknown_setting_is_refused_by_name() {
        let error = serde_json::from_str::<Policy>(r#"{"max_concurent": 3}"#).unwrap_err();
        assert!(error.to_string().contains("max_concurent"), "{error}");
    }
}
