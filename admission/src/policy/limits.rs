//! Limits that are not a worker's own: how often, and how many for the pool and for one client.

use super::PolicyError;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;

/// So many in a time, written `1/s`, `60/min`, `5/10s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Rate {
    pub count: u32,
    pub period_ms: u64,
}

/// The largest first, so that a time is written with the largest unit that fits.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("min", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

const DAY_MS: u64 = 86_400_000;

/// Counts and windows of a client share one number with 53 bits.
const COUNT_MAX: u32 = 1_000_000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a rate is a count, a slash and a time, such as 1/s, 60/min or 5/10s (units: ms, s, min, h, d; \
     at most 1000000 in at most a day), not {0:?}"
)]
pub struct RateError(String);

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let read = || {
            let (count, time) = text.split_once('/')?;
            let digits = time.bytes().take_while(u8::is_ascii_digit).count();
            let (times, unit) = time.split_at_checked(digits)?;
            let times: u64 = if times.is_empty() {
                1
            } else {
                times.parse().ok()?
            };
            let (_, unit_ms) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
            let rate = Self {
                count: count.parse().ok()?,
                period_ms: times.checked_mul(unit_ms)?,
            };
            let plain = count.bytes().all(|byte| byte.is_ascii_digit());
            let fits =
                (1..=COUNT_MAX).contains(&rate.count) && (1..=DAY_MS).contains(&rate.period_ms);
            (plain && fits).then_some(rate)
        };
        read().ok_or_else(|| RateError(text.to_owned()))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fitting = |(_, unit_ms): &(&str, u64)| self.period_ms.is_multiple_of(*unit_ms);
        let (unit, unit_ms) = UNITS.into_iter().find(fitting).unwrap_or(("ms", 1));
        match self.period_ms.checked_div(unit_ms) {
            Some(1) | None => write!(f, "{}/{unit}", self.count),
            Some(times) => write!(f, "{}/{times}{unit}", self.count),
        }
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Written)
    }
}

/// Reads a rate; who wrote a number is told the form.
struct Written;

impl Visitor<'_> for Written {
    type Value = Rate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rate in quotes, such as \"60/min\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Rate, E> {
        text.parse().map_err(E::custom)
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> String {
        rate.to_string()
    }
}

/// How a rate is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Evenly: 60/min is one a second, and `burst` of them at once after a quiet time.
    Gcra,
    /// Counted from zero in each window of the clock: 60/min may be 120 around the turn of a minute.
    FixedWindow,
}

/// How often the pool admits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Requests {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How many may come at once after a quiet time.
    pub burst: u32,
    pub algorithm: Algorithm,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            rate: None,
            burst: 1,
            algorithm: Algorithm::Gcra,
        }
    }
}

/// How often, and how many at once, for each client: whoever has the same client key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Client {
    /// Leases that a client may have at once; 0 for no limit.
    pub max_concurrent: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    pub burst: u32,
    pub algorithm: Algorithm,
    /// Clients told apart at a time. Those beyond share one place, as if they were one client.
    pub keys_max: u32,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            max_concurrent: 0,
            rate: None,
            burst: 1,
            algorithm: Algorithm::Gcra,
            keys_max: 100_000,
        }
    }
}

/// A limit that is only watched: it decides and counts, and denies nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shadowed {
    #[serde(rename = "all")]
    All,
    #[serde(rename = "requests.rate")]
    Requests,
    #[serde(rename = "client.rate")]
    ClientRate,
    #[serde(rename = "client.max_concurrent")]
    ClientMaxConcurrent,
    #[serde(rename = "global_conn")]
    GlobalConn,
    #[serde(rename = "max_concurrent")]
    MaxConcurrent,
}

impl Requests {
    pub(super) fn validate(&self) -> Result<(), PolicyError> {
        validate_rate(
            "requests.rate",
            "requests.burst",
            self.rate,
            self.burst,
            self.algorithm,
        )
    }
}

impl Client {
    pub(super) fn validate(&self) -> Result<(), PolicyError> {
        if !(1..=1_000_000).contains(&self.keys_max) {
            let rule = "between 1 and 1000000";
            return Err(PolicyError::new("client.keys_max", rule, self.keys_max));
        }
        validate_rate(
            "client.rate",
            "client.burst",
            self.rate,
            self.burst,
            self.algorithm,
        )
    }
}

fn validate_rate(
    rate_field: &'static str,
    burst_field: &'static str,
    rate: Option<Rate>,
    burst: u32,
    algorithm: Algorithm,
) -> Result<(), PolicyError> {
    if !(1..=COUNT_MAX).contains(&burst) {
        return Err(PolicyError::new(
            burst_field,
            "between 1 and 1000000",
            burst,
        ));
    }
    match (algorithm, rate) {
        (Algorithm::FixedWindow, _) if burst != 1 => {
            let rule = "left out with algorithm fixed_window, which has no bursts";
            Err(PolicyError::new(burst_field, rule, burst))
        }
        (Algorithm::FixedWindow, Some(rate)) if rate.period_ms < 1000 => {
            let rule = "over a second or more with algorithm fixed_window";
            Err(PolicyError::new(rate_field, rule, rate))
        }
        (Algorithm::FixedWindow | Algorithm::Gcra, _) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn a_rate_reads_as_it_is_written() {
        for (text, count, period_ms) in [
            ("1/s", 1, 1000),
            ("60/min", 60, 60_000),
            ("5/10s", 5, 10_000),
            ("1000/h", 1000, 3_600_000),
            ("1/d", 1, 86_400_000),
            ("3/250ms", 3, 250),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!((rate.count, rate.period_ms), (count, period_ms));
            assert_eq!(rate.to_string(), text);
        }
    }

    #[test]
    fn a_number_is_told_how_a_rate_is_written() {
        let refused = serde_json::from_str::<Rate>("60").unwrap_err().to_string();
        assert!(refused.contains("such as \"60/min\""), "{refused}");
        assert!(serde_json::from_str::<Rate>("\"60/min\"").is_ok());
    }

    #[test]
    fn what_is_no_rate_is_refused_with_an_example() {
        for text in [
            "", "1", "/s", "0/s", "1/", "1/week", "-1/s", "+1/s", "1/2d", "1/0s", "1/s ",
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains("60/min"), "{error}");
        }
    }

    #[test]
    fn a_window_has_no_bursts_and_is_no_shorter_than_a_second() {
        let windowed = |rate: &str, burst| Requests {
            rate: Some(rate.parse().unwrap()),
            burst,
            algorithm: Algorithm::FixedWindow,
        };
        assert_eq!(windowed("60/min", 1).validate(), Ok(()));
        let field = |requests: Requests| requests.validate().unwrap_err().field;
        assert_eq!(field(windowed("60/min", 2)), "requests.burst");
        assert_eq!(field(windowed("1/500ms", 1)), "requests.rate");
    }
}
