//! Row 17: a worker dies and comes back as another incarnation.

use harness::{Fault, Fleet, Part, Promise, close_all, scenario};

#[tokio::test]
async fn a_worker_that_dies_gives_its_places_back_and_starts_anew() {
    let mut fleet = Fleet::new().as_shipped().max_concurrent(10).up().await;
    let _cut = fleet.sessions(10).await;
    let promise = Promise::new(17, "worker died, new incarnation serves", 3000);
    let fault = Fault::Killed(Part::Worker(0));
    scenario::worker_starts_anew(&mut fleet, fault, promise).await;
    let sessions = fleet.sessions(10).await;
    fleet
        .sees("only the new ones hold places", |pool| pool.active == 10)
        .await;
    let lifetime = fleet.view().await.lifetimes();
    assert!((10..=12).contains(&lifetime), "{lifetime} in this life");
    close_all(sessions).await;
    fleet.assert_consistent().await;
}

/// The first Envoy stands still, so that the old leases are still there when the new worker comes.
#[tokio::test]
async fn late_releases_of_a_dead_worker_s_sessions_free_nothing_of_the_next() {
    let fleet = Fleet::new().as_shipped().envoys(2).max_concurrent(5);
    let mut fleet = fleet.up().await;
    let old = fleet.sessions_of(0, 5).await;
    fleet.envoys[0].process.freeze().await;
    let life = fleet.view().await.workers[0].incarnation.clone();
    fleet.workers[0].start_again().await.unwrap();
    fleet
        .sees("a new life, with nothing of the old", |pool| {
            let worker = &pool.workers[0];
            worker.incarnation != life && worker.lifetime == 0
        })
        .await;
    let new = fleet.sessions_of(1, 3).await;
    fleet.envoys[0].process.thaw();
    drop(old);
    fleet
        .sees("only the new ones hold places", |pool| {
            pool.active == 3 && pool.workers[0].active == 3
        })
        .await;
    assert_eq!(fleet.view().await.workers[0].lifetime, 3);
    let more = fleet.sessions(2).await;
    fleet.assert_full(0).await;
    fleet.assert_consistent().await;
    drop((new, more));
}
