//! What this sidecar has counted, and what the store tells of each pool, as OpenMetrics text.
//!
//! Labels are bounded: pools are those of the settings file, reasons and outcomes are fixed words,
//! workers and proxies are capped. No text of a client is ever a label.

use crate::view::{PoolHead, PoolPage, WorkerView};
use admission::id::{PoolName, ProxyId};
use admission::message::{AdmitAnswer, Observation, Release};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Workers shown one by one for each pool; larger pools are read from the API.
const WORKERS_MAX: usize = 200;
/// Proxies remembered. A fleet has tens; what is above is an error or an attack.
const PROXIES_MAX: usize = 1000;
/// A proxy that asked nothing for this long is no longer shown.
const PROXY_SILENCE_MAX: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabel {
    pool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    pool: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    pool: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    pool: String,
    kind: &'static str,
}

/// What `lua/lib/repair.lua` counts.
const REPAIRS: [&str; 9] = [
    "tombstoned",
    "reasserted",
    "renounced",
    "reclaimed_presence",
    "reclaimed_ttl",
    "quarantined",
    "freed_by_sessions",
    "rebuilds",
    "overcommitted",
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkerLabel {
    pool: String,
    worker: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProxyLabel {
    proxy_id: String,
}

type Histograms = Family<PoolLabel, Histogram>;

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    admissions: Family<PoolLabel, Counter>,
    denials: Family<ReasonLabel, Counter>,
    releases: Family<OutcomeLabel, Counter>,
    unheard: Family<PoolLabel, Counter>,
    store_errors: Counter,
    drift: Family<PoolLabel, Gauge>,
    decision_seconds: Histograms,
    handshake_seconds: Histograms,
    session_seconds: Histograms,
    proxies: Mutex<HashMap<ProxyId, Instant>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        // 0.1 ms to 1.6 s: a decision takes a millisecond, its budget ends at 250.
        let decision = || Histogram::new(exponential_buckets(0.0001, 2.0, 15));
        // 1 ms to 9 h: requests and sessions alike.
        let session = || Histogram::new(exponential_buckets(0.001, 4.0, 13));
        let mut metrics = Self {
            registry: Registry::default(),
            admissions: Family::default(),
            denials: Family::default(),
            releases: Family::default(),
            unheard: Family::default(),
            store_errors: Counter::default(),
            drift: Family::default(),
            decision_seconds: Family::new_with_constructor(decision),
            handshake_seconds: Family::new_with_constructor(session),
            session_seconds: Family::new_with_constructor(session),
            proxies: Mutex::default(),
        };
        let registry = &mut metrics.registry;
        let registry = registry.sub_registry_with_prefix("berth");
        registry.register(
            "admissions",
            "Leases given by this sidecar",
            metrics.admissions.clone(),
        );
        registry.register(
            "denials",
            "Leases denied by this sidecar",
            metrics.denials.clone(),
        );
        registry.register(
            "releases",
            "Leases ended through this sidecar",
            metrics.releases.clone(),
        );
        registry.register(
            "unheard",
            "Leases given back because nobody heard the answer",
            metrics.unheard.clone(),
        );
        registry.register(
            "store_errors",
            "Calls that Redis did not answer",
            metrics.store_errors.clone(),
        );
        registry.register(
            "drift",
            "How far a pool's kept figures were off at this sidecar's last audit",
            metrics.drift.clone(),
        );
        registry.register(
            "decision_seconds",
            "Time to decide, as this sidecar sees it",
            metrics.decision_seconds.clone(),
        );
        registry.register(
            "handshake_seconds",
            "Time from naming a worker to its response headers",
            metrics.handshake_seconds.clone(),
        );
        registry.register(
            "session_seconds",
            "Time from naming a worker to the end of the stream",
            metrics.session_seconds.clone(),
        );
        metrics
    }

    pub(crate) fn decided(&self, pool: &PoolName, answer: &AdmitAnswer, took: Duration) {
        let label = pool_label(pool);
        self.decision_seconds
            .get_or_create(&label)
            .observe(took.as_secs_f64());
        match answer {
            AdmitAnswer::Admitted(_) => {
                self.admissions.get_or_create(&label).inc();
            }
            AdmitAnswer::Denied(denied) => {
                let reason = denied.reason.as_str();
                let label = ReasonLabel {
                    pool: label.pool,
                    reason,
                };
                self.denials.get_or_create(&label).inc();
            }
        }
    }

    pub(crate) fn observed(&self, pool: &PoolName, seen: &Observation) {
        if let Some(us) = seen.handshake_us {
            let histogram = self.handshake_seconds.get_or_create(&pool_label(pool));
            histogram.observe(us as f64 / 1e6);
        }
    }

    pub(crate) fn released(&self, pool: &PoolName, release: &Release) {
        let label = pool_label(pool);
        let seconds = |us: u64| us as f64 / 1e6;
        if let Some(us) = release.handshake_us {
            self.handshake_seconds
                .get_or_create(&label)
                .observe(seconds(us));
        }
        if let Some(us) = release.session_us {
            self.session_seconds
                .get_or_create(&label)
                .observe(seconds(us));
        }
        let outcome = release.outcome.as_str();
        let label = OutcomeLabel {
            pool: label.pool,
            outcome,
        };
        self.releases.get_or_create(&label).inc();
    }

    pub(crate) fn unheard(&self, pool: &PoolName) {
        self.unheard.get_or_create(&pool_label(pool)).inc();
    }

    pub(crate) fn audited(&self, pool: &PoolName, drift: u64) {
        let gauge = self.drift.get_or_create(&pool_label(pool));
        gauge.set(drift as i64);
    }

    pub(crate) fn store_failed(&self) {
        self.store_errors.inc();
    }

    pub(crate) fn seen(&self, proxy: &ProxyId) {
        let mut proxies = self.proxies.lock().unwrap_or_else(|lock| lock.into_inner());
        if let Some(last) = proxies.get_mut(proxy) {
            *last = Instant::now();
        } else if proxies.len() < PROXIES_MAX {
            proxies.insert(proxy.clone(), Instant::now());
        }
    }

    /// The whole text: this sidecar's own figures, then each pool's as the store has them. The
    /// store's are the same from every sidecar: take one, do not add them up.
    pub(crate) fn encode(&self, pools: &[(PoolName, PoolPage)]) -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        text::encode_registry(&mut out, &self.registry)?;
        text::encode_registry(&mut out, &self.proxy_registry())?;
        text::encode_registry(&mut out, &pool_registry(pools))?;
        text::encode_eof(&mut out)?;
        Ok(out)
    }

    fn proxy_registry(&self) -> Registry {
        let instances = Family::<ProxyLabel, Gauge>::default();
        let mut proxies = self.proxies.lock().unwrap_or_else(|lock| lock.into_inner());
        proxies.retain(|_, last| last.elapsed() < PROXY_SILENCE_MAX);
        for proxy in proxies.keys() {
            let label = ProxyLabel {
                proxy_id: proxy.to_string(),
            };
            instances.get_or_create(&label).set(1);
        }
        let mut registry = Registry::default();
        let help = "Proxies that asked this sidecar lately";
        registry.register("websocket_proxy_instance", help, instances);
        registry
    }
}

