use super::{Pool, Worker};
use crate::id::WorkerId;
use std::cmp::Reverse;

/// Highest lifetime outside the margin, or, if nobody is outside, highest lifetime of all. Ties go
/// to the lowest active, then to the least recently chosen, then to the lowest id.
pub(super) fn choose(pool: &Pool) -> Option<WorkerId> {
    let max_lifetime = u64::from(pool.policy.max_lifetime);
    let workers = u64::try_from(pool.workers.len()).ok()?;
    let margin = max_lifetime.checked_div(workers)?.max(1);
    let best = |candidates: &mut dyn Iterator<Item = (&WorkerId, &Worker)>| {
        candidates
            .filter(|(_, worker)| pool.may_be_chosen(worker))
            .min_by_key(|(id, worker)| {
                (
                    Reverse(worker.lifetime),
                    worker.active,
                    worker.chosen,
                    (*id).clone(),
                )
            })
            .map(|(id, _)| id.clone())
    };
    let outside = |worker: &Worker| worker.lifetime + margin < max_lifetime;
    best(&mut pool.workers.iter().filter(|(_, worker)| outside(worker)))
        .or_else(|| best(&mut pool.workers.iter()))
}
