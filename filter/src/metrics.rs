//! The filter's own figures, in Envoy's /stats under `wasmcustom.berth.`. Several VMs share each of
//! them, so a gauge is only ever moved by differences. What every request changes is added up here, and Envoy is
//! told by the root, now and then.

use crate::host;
use admission::holder::News;
use admission::message::DenyReason;
use admission::reply::Refusal;
use std::cell::Cell;

type Metric = Option<u32>;

pub(crate) struct Metrics {
    admitted: Metric,
    /// Not told yet.
    more_admitted: Cell<i64>,
    more_active: Cell<i64>,
    denied: Vec<(DenyReason, Metric)>,
    outages: Metric,
    overdue: Metric,
    too_many_hops: Metric,
    redirected: Metric,
    unbound: Metric,
    active: Metric,
    dropped: Metric,
    closed: Metric,
    fallback: Metric,
    reused: Metric,
    outage: Metric,
    outage_begins: Metric,
}

impl Metrics {
    pub(crate) fn define() -> Self {
        let denied = |reason: DenyReason| {
            let name = format!("berth.denied.{}", reason.as_str());
            (reason, host::define_counter(&name))
        };
        Self {
            admitted: host::define_counter("berth.admitted"),
            more_admitted: Cell::new(0),
            more_active: Cell::new(0),
            denied: DenyReason::ALL.into_iter().map(denied).collect(),
            outages: host::define_counter("berth.outages"),
            overdue: host::define_counter("berth.overdue"),
            too_many_hops: host::define_counter("berth.too_many_hops"),
            redirected: host::define_counter("berth.redirected"),
            unbound: host::define_counter("berth.unbound"),
            active: host::define_gauge("berth.active"),
            dropped: host::define_counter("berth.dropped"),
            closed: host::define_counter("berth.closed"),
            fallback: host::define_counter("berth.fallback"),
            reused: host::define_counter("berth.reused"),
            outage: host::define_gauge("berth.outage"),
            outage_begins: host::define_counter("berth.outage_begins"),
        }
    }

    pub(crate) fn admitted(&self) {
        let more = self.more_admitted.get().saturating_add(1);
        self.more_admitted.set(more);
    }

    /// Tells Envoy what was added up.
    pub(crate) fn tell(&self) {
        for (metric, more) in [
            (self.admitted, self.more_admitted.take()),
            (self.active, self.more_active.take()),
        ] {
            if more != 0 {
                host::add_to_metric(metric, more);
            }
        }
    }

    pub(crate) fn refused(&self, refusal: Refusal) {
        let metric = match refusal {
            Refusal::Denied { reason, .. } => (self.denied.iter())
                .find(|(known, _)| *known == reason)
                .and_then(|(_, metric)| *metric),
            Refusal::Outage => self.outages,
            Refusal::Overdue => self.overdue,
            Refusal::TooManyHops => self.too_many_hops,
        };
        host::add_to_metric(metric, 1);
    }

    pub(crate) fn redirected(&self) {
        host::add_to_metric(self.redirected, 1);
    }

    pub(crate) fn unbound(&self) {
        host::add_to_metric(self.unbound, 1);
    }

    /// Places taken or given back.
    pub(crate) fn hold(&self, difference: i64) {
        let more = self.more_active.get().saturating_add(difference);
        self.more_active.set(more);
    }

    /// A session that was ended because its lease was lost.
    pub(crate) fn closed(&self) {
        host::add_to_metric(self.closed, 1);
    }

    /// A request that went on without a lease.
    pub(crate) fn fell_back(&self) {
        host::add_to_metric(self.fallback, 1);
    }

    /// A place that was taken again, while nobody could be asked.
    pub(crate) fn reused(&self) {
        host::add_to_metric(self.reused, 1);
    }

    pub(crate) fn outage(&self, news: News) {
        match news {
            News::Begun => {
                host::add_to_metric(self.outage, 1);
                host::add_to_metric(self.outage_begins, 1);
            }
            News::Over(_) => host::add_to_metric(self.outage, -1),
        }
    }

    /// News that will never reach the sidecar.
    pub(crate) fn dropped(&self, count: usize) {
        if count > 0 {
            host::add_to_metric(self.dropped, i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}
