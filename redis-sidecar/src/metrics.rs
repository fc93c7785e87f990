//! What this sidecar has counted, and what the store tells of each pool, as OpenMetrics text.
//!
//! Labels are bounded: pools are those of the settings file, reasons and outcomes are fixed words,
//! workers and proxies are capped. No text of a client is ever a label.

mod atomic;
pub(crate) mod doors;
mod pools;

use crate::store::{Store, Unfit};
use crate::view::PoolPage;
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
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

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
struct UnfitLabel {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProxyLabel {
    proxy_id: String,
}

/// A line that is counted.
#[derive(Debug)]
pub(crate) struct OpenLine(Gauge);

impl Drop for OpenLine {
    fn drop(&mut self) {
        self.0.dec();
    }
}

type Histograms = Family<PoolLabel, Histogram>;

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    admissions: Family<PoolLabel, Counter>,
    denials: Family<ReasonLabel, Counter>,
    redirects: Family<PoolLabel, Counter>,
    releases: Family<OutcomeLabel, Counter>,
    unheard: Family<PoolLabel, Counter>,
    lines: Gauge,
    store_errors: Counter,
    store_up: Gauge,
    store_losses: Counter,
    store_unfit: Family<UnfitLabel, Gauge>,
    drift: Family<PoolLabel, Gauge>,
    decision_seconds: Histograms,
    handshake_seconds: Histograms,
    session_seconds: Histograms,
    pub(crate) atomic: atomic::Atomic,
    pub(crate) doors: doors::Doors,
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
            redirects: Family::default(),
            releases: Family::default(),
            unheard: Family::default(),
            lines: Gauge::default(),
            store_errors: Counter::default(),
            store_up: Gauge::default(),
            store_losses: Counter::default(),
            store_unfit: Family::default(),
            drift: Family::default(),
            decision_seconds: Family::new_with_constructor(decision),
            handshake_seconds: Family::new_with_constructor(session),
            session_seconds: Family::new_with_constructor(session),
            atomic: atomic::Atomic::default(),
            doors: doors::Doors::default(),
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
            "redirects",
            "Clients that this sidecar sent to another worker",
            metrics.redirects.clone(),
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
            "store_up",
            "Whether this sidecar is connected to Redis",
            metrics.store_up.clone(),
        );
        registry.register(
            "lines",
            "Filter VMs that ask by a call that stays open",
            metrics.lines.clone(),
        );
        registry.register(
            "store_losses",
            "How often this sidecar lost Redis",
            metrics.store_losses.clone(),
        );
        registry.register(
            "store_unfit",
            "1 while nobody is admitted because Redis is none to keep leases in",
            metrics.store_unfit.clone(),
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
        metrics.atomic.register(registry);
        metrics.doors.register(registry);
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
            AdmitAnswer::Redirected(_) => {
                self.redirects.get_or_create(&label).inc();
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

    /// Counted until what this returns is dropped.
    pub(crate) fn line_opened(&self) -> OpenLine {
        self.lines.inc();
        OpenLine(self.lines.clone())
    }

    /// The store counts for itself; here it is only told.
    pub(crate) fn store_seen(&self, store: &Store) {
        self.store_up.set(i64::from(store.is_up()));
        let losses = self.store_losses.inner();
        losses.store(store.losses(), Ordering::Relaxed);
        let unfit = store.unfit(None).map(|unfit| unfit.reason());
        for reason in Unfit::REASONS {
            let gauge = self.store_unfit.get_or_create(&UnfitLabel { reason });
            gauge.set(i64::from(unfit == Some(reason)));
        }
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
        text::encode_registry(&mut out, &pools::registry(pools))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_proxies_are_claimed_few_become_labels() {
        let metrics = Metrics::new();
        for number in 0..3 * PROXIES_MAX {
            let proxy = ProxyId::parse(&format!("proxy-{number}")).unwrap();
            metrics.seen(&proxy);
        }
        let text = metrics.encode(&[]).unwrap();
        let labels = text.matches("websocket_proxy_instance{").count();
        assert_eq!(labels, PROXIES_MAX);
    }
}
