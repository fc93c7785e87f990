//! The sidecar's HTTP interface, as operators and workers see it.

use crate::http::{self, Answer, Failure, Target};
use admission::id::{Epoch, HolderId, LeaseId, PoolName, ProxyId, WorkerId};
use admission::message::{
    ADMIT_PATH, AdmitAnswer, AdmitRequest, BATCH_MAX, HeartbeatRequest, RELEASE_PATH, RENEW_PATH,
    RegisterRequest, Release, ReleaseAnswer, ReleaseRequest, RenewAnswer, RenewRequest, Use,
    WorkerAnswer,
};
use admission::policy::Policy;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::{Method, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub struct Api {
    target: Target,
    pool: PoolName,
    token: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct PoolView {
    pub pool: PoolName,
    pub policy: Policy,
    pub policy_version: u64,
    pub active: u64,
    pub workers: Vec<WorkerView>,
    /// Workers that have reached their lifetime limit and not restarted yet.
    pub at_limit: u64,
    pub overlaps_total: u64,
    pub recycles_total: u64,
    pub ejections_total: u64,
    pub rejected: BTreeMap<String, u64>,
    /// What was put right, by what it was.
    #[serde(default)]
    pub repairs: BTreeMap<String, u64>,
    #[serde(default)]
    pub holders: u64,
    #[serde(default)]
    pub quarantined_holders: u64,
    /// The store waits for the holders to tell what they hold.
    #[serde(default)]
    pub rebuilding: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub struct WorkerView {
    pub worker: WorkerId,
    pub address: String,
    pub incarnation: String,
    pub state: WorkerState,
    pub active: u64,
    pub lifetime: u64,
    pub heartbeat_age_ms: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerState {
    Available,
    Draining,
    Recycling,
    Ejected,
    Absent,
    Removed,
}

impl PoolView {
    pub fn worker(&self, id: &str) -> Option<&WorkerView> {
        self.workers
            .iter()
            .find(|worker| worker.worker.as_str() == id)
    }

    pub fn state(&self, id: &str) -> Option<WorkerState> {
        self.worker(id).map(|worker| worker.state)
    }

    pub fn available(&self) -> usize {
        let available = |worker: &&WorkerView| worker.state == WorkerState::Available;
        self.workers.iter().filter(available).count()
    }

    /// Denials since the pool began, whatever the reason.
    pub fn refused(&self) -> u64 {
        self.rejected.values().sum()
    }

    /// How often this was put right.
    pub fn repaired(&self, what: &str) -> u64 {
        self.repairs.get(what).copied().unwrap_or_default()
    }

    /// Places that were taken from a holder because it seemed to be gone.
    pub fn reclaimed(&self) -> u64 {
        self.repaired("reclaimed_presence") + self.repaired("reclaimed_ttl")
    }

    /// Lifetimes of all workers together.
    pub fn lifetimes(&self) -> u64 {
        self.workers.iter().map(|worker| worker.lifetime).sum()
    }
}

impl Api {
    pub fn new(target: Target, pool: PoolName) -> Self {
        Self {
            target,
            pool,
            token: None,
        }
    }

    /// For a sidecar that asks for one.
    pub fn with_token(self, token: Option<String>) -> Self {
        Self { token, ..self }
    }

    async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.send(Method::GET, path, String::new()).await
    }

    async fn send(&self, method: Method, path: &str, body: String) -> Result<Answer, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        http::send(&self.target, request.body(http::Body::from(body))?).await
    }

    pub async fn is_ready(&self) -> bool {
        let answer = self.get("/readyz").await;
        answer.is_ok_and(|answer| answer.status() == 200)
    }

    pub async fn view(&self) -> Result<PoolView, Failure> {
        let path = format!("/v1/pools/{}", self.pool);
        json(self.get(&path).await?)
    }

    /// Who holds what.
    pub async fn leases(&self) -> Result<Vec<Value>, Failure> {
        let path = format!("/v1/pools/{}/leases", self.pool);
        json(self.get(&path).await?)
    }

    /// Drift between what the store counts and what it has.
    pub async fn audit(&self) -> Result<Value, Failure> {
        let path = format!("/v1/pools/{}/audit", self.pool);
        json(self.get(&path).await?)
    }

    pub async fn renew(&self, request: &RenewRequest) -> Result<RenewAnswer, Failure> {
        let body = serde_json::to_string(request)?;
        json(self.send(Method::POST, RENEW_PATH, body).await?)
    }

    /// Replaces the pool's whole policy; the answer is the new one's version.
    pub async fn set_policy(&self, policy: &Policy) -> Result<u64, Failure> {
        #[derive(Deserialize)]
        struct Applied {
            version: u64,
        }
        let path = format!("/v1/pools/{}/policy", self.pool);
        let body = serde_json::to_string(policy)?;
        let answer = self.send(Method::PUT, &path, body).await?;
        Ok(json::<Applied>(answer)?.version)
    }

    pub async fn metrics(&self) -> Result<String, Failure> {
        let answer = self.get("/metrics").await?;
        Ok(String::from_utf8(answer.into_body().to_vec())?)
    }

    /// What a proxy asks that exists in the test only.
    pub fn question(&self, seq: u64) -> AdmitRequest {
        let holder = test_holder();
        let lease = LeaseId {
            epoch: holder.epoch.clone(),
            seq,
        };
        AdmitRequest::new(self.pool.clone(), holder, lease)
    }

    pub async fn admit(&self, request: &AdmitRequest) -> Result<AdmitAnswer, Failure> {
        let body = serde_json::to_string(request)?;
        json(self.send(Method::POST, ADMIT_PATH, body).await?)
    }

    pub async fn release(&self, request: &ReleaseRequest) -> Result<ReleaseAnswer, Failure> {
        let body = serde_json::to_string(request)?;
        json(self.send(Method::POST, RELEASE_PATH, body).await?)
    }

    /// Gives back what the test's own proxy was given.
    pub async fn give_back(&self, leases: &[LeaseId], r#use: Use) -> Result<(), Failure> {
        let release = |lease: &LeaseId| Release {
            r#use,
            ..Release::unused(lease.clone())
        };
        for batch in leases.chunks(BATCH_MAX) {
            let request = ReleaseRequest {
                pool: self.pool.clone(),
                holder: test_holder(),
                releases: batch.iter().map(release).collect(),
            };
            self.release(&request).await?;
        }
        Ok(())
    }

    pub async fn register(
        &self,
        worker: &WorkerId,
        request: &RegisterRequest,
    ) -> Result<WorkerAnswer, Failure> {
        let body = serde_json::to_string(request)?;
        json(self.send(Method::PUT, &self.path(worker, ""), body).await?)
    }

    pub async fn heartbeat(
        &self,
        worker: &WorkerId,
        request: &HeartbeatRequest,
    ) -> Result<WorkerAnswer, Failure> {
        let path = self.path(worker, "/heartbeat");
        let body = serde_json::to_string(request)?;
        json(self.send(Method::POST, &path, body).await?)
    }

    pub async fn drain(&self, worker: &WorkerId) -> Result<(), Failure> {
        let path = self.path(worker, "/drain");
        expect_success(&self.send(Method::POST, &path, String::new()).await?)
    }

    pub async fn remove(&self, worker: &WorkerId) -> Result<(), Failure> {
        let path = self.path(worker, "");
        expect_success(&self.send(Method::DELETE, &path, String::new()).await?)
    }

    fn path(&self, worker: &WorkerId, verb: &str) -> String {
        format!("/v1/pools/{}/workers/{worker}{verb}", self.pool)
    }
}

pub fn test_holder() -> HolderId {
    HolderId {
        proxy: ProxyId::parse("test").expect("a proxy's name"),
        epoch: Epoch::from_random([7; 16]),
    }
}

fn expect_success(answer: &Answer) -> Result<(), Failure> {
    if answer.status().is_success() {
        return Ok(());
    }
    let body = String::from_utf8_lossy(answer.body());
    Err(format!("{}: {body}", answer.status()).into())
}

fn json<T: DeserializeOwned>(answer: Answer) -> Result<T, Failure> {
    expect_success(&answer)?;
    let body = answer.into_body();
    serde_json::from_slice(&body)
        .map_err(|error| format!("{error} in {}", String::from_utf8_lossy(&body)).into())
}
