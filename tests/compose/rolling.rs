//! What operators do every day, while clients come and go: more workers, fewer, and new containers for old.

use harness::load::Attempt;
use harness::{Compose, ComposeFleet, Load, Part};
use std::time::Duration;

/// For as long as what is done takes, and some more.
const LOAD: Load = Load {
    sessions: 250,
    every: Duration::from_millis(100),
    session: Duration::from_millis(500),
};

async fn fleet(workers: usize) -> ComposeFleet {
    Compose::new()
        .workers(workers)
        .max_concurrent(10)
        .up()
        .await
}

/// Drives the load while something is done; what became of each session.
async fn under_load(fleet: &ComposeFleet, what: impl AsyncFnOnce()) -> Vec<Attempt> {
    let (attempts, ()) = tokio::join!(LOAD.drive(fleet), what());
    fleet
        .sees("all places are free", |pool| pool.active == 0)
        .await;
    fleet.assert_consistent().await;
    assert_eq!(fleet.open_at_workers(), 0);
    attempts
}

fn refused(attempts: &[Attempt]) -> usize {
    attempts
        .iter()
        .filter(|attempt| attempt.refused.is_some())
        .count()
}

/// Nobody is refused for what was done. That questions took too long, on a machine that starts and ends
/// containers meanwhile, happens to few.
fn assert_nobody_paid(attempts: &[Attempt]) {
    let refusals = attempts.iter().filter_map(|it| it.refused.as_ref());
    let late = refusals
        .inspect(|it| assert_eq!(it.reason.as_deref(), Some("outage"), "{it:?}"))
        .count();
    eprintln!("{late} of {} were answered too late", attempts.len());
    assert!(late * 20 <= attempts.len(), "{attempts:?}");
}

#[tokio::test]
async fn workers_come_and_go_under_load_and_nobody_is_refused() {
    let fleet = fleet(2).await;
    let attempts = under_load(&fleet, async || {
        fleet.scale(5).await;
        fleet.all_workers().await;
        fleet.scale(2).await;
        fleet.all_workers().await;
    })
    .await;
    assert_nobody_paid(&attempts);
}

/// The spare serves meanwhile; a request of the moment in which nobody has noticed yet may be refused.
#[tokio::test]
async fn sidecars_are_replaced_one_after_the_other_under_load() {
    let fleet = fleet(3).await;
    let attempts = under_load(&fleet, async || {
        for sidecar in [0, 1] {
            fleet.replace(Part::Sidecar(sidecar)).await;
            fleet.all_well().await;
        }
    })
    .await;
    let refused = refused(&attempts);
    eprintln!(
        "rolling restart of the sidecars: {refused} of {} refused",
        attempts.len()
    );
    assert!(refused * 10 <= attempts.len(), "{attempts:?}");
    assert_eq!(fleet.view().await.reclaimed(), 0);
}

/// Clients of the Envoy that is replaced go to the other, as behind any load balancer.
#[tokio::test]
async fn envoys_are_replaced_one_after_the_other_under_load() {
    let fleet = fleet(3).await;
    for envoy in [0, 1] {
        let other = [fleet.clients[1 - envoy]];
        let replaced = async || {
            fleet.replace(Part::Envoy(envoy)).await;
            fleet.all_well().await;
        };
        let (attempts, ()) = tokio::join!(LOAD.drive_through(&other), replaced());
        assert_nobody_paid(&attempts);
    }
    fleet
        .sees("all places are free", |pool| pool.active == 0)
        .await;
    fleet.assert_consistent().await;
}
