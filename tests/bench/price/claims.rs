//! What is asked, beside what was measured.

use crate::measure::rounded;
use serde::{Deserialize, Serialize};

pub(crate) enum Verdict {
    Met,
    Missed,
}

/// A figure that is promised, nearly always against a peer's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) what: String,
    pub(crate) asked: Bound,
    pub(crate) measured: f64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Claim {
    pub(crate) fn at_most(bound: f64, measured: f64, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            asked: Bound::AtMost(bound),
            measured: rounded(measured),
        }
    }

    pub(crate) fn at_least(bound: f64, measured: f64, what: impl Into<String>) -> Self {
        Self {
            asked: Bound::AtLeast(bound),
            ..Self::at_most(bound, measured, what)
        }
    }

    pub(crate) fn is_met(&self) -> bool {
        match self.asked {
            Bound::AtMost(bound) => self.measured <= bound,
            Bound::AtLeast(bound) => self.measured >= bound,
        }
    }

    pub(crate) fn asked(&self) -> String {
        match self.asked {
            Bound::AtMost(bound) => format!("at most {bound}"),
            Bound::AtLeast(bound) => format!("at least {bound}"),
        }
    }

    pub(crate) fn verdict(&self) -> &'static str {
        if self.is_met() { "met" } else { "MISSED" }
    }
}

#[expect(clippy::print_stdout, reason = "the verdict is what was asked for")]
pub(crate) fn tell(claims: &[Claim]) -> Verdict {
    println!();
    for claim in claims {
        println!(
            "{}: {}, asked {}: {}",
            claim.what,
            claim.measured,
            claim.asked(),
            claim.verdict()
        );
    }
    match claims.iter().all(Claim::is_met) {
        true => Verdict::Met,
        false => Verdict::Missed,
    }
}
