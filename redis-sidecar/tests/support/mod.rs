//! A private Redis for each test, and a pool that reads like a story.

mod api;
mod clock;
mod redis;
pub(crate) mod server;
mod vm;

pub(crate) use api::Api;
pub(crate) use clock::Clock;
pub(crate) use redis::Redis;
pub(crate) use vm::Vm;

use admission::id::{Address, Epoch, HolderId, Incarnation, LeaseId, PoolName, WorkerId};
use admission::message::{
    AdmitAnswer, AdmitRequest, Admitted, DenyReason, HeartbeatRequest, LoadReport, Observation,
    RegisterRequest, Release, ReleaseAnswer, Use, WorkerAnswer,
};
use admission::outcome::Outcome;
use admission::policy::{Policy, Strategy};
use redis_sidecar::explain::{ExplainRequest, Explanation};
use redis_sidecar::library::{Library, VERBS};
use redis_sidecar::settings::RedisSettings;
use redis_sidecar::store::Store;
use redis_sidecar::view::{PoolView, WorkerView};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Generous: a busy machine must not make a test fail.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The dice of every pool start from here, so that a failing test fails again.
pub(crate) const SEED: u32 = 20_261_116;

thread_local! {
    /// What stands for what in the scripts of the test that runs on this thread.
    static MUTATION: Cell<Option<(&'static str, &'static str)>> = const { Cell::new(None) };
}

/// Runs tests with a part of the scripts replaced.
pub(crate) fn mutated<T>(with: &'static str, without: &'static str, tests: impl Fn() -> T) -> T {
    MUTATION.set(Some((with, without)));
    let result = tests();
    MUTATION.set(None);
    result
}

pub(crate) fn library() -> Library {
    let library = Library::new(&VERBS);
    let Some((with, without)) = MUTATION.get() else {
        return library;
    };
    match library.edited(with, without) {
        Some(edited) => edited,
        // Not a panic, which would be taken for a test that noticed.
        None => {
            eprintln!("the scripts must have this once: {with}");
            std::process::exit(1);
        }
    }
}

/// A pool with its own Redis, asked through a holder of its own.
pub(crate) struct Pool {
    pub(crate) redis: Redis,
    pub(crate) store: Store,
    pub(crate) name: PoolName,
    pub(crate) holder: HolderId,
    pub(crate) minted: AtomicU64,
}

impl Pool {
    pub(crate) async fn with(adjust: impl FnOnce(&mut Policy)) -> Self {
        let mut policy = default_policy();
        adjust(&mut policy);
        policy.validate().expect("a valid policy");
        let redis = Redis::start();
        let name = PoolName::parse("demo").expect("a pool name");
        let pools = BTreeMap::from([(name.clone(), policy)]);
        let pool = Self {
            store: Store::start_with(&redis.settings(), pools, library()).expect("a store"),
            redis,
            name,
            holder: holder(1),
            minted: AtomicU64::new(0),
        };
        let policy = pool
            .store
            .policy(&pool.name)
            .expect("the pool's policy")
            .clone();
        eventually(async || {
            let applied = pool.store.apply_seeded(&pool.name, &policy, SEED).await;
            applied.is_ok()
        })
        .await;
        pool
    }

    /// Another sidecar's store on the same Redis.
    pub(crate) async fn second_store(&self) -> Store {
        self.store_with(|_| {}).await
    }

    /// Another store on the same Redis, with settings of its own.
    pub(crate) async fn store_with(&self, adjust: impl FnOnce(&mut RedisSettings)) -> Store {
        let mut settings = self.redis.settings();
        adjust(&mut settings);
        let store = Store::start_with(&settings, BTreeMap::new(), library()).expect("a store");
        eventually(async || store.is_up()).await;
        store
    }

