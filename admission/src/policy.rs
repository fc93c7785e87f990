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
}

impl Strategy {
    pub const ALL: [Self; 4] = [
        Self::LifetimeFirst,
        Self::RoundRobin,
        Self::LeastConnections,
        Self::Random,
    ];
}

/// Every setting of a pool, with its default. Times are in milliseconds of the pool's own clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {rule}, not {value}")]
pub struct PolicyError {
    pub field: &'static str,
    pub rule: &'static str,
    pub value: u64,
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
            None => Ok(()),
            Some((field, value, _, rule)) => Err(PolicyError { field, rule, value }),
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
