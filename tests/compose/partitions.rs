//! Real partitions: a container is taken out of a network and put back where it was. Nobody is told.

use harness::{Compose, Fault, Link, Promise, Raised, close_all, eventually, scenario};
use std::time::{Duration, Instant};

const SESSIONS: usize = 20;

/// The spare takes over, and nothing is lost, while the cut lasts longer than a holder is believed without it.
#[tokio::test]
async fn an_envoy_cut_off_from_its_sidecar_and_a_sidecar_cut_off_from_redis_cost_nobody_a_place() {
    let mut fleet = Compose::new().workers(2).max_concurrent(100).up().await;
    let mut sessions = fleet.sessions_of(0, SESSIONS).await;
    for (name, link) in [
        (
            "compose: Envoy cut off from its sidecar",
            Link::ToSidecar(0),
        ),
        ("compose: sidecar cut off from Redis", Link::ToRedis(0)),
    ] {
        let (fault, lasting) = (Fault::Cut(link), Duration::from_secs(18));
        let promise = Promise::new(7, name, 2000);
        scenario::spare_serves(&mut fleet, fault, lasting, (promise, &mut sessions)).await;
        fleet.heal(fault).await;
        fleet.all_well().await;
    }
    fleet.assert_unharmed(sessions).await;
}

/// Whoever is sent to it cannot get there: it is ejected, and the other worker serves. Its sessions
/// are there when it is back, and hold their places all the while.
#[tokio::test]
async fn a_worker_cut_off_from_everyone_is_left_alone_and_keeps_its_sessions() {
    let mut fleet = Compose::new().workers(2).max_concurrent(20).up().await;
    // By the pool's strategy all of them are with one worker, and so would be the next.
    let sessions = fleet.sessions(10).await;
    let worker = fleet.worker_named(&sessions[0].worker);
    let fault = Fault::Cut(Link::OfWorker(worker));
    let start = Instant::now();
    fleet.harm(fault).await;
    let promise = Promise::new(17, "compose: worker cut off, the other serves", 3000);
    let served = async || fleet.admits(0).await;
    promise.kept_since(start, served).await;
    let lasting = Duration::from_secs(5);
    fleet
        .stays(lasting, "its sessions hold their places", |pool| {
            pool.active >= 10
        })
        .await;
    fleet.heal(fault).await;
    let start = Instant::now();
    let promise = Promise::new(17, "compose: worker no longer cut off", 3000);
    // The first who is sent to it shows that it is back.
    let serves = async || fleet.admits(0).await && fleet.view().await.available() == 2;
    promise.kept_since(start, serves).await;
    fleet.assert_unharmed(sessions).await;
    let all = fleet.sessions(40).await;
    eventually("every place is taken", async || fleet.is_exact(40).await).await;
    close_all(all).await;
    fleet.assert_consistent().await;
}
