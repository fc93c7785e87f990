//! The JSON that filter, workers and operators exchange with the sidecar, and the paths it goes to.

mod group;
mod line;
mod load;
mod renew;

pub use group::{
    ADMIT_GROUP_PATH, AdmitGroupAnswer, AdmitGroupRequest, Answer, Decision, GROUP_MAX, Question,
};
pub use line::{
    HolderWord, LINE_CALLS_MAX, LINE_METHOD, LINE_PATH, LINE_SERVICE, LineAnswer, LineCall,
};
pub use load::{LoadReport, ServingStatus};
pub use renew::{
    HOLDER_HEADER, Held, POOL_HEADER, PRESENCE_HEADER, PRESENCE_PATH, Place, RENEW_PATH,
    RenewAnswer, RenewRequest, UNDER_WAY_MAX, Verdict, mix,
};

use crate::id::{Address, HolderId, Incarnation, KeyHash, LeaseId, Origin, PoolName, WorkerId};
use crate::outcome::Outcome;
use serde::{Deserialize, Serialize};

pub const ADMIT_PATH: &str = "/v1/admit";
pub const RELEASE_PATH: &str = "/v1/release";
pub const OBSERVE_PATH: &str = "/v1/observe";
pub const BIND_PATH: &str = "/v1/bind";

/// Every answer of a sidecar carries this header. Envoy's own 503 and 504 look like an answer
/// otherwise, and would be taken for one.
pub const SIDECAR_HEADER: &str = "x-berth";
pub const SIDECAR_HEADER_VALUE: &str = "1";

/// How many releases or observations one call may carry: a body stays below 20 KiB and a script
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// The worker that the request stands on: it keeps the request if it can.
    #[serde(rename = "self", default, skip_serializing_if = "Option::is_none")]
    pub own: Option<WorkerId>,
    /// Another worker than `self` is not to be routed to: its clients go there themselves.
    #[serde(default, skip_serializing_if = "is_false")]
    pub redirect: bool,
    /// Whom the request is counted for. The sidecar keeps no more of it than a hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<AffinityRequest>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The key by which a request finds the worker of those before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AffinityRequest {
    pub key: String,
    /// A key that is not bound yet is bound to the worker that is chosen.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bind: bool,
}

/// What of a client key or an affinity key is sent; the rest of a longer one is not looked at.
pub const KEY_BYTES_MAX: usize = 1024;

impl AdmitRequest {
    /// A request of which nothing is known.
    pub fn new(pool: PoolName, holder: HolderId, lease: LeaseId) -> Self {
        Self {
            pool,
            holder,
            lease,
            bytes: None,
            operation: None,
            own: None,
            redirect: false,
            client: None,
            affinity: None,
        }
    }
}

/// What a request will do on its worker, for the strategy that weighs operations differently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Reads, and is over soon.
    #[default]
    Query,
    /// Writes.
    Execute,
    /// Opens a transaction that stays on its worker.
    Begin,
}

impl Operation {
    pub const ALL: [Self; 3] = [Self::Query, Self::Execute, Self::Begin];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Execute => "execute",
            Self::Begin => "begin",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum AdmitAnswer {
    Admitted(Admitted),
    Denied(Denied),
    /// No lease was taken: the client is to ask the worker that was chosen.
    Redirected(Redirected),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admitted {
    pub worker: WorkerId,
    /// The life of the worker that the lease is on.
    pub incarnation: Incarnation,
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
    /// Whom the lease is counted for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<KeyHash>,
    /// The affinity key that it came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<KeyHash>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirected {
    pub worker: WorkerId,
    /// Where its clients reach it.
    pub origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denied {
    pub reason: DenyReason,
    pub retry_after_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenyReason {
    /// The pool, or this client, asked more often than it may.
    RateLimited,
    /// The client has as many leases as it may have.
    ClientLimit,
    /// Workers there are, but none has room.
    PoolFull,
    /// No worker could serve even if all were idle: none registered, fresh, and in service.
    NoWorker,
    /// The worker that the request is bound to is gone, or its key is bound to none.
    AffinityLost,
    /// The lease had ended before its admit arrived.
    Cancelled,
    /// The store lost its data and waits for the holders to tell what they hold.
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
    /// From naming the worker to its response headers, of a plain request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_us: Option<u64>,
    /// The same of an upgrade. Its observation has told it, unless this release overtook it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_us: Option<u64>,
    /// From naming the worker to the stream's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_us: Option<u64>,
    /// What the client sent, and what it got, without headers.
    #[serde(default)]
    pub bytes_read: u64,
    #[serde(default)]
    pub bytes_written: u64,
    /// The affinity key that ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unbind: Option<KeyHash>,
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
            upgrade_us: None,
            session_us: None,
            bytes_read: 0,
            bytes_written: 0,
            unbind: None,
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

/// Binds a key that a worker's answer carries to that worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BindRequest {
    pub pool: PoolName,
    pub holder: HolderId,
    /// A lease on the worker.
    pub lease: LeaseId,
    pub key: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindAnswer {
    /// Not when the lease is no longer held, or as many keys are bound as may be.
    pub bound: bool,
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
    /// Its lifetime as it was last told: a store that lost its data learns it from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<u64>,
    /// Where clients reach it themselves, when they are sent there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    pub incarnation: Incarnation,
    /// Sessions it has now. Leases of holders that are present but silent are freed above this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u64>,
    /// What the worker says about its load; the strategy `score` chooses by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<LoadReport>,
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

/// The word of a sidecar that has as much to do as it may.
pub const OVERLOADED: &str = "overloaded";

/// The body of every answer that is not a 2xx.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// A fixed word for programs.
    pub error: String,
    /// A sentence for people.
    pub message: String,
}

#[cfg(test)]
mod tests;
