use super::PolicyError;
use serde::{Deserialize, Serialize};

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
    pub(super) fn validate(&self) -> Result<(), PolicyError> {
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
