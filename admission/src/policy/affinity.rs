use super::PolicyError;
use serde::{Deserialize, Serialize};

/// What a binding means to a request that carries its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AffinityMode {
    /// The bound worker, whatever its load; nobody when it is gone.
    Require,
    /// The bound worker if it may be chosen, else another, which is bound from then on.
    Prefer,
}

/// Requests with the same key go to the same worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Affinity {
    pub mode: AffinityMode,
    /// A key that nobody used for this long is unbound.
    pub ttl_ms: u64,
    /// Keys bound at a time. Those beyond are not bound.
    pub keys_max: u32,
}

impl Default for Affinity {
    fn default() -> Self {
        Self {
            mode: AffinityMode::Require,
            ttl_ms: 600_000,
            keys_max: 100_000,
        }
    }
}

impl Affinity {
    pub(super) fn validate(&self) -> Result<(), PolicyError> {
        if !(100..=86_400_000).contains(&self.ttl_ms) {
            let rule = "between 100 and 86400000";
            return Err(PolicyError::new("affinity.ttl_ms", rule, self.ttl_ms));
        }
        if !(1..=1_000_000).contains(&self.keys_max) {
            let rule = "between 1 and 1000000";
            return Err(PolicyError::new("affinity.keys_max", rule, self.keys_max));
        }
        Ok(())
    }
}
