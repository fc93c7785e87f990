//! What this sidecar did at `/redis/atomic`. No key or owner is ever a label: both are the callers'.

use crate::atomic::Done;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabel {
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Default)]
pub(crate) struct Atomic {
    operations: Family<OperationLabel, Counter>,
    taken_back: Counter,
}

impl Atomic {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "atomic_operations",
            "Operations on counts and rates through this sidecar",
            self.operations.clone(),
        );
        registry.register(
            "atomic_taken_back",
            "Held by owners of counts that were not heard of in their time",
            self.taken_back.clone(),
        );
    }

    pub(crate) fn done(&self, operation: &'static str, done: &Done) {
        let outcome = done.outcome.as_str();
        let label = OperationLabel { operation, outcome };
        self.operations.get_or_create(&label).inc();
        self.taken_back.inc_by(done.taken_back);
    }
}
