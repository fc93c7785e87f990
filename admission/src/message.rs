//! The JSON that filter, workers and operators exchange with the sidecar, and the paths it goes to.

use crate::id::{Address, HolderId, Incarnation, LeaseId, PoolName, WorkerId};
use crate::outcome::Outcome;
use serde::{Deserialize, Serialize};

pub const ADMIT_PATH: &str = "/v1/admit";
pub const RELEASE_PATH: &str = "/v1/release";
pub const OBSERVE_PATH: &str = "/v1/observe";

/// Every answer of a sidecar carries this header. Envoy's own 503 and 504 look like an answer
/// otherwise, and would be taken for one.
pub const SIDECAR_HEADER: &str = "x-berth";
pub const SIDECAR_HEADER_VALUE: &str = "1";

/// How many releases or observations one call may carry: a body stays below 16 KiB and a script
/// below a millisecond.
pub const BATCH_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmitRequest {
    pub pool: PoolName,
    pub holder: HolderId,
    pub lease: LeaseId,
    /// The request's size, as its content-length says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum AdmitAnswer {
    Admitted(Admitted),
    Denied(Denied),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admitted {
    pub worker: WorkerId,
    pub address: Address,
    pub lease: LeaseId,
    /// The worker's leases, this one included.
    pub active: u64,
    /// The worker's leases since it started, this one included.
    pub lifetime: u64,
    /// The worker was ejected and this is its first chance since: its fate decides whether others
    /// follow, so the filter reports it as soon as it is known.
    #[serde(default)]
    pub probe: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denied {
    pub reason: DenyReason,
    pub retry_after_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenyReason {
    RateLimited,
    ClientLimit,
    /// Workers there are, but none has room.
    PoolFull,
    /// No worker could serve even if all were idle: none registered, fresh, and in service.
    NoWorker,
    AffinityLost,
    /// The lease was released before its admit arrived.
    Cancelled,
    Rebuilding,
}

impl DenyReason {
    pub const ALL: [Self; 7] = [
        Self::RateLimited,
        Self::ClientLimit,
        Self::PoolFull,
        Self::NoWorker,
        Self::AffinityLost,
        Self::Cancelled,
        Self::Rebuilding,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::ClientLimit => "client_limit",
            Self::PoolFull => "pool_full",
            Self::NoWorker => "no_worker",
            Self::AffinityLost => "affinity_lost",
            Self::Cancelled => "cancelled",
            Self::Rebuilding => "rebuilding",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseRequest {
    pub pool: PoolName,
    pub holder: HolderId,
    pub releases: Vec<Release>,
}

/// Whether the lease became a session. An unused one gives its lifetime back with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    Used,
    Unused,
}

/// The end of a lease, and what the stream learned about its worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    pub lease: LeaseId,
    pub r#use: Use,
    pub outcome: Outcome,
    /// The response's status, when there was a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// From naming the worker to its response headers. An upgrade's has been told by its
    /// observation, and is not told again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_us: Option<u64>,
    /// From naming the worker to the stream's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_us: Option<u64>,
    /// What the client sent, and what it got.
    #[serde(default)]
    pub bytes_read: u64,
    #[serde(default)]
    pub bytes_written: u64,
}

impl Release {
    /// The end of a lease that nothing came of, and that taught nothing.
    pub fn unused(lease: LeaseId) -> Self {
        Self {
            lease,
            r#use: Use::Unused,
            outcome: Outcome::Unknown,
            status: None,
            handshake_us: None,
            session_us: None,
            bytes_read: 0,
            bytes_written: 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseAnswer {
    /// Leases given back by this call.
    pub released: u64,
    /// Ids that were not held: released before, or not yet admitted. They can no longer be.
    pub unknown: u64,
}

impl ReleaseAnswer {
    /// From what each id was: held or not.
    pub fn of(held: &[bool]) -> Self {
        let count = |wanted| held.iter().filter(|held| **held == wanted).count() as u64;
        Self {
            released: count(true),
            unknown: count(false),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObserveRequest {
    pub pool: PoolName,
    pub holder: HolderId,
    pub observations: Vec<Observation>,
}

/// What a stream learned about its worker while its lease goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    pub lease: LeaseId,
    pub outcome: Outcome,
    /// From naming the worker to its response headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_us: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObserveAnswer {
    pub observed: u64,
    pub unknown: u64,
}

fn default_weight() -> f64 {
    1.0
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisterRequest {
    pub address: Address,
    pub incarnation: Incarnation,
    /// A limit below the pool's, for a smaller worker. Never raises it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    #[serde(default = "default_weight")]
    pub weight: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    pub incarnation: Incarnation,
}

/// What a worker is told when it registers or sends a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerAnswer {
    pub advice: Advice,
    pub active: u64,
    pub lifetime: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// Go on.
    Serve,
    /// Finish the sessions you have; nothing new will come.
    Drain,
    /// The lifetime limit is reached: finish your sessions, restart, register anew.
    Recycle,
    /// This worker or this incarnation is not known: register.
    Register,
}

impl Advice {
    const ALL: [Self; 4] = [Self::Serve, Self::Drain, Self::Recycle, Self::Register];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Drain => "drain",
            Self::Recycle => "recycle",
            Self::Register => "register",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|advice| advice.as_str() == text)
    }
}

/// The body of every answer that is not a 2xx.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// A fixed word for programs.
    pub error: String,
    /// A sentence for people.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    const EPOCH: &str = "00112233445566778899aabbccddeeff";

    #[test]
    fn a_denial_reads_as_documented() {
        let answer = AdmitAnswer::Denied(Denied {
            reason: DenyReason::PoolFull,
            retry_after_ms: 1000,
        });
        assert_eq!(
            serde_json::to_value(&answer).unwrap(),
            json!({"decision": "denied", "reason": "pool_full", "retry_after_ms": 1000})
        );
    }

    #[test]
    fn an_admission_reads_as_documented() {
        let text = json!({"decision": "admitted", "worker": "w1", "address": "10.0.0.1:80",
            "lease": format!("{EPOCH}.1"), "active": 1, "lifetime": 5});
        let AdmitAnswer::Admitted(admitted) = serde_json::from_value(text).unwrap() else {
            panic!("not admitted");
        };
        assert_eq!(
            (admitted.active, admitted.lifetime, admitted.probe),
            (1, 5, false)
        );
    }

    #[test]
    fn reasons_and_advice_are_spelled_alike_in_json_and_text() {
        for reason in DenyReason::ALL {
            assert_eq!(
                serde_json::to_value(reason).unwrap(),
                json!(reason.as_str())
            );
            assert_eq!(DenyReason::parse(reason.as_str()), Some(reason));
        }
        for advice in Advice::ALL {
            assert_eq!(
                serde_json::to_value(advice).unwrap(),
                json!(advice.as_str())
            );
            assert_eq!(Advice::parse(advice.as_str()), Some(advice));
        }
    }

    #[test]
    fn a_full_batch_fits_the_body_limit() {
        let release = Release {
            lease: LeaseId::parse(&format!("{EPOCH}.9007199254740992")).unwrap(),
            r#use: Use::Unused,
            outcome: Outcome::ResetBeforeHeaders,
            status: Some(503),
            handshake_us: Some(86_400_000_000),
            session_us: Some(86_400_000_000),
            bytes_read: 1 << 50,
            bytes_written: 1 << 50,
        };
        let request = ReleaseRequest {
            pool: PoolName::parse(&"p".repeat(64)).unwrap(),
            holder: HolderId::parse(&format!("{}/{EPOCH}", "e".repeat(64))).unwrap(),
            releases: vec![release; BATCH_MAX],
        };
        assert!(serde_json::to_vec(&request).unwrap().len() < 16 * 1024);
    }
}
