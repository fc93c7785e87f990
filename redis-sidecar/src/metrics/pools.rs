//! The figures that live in the store.

use super::{PoolLabel, pool_label};
use crate::view::{PoolHead, PoolPage, WorkerView};
use admission::id::PoolName;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

/// Workers shown one by one for each pool; larger pools are read from the API.
const WORKERS_MAX: usize = 200;

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
struct KindLabel {
    pool: String,
    kind: &'static str,
}

/// A limit's name is a setting's, never a client's word.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    pool: String,
    limit: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkerLabel {
    pool: String,
    worker: String,
}

/// A registry made for one answer.
pub(super) fn registry(pools: &[(PoolName, PoolPage)]) -> Registry {
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
    let watching = Watching::default();

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
        watching.add(&label, head);
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
    watching.register(&mut registry);
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

/// Limits that are only watched, and how many clients and keys are kept.
#[derive(Default)]
struct Watching {
    shadowed: Family<LimitLabel, Counter>,
    clients: Family<PoolLabel, Gauge>,
    bindings: Family<PoolLabel, Gauge>,
    unbound: Family<PoolLabel, Counter>,
    decisions: Family<PoolLabel, Counter>,
    differed: Family<PoolLabel, Counter>,
}

impl Watching {
    fn add(&self, label: &PoolLabel, head: &PoolHead) {
        for (limit, count) in &head.shadowed {
            let label = LimitLabel {
                pool: label.pool.clone(),
                limit: limit.clone(),
            };
            self.shadowed.get_or_create(&label).inc_by(*count);
        }
        let clients = head.clients.max(head.client_rates);
        self.clients.get_or_create(label).set(clients as i64);
        (self.bindings.get_or_create(label)).set(head.bindings as i64);
        (self.unbound.get_or_create(label)).inc_by(head.unbound_total);
        (self.decisions.get_or_create(label)).inc_by(head.shadow_decisions_total);
        (self.differed.get_or_create(label)).inc_by(head.shadow_differed_total);
    }

    fn register(self, registry: &mut Registry) {
        let help = "Requests that a limit which is only watched would have denied";
        registry.register("berth_shadow_denials", help, self.shadowed);
        let help = "Clients that are told apart now";
        registry.register("berth_clients", help, self.clients);
        let help = "Affinity keys that are bound to a worker now";
        registry.register("berth_bindings", help, self.bindings);
        let help = "Affinity keys that were not bound because affinity.keys_max are";
        registry.register("berth_unbound", help, self.unbound);
        let help = "Decisions that the strategy in the shadow saw";
        registry.register("berth_shadow_decisions", help, self.decisions);
        let help = "Those of them in which it would have chosen another worker";
        registry.register("berth_shadow_differences", help, self.differed);
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
        let help = "Bytes that clients sent to a worker, without headers";
        registry.register("berth_worker_bytes_read", help, self.bytes_read);
        let help = "Bytes that clients got from a worker, without headers";
        registry.register("berth_worker_bytes_written", help, self.bytes_written);
        let help = "Mean service time of a worker, of all that went well";
        registry.register("berth_worker_latency_mean_seconds", help, self.latency_mean);
    }
}
