use super::Pool;
use crate::id::WorkerId;

/// Whose clock rings first.
pub(super) fn choose(pool: &Pool) -> Option<WorkerId> {
    pool.lowest(|worker| Some(worker.clock))
}