fn pool_label(pool: &PoolName) -> PoolLabel {
    PoolLabel {
        pool: pool.to_string(),
    }
}

/// The figures that live in the store, in a registry made for one answer.
fn pool_registry(pools: &[(PoolName, PoolPage)]) -> Registry {
    let active = Family::<PoolLabel, Gauge>::default();
    let workers = Family::<KindLabel, Gauge>::default();
    let worker_active = Family::<WorkerLabel, Gauge>::default();
    let worker_lifetime = Family::<WorkerLabel, Gauge>::default();
    let worker_totals = WorkerTotals::default();
    let rejected = Family::<PoolLabel, Counter>::default();
    let recycles = Family::<PoolLabel, Counter>::default();
    let overlaps = Family::<PoolLabel, Counter>::default();
    let ejections = Family::<PoolLabel, Counter>::default();
    let holding = Holding::default();

    for (pool, page) in pools {
        let (label, head) = (pool_label(pool), &page.head);
        active.get_or_create(&label).set(head.active as i64);
        rejected
            .get_or_create(&label)
            .inc_by(head.rejected.values().sum());
        recycles.get_or_create(&label).inc_by(head.recycles_total);
        overlaps.get_or_create(&label).inc_by(head.overlaps_total);
        ejections.get_or_create(&label).inc_by(head.ejections_total);
        holding.add(&label, head);
        for (kind, count) in [
            ("fresh", head.fresh),
            ("open", head.open),
            ("at_limit", head.at_limit),
        ] {
            let label = KindLabel {
                pool: label.pool.clone(),
                kind,
            };
            workers.get_or_create(&label).set(count as i64);
        }
        for worker in page.workers.iter().take(WORKERS_MAX) {
            let label = WorkerLabel {
                pool: label.pool.clone(),
                worker: worker.worker.to_string(),
            };
            worker_active
                .get_or_create(&label)
                .set(worker.active as i64);
            worker_lifetime
                .get_or_create(&label)
                .set(worker.lifetime as i64);
            worker_totals.add(&label, worker);
        }
    }

    let mut registry = Registry::default();
    let help = "Leases now, in the whole fleet";
    registry.register("websocket_connections_active_total", help, active.clone());
    registry.register("berth_active", help, active);
    let help = "Leases denied, in the whole fleet";
    registry.register("websocket_connections_rejected", help, rejected.clone());
    registry.register("berth_rejected", help, rejected);
    registry.register("berth_workers", "Workers by kind", workers);
    registry.register(
        "berth_worker_active",
        "Leases of a worker now",
        worker_active,
    );
    let help = "Leases of a worker since it started";
    registry.register("berth_worker_lifetime", help, worker_lifetime);
    worker_totals.register(&mut registry);
    let help = "Workers that reached their lifetime limit";
    registry.register("berth_recycles", help, recycles);
    let help = "Workers that reached their limit while another was still at its own";
    registry.register("berth_recycle_overlaps", help, overlaps);
    registry.register(
        "berth_ejections",
        "Workers exiled because unreachable",
        ejections,
    );
    holding.register(&mut registry);
    registry
}