    pub(crate) fn mint(&self) -> LeaseId {
        LeaseId {
            epoch: self.holder.epoch.clone(),
            seq: self.minted.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }

    pub(crate) async fn register(&self, worker: &str, incarnation: &str) -> WorkerAnswer {
        self.register_with(worker, incarnation, None).await
    }

    pub(crate) async fn register_with(
        &self,
        worker: &str,
        incarnation: &str,
        max_concurrent: Option<u32>,
    ) -> WorkerAnswer {
        let request = registration(incarnation, max_concurrent, 1.0);
        self.register_as(worker, &request).await
    }

    pub(crate) async fn register_as(
        &self,
        worker: &str,
        request: &RegisterRequest,
    ) -> WorkerAnswer {
        let answer = self.store.register(&self.name, &id(worker), request).await;
        answer.expect("a registration")
    }

    pub(crate) async fn heartbeat(&self, worker: &str, incarnation: &str) -> WorkerAnswer {
        self.report(worker, incarnation, None).await
    }

    /// A heartbeat, perhaps with a load report.
    pub(crate) async fn report(
        &self,
        worker: &str,
        incarnation: &str,
        report: Option<LoadReport>,
    ) -> WorkerAnswer {
        let request = HeartbeatRequest {
            incarnation: Incarnation::parse(incarnation).expect("an incarnation"),
            report,
            sessions: None,
        };
        let answer = self
            .store
            .heartbeat(&self.name, &id(worker), &request)
            .await;
        answer.expect("a heartbeat's answer")
    }

    pub(crate) fn question(&self, lease: &LeaseId) -> AdmitRequest {
        AdmitRequest::new(self.name.clone(), self.holder.clone(), lease.clone())
    }

    pub(crate) async fn ask(&self, lease: &LeaseId) -> AdmitAnswer {
        self.store
            .admit(&self.question(lease))
            .await
            .expect("a decision")
    }

    /// Asks for a new lease and must get it.
    pub(crate) async fn admit(&self) -> Admitted {
        match self.ask(&self.mint()).await {
            AdmitAnswer::Admitted(admitted) => admitted,
            answer => panic!("not admitted: {answer:?}"),
        }
    }

    /// Asks for a new lease and must not get it.
    pub(crate) async fn denied(&self) -> DenyReason {
        match self.ask(&self.mint()).await {
            AdmitAnswer::Denied(denied) => denied.reason,
            answer => panic!("not denied: {answer:?}"),
        }
    }

    pub(crate) async fn release(&self, lease: &LeaseId) -> ReleaseAnswer {
        self.release_as(lease, Use::Used, Outcome::Success).await
    }

    pub(crate) async fn release_as(
        &self,
        lease: &LeaseId,
        r#use: Use,
        outcome: Outcome,
    ) -> ReleaseAnswer {
        self.release_with(ended(lease, r#use, outcome)).await
    }

    /// The end of a plain request that was served in this time.
    pub(crate) async fn served(&self, lease: &LeaseId, us: u64) -> ReleaseAnswer {
        self.release_with(Release {
            handshake_us: Some(us),
            session_us: Some(us),
            bytes_read: 1,
            bytes_written: 2,
            ..ended(lease, Use::Used, Outcome::Success)
        })
        .await
    }

    pub(crate) async fn release_with(&self, release: Release) -> ReleaseAnswer {
        let epoch = &self.holder.epoch;
        let held = self.store.release(&self.name, epoch, &[release]).await;
        ReleaseAnswer::of(&held.expect("a release"))
    }

    pub(crate) async fn observe(&self, lease: &LeaseId, outcome: Outcome) {
        self.observe_in(lease, outcome, None).await;
    }

    pub(crate) async fn observe_in(
        &self,
        lease: &LeaseId,
        outcome: Outcome,
        handshake_us: Option<u64>,
    ) {
        let observation = Observation {
            lease: lease.clone(),
            outcome,
            handshake_us,
        };
        let answer = self
            .store
            .observe(&self.name, &self.holder.epoch, &[observation])
            .await;
        answer.expect("an observation");
    }

    /// Admits a request of which something is known.
    pub(crate) async fn admit_for(&self, adjust: impl FnOnce(&mut AdmitRequest)) -> Admitted {
        let mut question = self.question(&self.mint());
        adjust(&mut question);
        match self.store.admit(&question).await.expect("a decision") {
            AdmitAnswer::Admitted(admitted) => admitted,
            answer => panic!("not admitted: {answer:?}"),
        }
    }

    pub(crate) async fn explain(&self, request: &ExplainRequest) -> Explanation {
        let answer = self.store.explain(&self.name, request).await;
        answer.expect("an explanation")
    }

    pub(crate) async fn clock(&self) -> Clock {
        Clock::of(&self.redis, &self.name).await
    }

    pub(crate) async fn reap(&self) {
        self.store.reap(&self.name).await.expect("a round");
    }

    /// One round of a reaper: what is due by the passing of time, holders included.
    pub(crate) async fn look_after(&self) {
        let reaped = self.store.reap(&self.name).await.expect("a round");
        for epoch in &reaped.due {
            let looked = self.store.reclaim(&self.name, epoch).await;
            looked.expect("a look at a holder");
        }
    }

    /// Repairs of this kind so far.
    pub(crate) async fn repairs(&self, kind: &str) -> u64 {
        let repairs = self.view().await.head.repairs;
        repairs.get(kind).copied().unwrap_or(0)
    }

    /// Every kept figure agrees with the leases.
    pub(crate) async fn assert_no_drift(&self) {
        let found = self.store.audit(&self.name).await.expect("an audit");
        assert_eq!(found.total(), 0, "{found:?}");
    }

    /// Calls a verb as no sidecar would: late, or with an old beat.
    pub(crate) async fn call(&self, verb: &str, holder: &HolderId, args: &[&str]) -> Vec<String> {
        self.try_call(verb, holder, args).await.expect("a reply")
    }

    /// The same with what a verb refuses; nothing has changed then.
    pub(crate) async fn breaks(&self, verb: &str, args: &[&str]) {
        let before = self.redis.digest().await;
        let reply = self.try_call(verb, &holder(200), args).await;
        assert!(reply.is_err(), "{reply:?}");
        assert_eq!(self.redis.digest().await, before, "half obeyed");
    }

    async fn try_call(
        &self,
        verb: &str,
        holder: &HolderId,
        args: &[&str],
    ) -> ::redis::RedisResult<Vec<String>> {
        let keys = redis_sidecar::pool_keys(&self.name);
        let mut command = ::redis::cmd("FCALL");
        command
            .arg(library().function(verb))
            .arg(keys.len() + 1)
            .arg(&keys[..])
            .arg(format!("ws:{{{}}}:holder:{}", self.name, holder.epoch))
            .arg(args)
            .arg(self.redis.run_id().await);
        let mut connection = self.redis.connection().await;
        command.query_async(&mut connection).await
    }

    /// Redis has lost everything; the pool is made anew.
    pub(crate) async fn wipe(&self) {
        self.redis.command(&["FLUSHALL"]).await;
        let policy = self.store.policy(&self.name).expect("a policy").clone();
        let applied = self.store.apply_seeded(&self.name, &policy, SEED).await;
        applied.expect("a policy");
    }

    pub(crate) async fn view(&self) -> PoolView {
        self.store.view(&self.name).await.expect("a view")
    }

    pub(crate) async fn worker(&self, worker: &str) -> WorkerView {
        let view = self.view().await;
        let found = view
            .workers
            .into_iter()
            .find(|shown| shown.worker == id(worker));
        found.expect("a known worker")
    }
}

/// The strategy that is the same every time, with no limit that a test does not set.
pub(crate) fn default_policy() -> Policy {
    Policy {
        strategy: Strategy::LifetimeFirst,
        max_lifetime: 100,
        // A pool would first wait for holders that a test does not have.
        rebuild_ms: 0,
        ..Policy::default()
    }
}

pub(crate) fn id(worker: &str) -> WorkerId {
    WorkerId::parse(worker).expect("a worker id")
}

/// A lease's end of which nothing else is known.
pub(crate) fn ended(lease: &LeaseId, r#use: Use, outcome: Outcome) -> Release {
    Release {
        r#use,
        outcome,
        ..Release::unused(lease.clone())
    }
}

pub(crate) fn registration(
    incarnation: &str,
    max_concurrent: Option<u32>,
    weight: f64,
) -> RegisterRequest {
    RegisterRequest {
        address: Address::parse("10.0.0.1:80").expect("an address"),
        incarnation: Incarnation::parse(incarnation).expect("an incarnation"),
        max_concurrent,
        weight,
        lifetime: None,
        origin: None,
    }
}

pub(crate) fn holder(number: u8) -> HolderId {
    let epoch = Epoch::from_random([number; 16]);
    HolderId::parse(&format!("envoy-{number}/{epoch}")).expect("a holder")
}

/// How far counts are from these chances: see a table for how far they may be.
pub(crate) fn chi_square(counts: &BTreeMap<String, f64>, chances: &[(&str, f64)]) -> f64 {
    let draws: f64 = counts.values().sum();
    let total: f64 = chances.iter().map(|(_, chance)| chance).sum();
    (chances.iter())
        .map(|(worker, chance)| {
            let expected = draws * chance / total;
            let seen = counts.get(*worker).copied().unwrap_or(0.0);
            (seen - expected).powi(2) / expected
        })
        .sum()
}

/// Waits until the condition holds.
pub(crate) async fn eventually(condition: impl AsyncFn() -> bool) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < DEADLINE, "the condition never held");
        tokio::time::sleep(Duration::from_millis(5)).await; // allow: the pause between two looks
    }
}
