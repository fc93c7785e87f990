//! Looks after the pools when nobody asks. Every sidecar does it, none leads: the work is done by
//! whoever comes first and costs the others one short script.

use crate::error::StoreError;
use crate::presence::Presences;
use crate::store::Store;
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tracing::warn;

/// Runs until it is aborted.
pub async fn run(store: Store, presences: Presences, every: Duration) {
    let mut rounds = tokio::time::interval(every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        rounds.tick().await;
        let result = reap_all(&store, &presences).await;
        match &result {
            // The link has told of the outage already.
            Ok(()) => {}
            Err(error) if error.is_outage() => {}
            Err(error) if !failing => warn!(%error, "cannot look after the pools"),
            Err(_) => {}
        }
        failing = result.is_err();
    }
}

async fn reap_all(store: &Store, presences: &Presences) -> Result<(), StoreError> {
    // One that fails must not keep the others from being looked after.
    let mut result = Ok(());
    for pool in store.pools() {
        let reaped = match store.reap(pool).await {
            Ok(reaped) => reaped,
            Err(error) => {
                result = Err(error);
                continue;
            }
        };
        if let Some(rebuild) = reaped.rebuild {
            presences.hear_of_rebuild(pool, rebuild);
        }
        for epoch in &reaped.due {
            if let Err(error) = store.reclaim(pool, epoch).await {
                result = Err(error);
            }
        }
    }
    result
}
