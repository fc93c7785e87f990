//! What a client is told when it is not let in.

use crate::message::{Denied, DenyReason};

pub const REASON_HEADER: &str = "x-berth-reason";

/// Offered while the cause is an outage: long enough not to hammer, short enough to recover.
const OUTAGE_RETRY_AFTER_MS: u64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Denied {
        reason: DenyReason,
        retry_after_ms: u64,
    },
    /// Sidecar or Redis could not answer.
    Outage,
    /// The watchdog found the stream still waiting for its answer.
    Overdue,
    /// The client was sent from worker to worker, and is to be sent on.
    TooManyHops,
}

impl From<&Denied> for Refusal {
    fn from(denied: &Denied) -> Self {
        Self::Denied {
            reason: denied.reason,
            retry_after_ms: denied.retry_after_ms,
        }
    }
}

impl Refusal {
    pub fn reason(self) -> &'static str {
        match self {
            Self::Denied { reason, .. } => reason.as_str(),
            Self::Outage => "outage",
            Self::Overdue => "overdue",
            Self::TooManyHops => "too_many_hops",
        }
    }

    /// 429 where the client itself asked too much, 503 where the pool cannot serve.
    pub fn status(self) -> u32 {
        match self {
            Self::Denied { reason, .. } => match reason {
                DenyReason::RateLimited | DenyReason::ClientLimit => 429,
                DenyReason::PoolFull
                | DenyReason::NoWorker
                | DenyReason::AffinityLost
                | DenyReason::Cancelled
                | DenyReason::Rebuilding => 503,
            },
            Self::Outage | Self::Overdue => 503,
            Self::TooManyHops => 429,
        }
    }

    pub fn retry_after_ms(self) -> u64 {
        match self {
            Self::Denied { retry_after_ms, .. } => retry_after_ms,
            Self::Outage | Self::Overdue | Self::TooManyHops => OUTAGE_RETRY_AFTER_MS,
        }
    }

    /// Whole seconds, rounded up: a client that returns a moment too early is denied again.
    pub fn retry_after_s(self) -> u64 {
        self.retry_after_ms().div_ceil(1000).max(1)
    }

    /// JSON, written by hand: both words are our own, and the filter is kilobytes smaller for it.
    pub fn body(self) -> String {
        let (reason, retry_after_s) = (self.reason(), self.retry_after_s());
        let retry_after_ms = self.retry_after_ms();
        format!(
            r#"{{"error":"not_admitted","reason":"{reason}","retry_after_s":{retry_after_s},"retry_after_ms":{retry_after_ms}}}"#
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn denied(reason: DenyReason, retry_after_ms: u64) -> Refusal {
        Refusal::Denied {
            reason,
            retry_after_ms,
        }
    }

    #[test]
    fn the_clients_own_excess_is_429_and_the_rest_503() {
        assert_eq!(denied(DenyReason::RateLimited, 0).status(), 429);
        assert_eq!(denied(DenyReason::ClientLimit, 0).status(), 429);
        assert_eq!(denied(DenyReason::PoolFull, 0).status(), 503);
        assert_eq!(Refusal::Outage.status(), 503);
    }

    #[test]
    fn retry_after_is_rounded_up_to_whole_seconds() {
        assert_eq!(denied(DenyReason::PoolFull, 0).retry_after_s(), 1);
        assert_eq!(denied(DenyReason::PoolFull, 1000).retry_after_s(), 1);
        assert_eq!(denied(DenyReason::PoolFull, 1001).retry_after_s(), 2);
    }

    #[test]
    fn the_body_is_json_that_names_the_reason() {
        let body: serde_json::Value = serde_json::from_str(&Refusal::Outage.body()).unwrap();
        assert_eq!(body["reason"], "outage");
        assert_eq!(body["retry_after_s"], 1);
    }
}
