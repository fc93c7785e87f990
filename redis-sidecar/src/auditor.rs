//! Counts every pool anew from time to time. A figure that is off is a bug, and is told by a metric.

use crate::error::StoreError;
use crate::metrics::Metrics;
use crate::store::{Store, is_light_audit};
use admission::id::PoolName;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// Runs until it is aborted.
pub(crate) async fn run(store: Store, metrics: Arc<Metrics>, every: Duration) {
    let mut rounds = tokio::time::interval(every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    rounds.tick().await; // at the start there is nothing to count yet
    loop {
        rounds.tick().await;
        for pool in store.pools() {
            if let Err(error) = audit(&store, &metrics, pool).await {
                tracing::debug!(%pool, %error, "no audit this time");
            }
        }
    }
}

async fn audit(store: &Store, metrics: &Metrics, pool: &PoolName) -> Result<(), StoreError> {
    let head = store.view_page(pool, "0").await?.head;
    if !is_light_audit(head.active, head.fresh) {
        return Ok(());
    }
    let found = store.audit(pool).await?;
    metrics.audited(pool, found.total());
    if found.total() > 0 {
        tracing::warn!(%pool, drift = ?found.drift, "the pool's figures are off");
    }
    Ok(())
}
