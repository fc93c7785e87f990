use super::Pool;
use crate::id::WorkerId;

/// The least recently chosen.
pub(super) fn choose(pool: &Pool) -> Option<WorkerId> {
    pool.lowest(|worker| Some(worker.chosen))
}
