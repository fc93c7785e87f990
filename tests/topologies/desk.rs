//! Whoever asks the store: a pool with one worker, and one holder.

use admission::id::{Address, Epoch, HolderId, Incarnation, LeaseId, PoolName, WorkerId};
use admission::message::{AdmitAnswer, AdmitRequest, DenyReason, RegisterRequest, Release};
use admission::policy::{Policy, Strategy};
use harness::eventually;
use harness::redis::Redis;
use harness::wait::{DEADLINE, holds_within};
use redis_sidecar::error::StoreError;
use redis_sidecar::settings::RedisSettings;
use redis_sidecar::store::Store;
use redis_sidecar::view::PoolView;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use tempfile::NamedTempFile;

/// How many sessions the worker may have.
pub(super) const PLACES: u32 = 5;

pub(super) struct Desk {
    pub(super) store: Store,
    pub(super) pool: PoolName,
    holder: HolderId,
    minted: AtomicU64,
}

/// More patient than what is shipped: a busy machine must not look like an outage.
pub(super) const TIMEOUT_MS: u64 = 1000;

pub(super) fn at(url: String) -> RedisSettings {
    RedisSettings {
        url,
        timeout_ms: TIMEOUT_MS,
        ..RedisSettings::default()
    }
}

/// The same as the user that `berth acl` describes, on all these servers.
pub(super) async fn guarded<'a>(
    settings: RedisSettings,
    servers: impl IntoIterator<Item = &'a Redis>,
) -> (RedisSettings, NamedTempFile) {
    const PASSWORD: &str = "sesame";
    let line = redis_sidecar::acl::line(&settings).expect("a line");
    let line = line.replace("user berth", "ACL SETUSER berth");
    let line = line.replace("PASSWORD", PASSWORD);
    for server in servers {
        server.told(&line).await;
    }
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), PASSWORD).expect("a password");
    let settings = RedisSettings {
        user: Some("berth".into()),
        password_file: Some(file.path().into()),
        ..settings
    };
    (settings, file)
}

impl Desk {
    /// A pool that has its worker and admits.
    pub(super) async fn open(redis: &RedisSettings) -> Self {
        Self::with_places(redis, PLACES).await
    }

    /// The same with so many places.
    pub(super) async fn with_places(redis: &RedisSettings, places: u32) -> Self {
        /// Each desk is a holder of its own.
        static DESKS: AtomicU8 = AtomicU8::new(0);
        let pool = PoolName::parse("demo").expect("a pool name");
        let policy = Policy {
            strategy: Strategy::LeastConnections,
            max_concurrent: places,
            ..Policy::default()
        };
        let pools = BTreeMap::from([(pool.clone(), policy)]);
        let number = DESKS.fetch_add(1, Ordering::Relaxed);
        let epoch = Epoch::from_random([number; 16]);
        let desk = Self {
            store: Store::start(redis, pools).expect("a store"),
            pool,
            holder: HolderId::parse(&format!("desk/{epoch}")).expect("a holder"),
            minted: AtomicU64::new(0),
        };
        desk.settled().await;
        desk
    }

    /// Waits until the worker is known and places are given, or refused for want of them.
    pub(super) async fn settled(&self) {
        let mut last = String::new();
        let decides = holds_within(DEADLINE, async || match self.register().await {
            Ok(()) => self.decides().await,
            Err(error) => {
                last = error.to_string();
                false
            }
        });
        let decides = decides.await;
        assert!(decides, "the pool does not decide; last refused: {last}");
    }

    async fn register(&self) -> Result<(), StoreError> {
        let request = RegisterRequest {
            address: Address::parse("10.0.0.1:80").expect("an address"),
            incarnation: Incarnation::parse("a").expect("an incarnation"),
            max_concurrent: None,
            weight: 1.0,
            lifetime: None,
            origin: None,
        };
        let worker = WorkerId::parse("w1").expect("a worker id");
        let told = self.store.register(&self.pool, &worker, &request).await;
        told.map(|_| ())
    }

    /// Comes and leaves.
    pub(super) async fn decides(&self) -> bool {
        let lease = self.mint();
        let decided = match self.ask(&lease).await {
            Ok(AdmitAnswer::Admitted(_)) => true,
            Ok(AdmitAnswer::Denied(denied)) => denied.reason == DenyReason::PoolFull,
            _ => false,
        };
        // What had no answer may have been given.
        let release = [Release::unused(lease)];
        let released = self.store.release(&self.pool, &self.holder.epoch, &release);
        released.await.is_ok() && decided
    }

    pub(super) fn mint(&self) -> LeaseId {
        LeaseId {
            epoch: self.holder.epoch.clone(),
            seq: self.minted.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }

    pub(super) async fn ask(&self, lease: &LeaseId) -> Result<AdmitAnswer, StoreError> {
        let request = AdmitRequest::new(self.pool.clone(), self.holder.clone(), lease.clone());
        self.store.admit(&request).await
    }

    /// Asks until there is an answer: the same lease is never given twice.
    async fn answer(&self, lease: &LeaseId) -> AdmitAnswer {
        let mut answer = None;
        eventually("there is an answer", async || {
            answer = self.ask(lease).await.ok();
            answer.is_some()
        })
        .await;
        answer.expect("an answer")
    }

    /// Takes so many places.
    pub(super) async fn take(&self, count: u32) {
        for _ in 0..count {
            let answer = self.answer(&self.mint()).await;
            let admitted = matches!(answer, AdmitAnswer::Admitted(_));
            assert!(admitted, "not admitted: {answer:?}");
        }
    }

    async fn view(&self) -> PoolView {
        let mut view = None;
        eventually("there is a view", async || {
            view = self.store.view(&self.pool).await.ok();
            view.is_some()
        })
        .await;
        view.expect("a view")
    }

    pub(super) async fn active(&self) -> u64 {
        self.view().await.head.active
    }

    /// How often Redis was given up.
    pub(super) fn losses(&self) -> u64 {
        self.store.losses()
    }

    pub(super) async fn rebuilds(&self) -> u64 {
        let repairs = self.view().await.head.repairs;
        repairs.get("rebuilds").copied().unwrap_or(0)
    }

    /// Whoever was refused has left nothing behind.
    pub(super) async fn assert_none_left_over(&self, taken: u64) {
        eventually("only those who were admitted have places", async || {
            self.active().await == taken
        })
        .await;
    }

    /// So many places are taken, everything agrees, and not one more than there are is given.
    pub(super) async fn assert_exact(&self, taken: u32) {
        assert_eq!(self.active().await, u64::from(taken));
        let found = self.store.audit(&self.pool).await.expect("an audit");
        assert_eq!(found.total(), 0, "{found:?}");
        self.take(PLACES - taken).await;
        match self.answer(&self.mint()).await {
            AdmitAnswer::Denied(denied) => assert_eq!(denied.reason, DenyReason::PoolFull),
            answer => panic!("one too many: {answer:?}"),
        }
    }
}
