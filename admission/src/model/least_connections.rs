use super::Pool;
use crate::id::WorkerId;

/// The fewest leases for its weight.
pub(super) fn choose(pool: &Pool) -> Option<WorkerId> {
    pool.lowest(|worker| Some(worker.active as f64 / worker.weight))
}
