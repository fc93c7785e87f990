//! A pool's policy: its strategy and its limits.

mod affinity;
mod karma;
mod limits;
mod score;
mod section;
mod sewt;

pub use affinity::{Affinity, AffinityMode};
pub use karma::{Karma, KarmaRule, Nodeads, Noerrors};
pub use limits::{Algorithm, Client, Rate, RateError, Requests, Shadowed};
pub use score::{Score, ScoreWeights};
pub use sewt::{Estimator, Sewt};

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
    /// The best by what workers report about their load.
    Score,
    /// Chance by how fast a worker was, among those that do not fail time after time.
    Nodeads,
    /// Chance by how fast a worker was, among those with the fewest errors.
    Noerrors,
}

impl Strategy {
    pub const ALL: [Self; 8] = [
        Self::LifetimeFirst,
        Self::RoundRobin,
        Self::LeastConnections,
        Self::Random,
        Self::Sewt,
        Self::Score,
        Self::Nodeads,
        Self::Noerrors,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::LifetimeFirst => "lifetime_first",
            Self::RoundRobin => "round_robin",
            Self::LeastConnections => "least_connections",
            Self::Random => "random",
            Self::Sewt => "sewt",
            Self::Score => "score",
            Self::Nodeads => "nodeads",
            Self::Noerrors => "noerrors",
        }
    }
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

/// Every setting of a pool, with its default. Times are in milliseconds of the pool's own clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    pub strategy: Strategy,
    /// Leases a worker may have at once.
    pub max_concurrent: u32,
    /// Leases a worker may have before it must restart; 0 for no limit.
    pub max_lifetime: u32,
    /// Leases the whole pool may have at once; 0 for no limit but the workers'.
    pub global_conn: u32,
    /// Workers the pool may have, those included that are not forgotten yet.
    pub workers_max: u32,
    #[serde(deserialize_with = "section::section")]
    pub requests: Requests,
    #[serde(deserialize_with = "section::section")]
    pub client: Client,
    #[serde(deserialize_with = "section::section")]
    pub affinity: Affinity,
    /// Limits that decide and count but deny nobody.
    pub shadow: Vec<Shadowed>,
    /// Runs beside the strategy, and tells how often it would have chosen otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow_strategy: Option<Strategy>,
    /// A worker whose last heartbeat is older gets nothing new.
    pub heartbeat_ttl_ms: u64,
    /// How long a holder is believed after its last beat, and how long the id of an ended lease is
    /// remembered, so that a late admit cannot revive it.
    pub lease_ttl_ms: u64,
    /// When the store may have lost data, how long it waits at least for the holders to tell what
    /// they hold; 0 to never wait.
    pub rebuild_ms: u64,
    /// First exile of a worker that could not be reached; each further failure doubles it.
    pub ejection_ms: u64,
    pub ejection_max_ms: u64,
    /// When a denied client is told to come back.
    pub retry_after_ms: u64,
    /// A worker without heartbeats and without leases is forgotten after this.
    pub forget_ms: u64,
    /// What is timed, for the strategies that learn and for the mean in the view.
    pub service_time: ServiceTime,
    #[serde(deserialize_with = "section::section")]
    pub sewt: Sewt,
    #[serde(deserialize_with = "section::section")]
    pub score: Score,
    #[serde(deserialize_with = "section::section")]
    pub karma: Karma,
    #[serde(deserialize_with = "section::section")]
    pub nodeads: Nodeads,
    #[serde(deserialize_with = "section::section")]
    pub noerrors: Noerrors,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            strategy: Strategy::Random,
            max_concurrent: 2,
            max_lifetime: 0,
            global_conn: 0,
            workers_max: 10_000,
            requests: Requests::default(),
            client: Client::default(),
            affinity: Affinity::default(),
            shadow: Vec::new(),
            shadow_strategy: None,
            heartbeat_ttl_ms: 60_000,
            lease_ttl_ms: 15_000,
            rebuild_ms: 1_500,
            ejection_ms: 1_000,
            ejection_max_ms: 30_000,
            retry_after_ms: 1_000,
            forget_ms: 3_600_000,
            service_time: ServiceTime::Response,
            sewt: Sewt::default(),
            score: Score::default(),
            karma: Karma::default(),
            nodeads: Nodeads::default(),
            noerrors: Noerrors::default(),
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
                "workers_max",
                u64::from(self.workers_max),
                (1..=1_000_000).contains(&self.workers_max),
                "between 1 and 1000000",
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
                "rebuild_ms",
                self.rebuild_ms,
                self.rebuild_ms <= self.lease_ttl_ms,
                "at most lease_ttl_ms",
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
            None => self.validate_sections(),
            Some((field, value, _, rule)) => Err(PolicyError::new(field, rule, value)),
        }
    }

    fn validate_sections(&self) -> Result<(), PolicyError> {
        let uses = |strategy| self.strategy == strategy || self.shadow_strategy == Some(strategy);
        if uses(Strategy::LifetimeFirst) && self.max_lifetime == 0 {
            let rule = "above 0 for the strategy lifetime_first";
            return Err(PolicyError::new("max_lifetime", rule, self.max_lifetime));
        }
        if self.shadow_strategy == Some(self.strategy) {
            let rule = "another strategy than the pool's own";
            let strategy = self.strategy.as_str();
            return Err(PolicyError::new("shadow_strategy", rule, strategy));
        }
        self.requests.validate()?;
        self.client.validate()?;
        self.affinity.validate()?;
        self.sewt.validate()?;
        self.score.validate()?;
        self.karma.validate()?;
        self.nodeads.validate()?;
        self.noerrors.validate()
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
    fn strategies_are_spelled_alike_in_json_and_text() {
        for strategy in Strategy::ALL {
            assert_eq!(serde_json::to_value(strategy).unwrap(), strategy.as_str());
        }
    }

    #[test]
    fn a_bad_value_of_a_strategy_is_named_too() {
        for (json, field) in [
            (r#"{"sewt": {"alpha": 0}}"#, "sewt.alpha"),
            (r#"{"score": {"top_k": 0}}"#, "score.top_k"),
            (r#"{"score": {"wait_max": 0}}"#, "score.wait_max"),
            (r#"{"karma": {"period_ms": 1}}"#, "karma.period_ms"),
            (r#"{"karma": {"floor": 2}}"#, "karma.floor"),
            (r#"{"nodeads": {"dead_after": 64}}"#, "nodeads.dead_after"),
            (r#"{"noerrors": {"tolerance": 1.5}}"#, "noerrors.tolerance"),
        ] {
            let policy: Policy = serde_json::from_str(json).unwrap();
            assert_eq!(policy.validate().unwrap_err().field, field);
        }
    }

    #[test]
    fn a_bad_weight_is_named_by_its_operation() {
        let mut policy = Policy::default();
        policy.score.begin.wait = -1.0;
        assert_eq!(policy.validate().unwrap_err().field, "score.begin.wait");
    }

    #[test]
    fn a_list_is_no_section() {
        let strategies = ["sewt", "score", "karma", "nodeads", "noerrors"];
        let limits = ["requests", "client", "affinity"];
        for name in strategies.into_iter().chain(limits) {
            let json = format!(r#"{{"{name}": []}}"#);
            let error = serde_json::from_str::<Policy>(&json).unwrap_err();
            assert!(error.to_string().contains("settings by name"), "{error}");
        }
    }

    #[test]
    fn an_unknown_setting_is_refused_by_name() {
        let error = serde_json::from_str::<Policy>(r#"{"max_concurent": 3}"#).unwrap_err();
        assert!(error.to_string().contains("max_concurent"), "{error}");
    }
}
