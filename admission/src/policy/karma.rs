use super::PolicyError;
use serde::{Deserialize, Serialize};

/// How shares follow the time that workers take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KarmaRule {
    /// Each period scales the share that a worker has.
    Cumulative,
    /// Each period starts from equal shares.
    Memoryless,
}

/// The settings of karma, by which `nodeads` and `noerrors` weigh workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Karma {
    pub rule: KarmaRule,
    /// Shares change once in this time; errors are counted over the present and the last half of it.
    pub period_ms: u64,
    /// No worker falls below this part of an equal share.
    pub floor: f64,
}

impl Default for Karma {
    fn default() -> Self {
        Self {
            rule: KarmaRule::Cumulative,
            period_ms: 60_000,
            floor: 0.1,
        }
    }
}

impl Karma {
    pub(super) fn validate(&self) -> Result<(), PolicyError> {
        if !(10..=86_400_000).contains(&self.period_ms) {
            let rule = "between 10 and 86400000";
            return Err(PolicyError::new("karma.period_ms", rule, self.period_ms));
        }
        if !(0.001..=1.0).contains(&self.floor) {
            let rule = "between 0.001 and 1";
            return Err(PolicyError::new("karma.floor", rule, self.floor));
        }
        Ok(())
    }
}

/// The settings of the strategy `nodeads`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Nodeads {
    /// Failures in a row that are tolerated; with one more the worker is dead.
    pub dead_after: u8,
}

impl Default for Nodeads {
    fn default() -> Self {
        Self { dead_after: 3 }
    }
}

/// Failures in a row are counted up to 64.
const DEAD_AFTER_MAX: u8 = 63;

impl Nodeads {
    pub(super) fn validate(&self) -> Result<(), PolicyError> {
        if self.dead_after > DEAD_AFTER_MAX {
            let rule = "at most 63";
            return Err(PolicyError::new(
                "nodeads.dead_after",
                rule,
                self.dead_after,
            ));
        }
        Ok(())
    }
}

/// The settings of the strategy `noerrors`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noerrors {
    /// Ratios up to this count as none.
    pub tolerance: f64,
}

impl Default for Noerrors {
    fn default() -> Self {
        Self { tolerance: 0.03 }
    }
}

impl Noerrors {
    pub(super) fn validate(&self) -> Result<(), PolicyError> {
        if !(0.0..=1.0).contains(&self.tolerance) {
            let rule = "between 0 and 1";
            return Err(PolicyError::new("noerrors.tolerance", rule, self.tolerance));
        }
        Ok(())
    }
}
