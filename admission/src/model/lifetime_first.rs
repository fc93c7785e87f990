use super::{Pool, Worker};
use crate::id::WorkerId;
use std::cmp::Reverse;

/// Highest lifetime outside the margin, or, if nobody is outside, highest lifetime of all; then
/// lowest active.
pub(super) fn choose(pool: &Pool) -> Option<WorkerId> {
    let max_lifetime = u64::from(pool.policy.max_lifetime);
    let workers = u64::try_from(pool.workers.len()).ok()?;
    let margin = max_lifetime.checked_div(workers)?.max(1);
    let cost = |worker: &Worker| (Reverse(worker.lifetime), worker.active);
    let outside = |worker: &Worker| worker.lifetime + margin < max_lifetime;
    pool.lowest(|worker| outside(worker).then(|| cost(worker)))
        .or_else(|| pool.lowest(|worker| Some(cost(worker))))
}