/// Who holds the leases, and what was put right.
#[derive(Default)]
struct Holding {
    repairs: Family<KindLabel, Counter>,
    holders: Family<PoolLabel, Gauge>,
    quarantined: Family<PoolLabel, Gauge>,
    rebuilding: Family<PoolLabel, Gauge>,
}

impl Holding {
    fn add(&self, label: &PoolLabel, head: &PoolHead) {
        for kind in REPAIRS {
            let count = head.repairs.get(kind).copied().unwrap_or(0);
            let label = KindLabel {
                pool: label.pool.clone(),
                kind,
            };
            self.repairs.get_or_create(&label).inc_by(count);
        }
        let set = |family: &Family<PoolLabel, Gauge>, value: u64| {
            family.get_or_create(label).set(value as i64);
        };
        set(&self.holders, head.holders);
        set(&self.quarantined, head.quarantined_holders);
        set(&self.rebuilding, u64::from(head.rebuilding));
    }

    fn register(self, registry: &mut Registry) {
        let help = "What was lost, late or forgotten, and put right, in the whole fleet";
        registry.register("berth_repairs", help, self.repairs);
        let help = "Filter VMs that are believed to hold their leases";
        registry.register("berth_holders", help, self.holders);
        let help = "Those of them that are present but silent";
        registry.register("berth_quarantined_holders", help, self.quarantined);
        let help = "1 while the pool waits for its holders to tell what they hold";
        registry.register("berth_rebuilding", help, self.rebuilding);
    }
}

/// What each worker has done, as far as its ended leases tell.
#[derive(Default)]
struct WorkerTotals {
    requests: Family<WorkerLabel, Counter>,
    errors: Family<WorkerLabel, Counter>,
    bytes_read: Family<WorkerLabel, Counter>,
    bytes_written: Family<WorkerLabel, Counter>,
    latency_mean: Family<WorkerLabel, Gauge<f64, AtomicU64>>,
}

impl WorkerTotals {
    fn add(&self, label: &WorkerLabel, worker: &WorkerView) {
        let count = |family: &Family<WorkerLabel, Counter>, total| {
            family.get_or_create(label).inc_by(total);
        };
        count(&self.requests, worker.requests_total);
        count(&self.errors, worker.errors_total);
        count(&self.bytes_read, worker.bytes_read_total);
        count(&self.bytes_written, worker.bytes_written_total);
        let mean = self.latency_mean.get_or_create(label);
        mean.set(worker.mean_ms / 1e3);
    }

    fn register(self, registry: &mut Registry) {
        let help = "Leases of a worker that ended";
        registry.register("berth_worker_requests", help, self.requests);
        let help = "Leases of a worker that ended badly: a 5xx, a reset, a timeout, no connection";
        registry.register("berth_worker_errors", help, self.errors);
        let help = "Bytes that clients sent to a worker";
        registry.register("berth_worker_bytes_read", help, self.bytes_read);
        let help = "Bytes that clients got from a worker";
        registry.register("berth_worker_bytes_written", help, self.bytes_written);
        let help = "Mean service time of a worker, of all that went well";
        registry.register("berth_worker_latency_mean_seconds", help, self.latency_mean);
    }
}
