//! Rows 5 and 18: clients leave at any moment, alone or all at once.

use harness::api::PoolView;
use harness::client::UPGRADE;
use harness::{Fleet, Promise, RunningFleet, eventually};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

async fn envoy_has(fleet: &RunningFleet, requests: u64) {
    let what = format!("Envoy has {requests} requests");
    eventually(&what, async || {
        let active = fleet.envoys[0].stat("http.ingress.downstream_rq_active");
        active.await == requests
    })
    .await;
}

/// Nothing of the client that left is kept, and the next one is the first that counts.
async fn assert_nothing_is_left(fleet: &RunningFleet, moment: &'static str, left: Instant) {
    let empty = |pool: &PoolView| (pool.active, pool.lifetimes()) == (0, 0);
    let promise = Promise::new(5, moment, 1000);
    let gone = async || fleet.api().view().await.is_ok_and(|view| empty(&view));
    promise.kept_since(left, gone).await;
    let lasting = Duration::from_secs(1);
    fleet.stays(lasting, "nothing comes late", empty).await;
}

#[tokio::test]
async fn a_client_that_leaves_before_its_admit_is_answered_leaves_nothing() {
    const LATE: Duration = Duration::from_millis(300);
    let fleet = Fleet::new().sidecars_through_proxy().up().await;
    fleet.sidecar_links[0].delay(LATE);
    let client = fleet.client().raw(UPGRADE).await.unwrap();
    envoy_has(&fleet, 1).await;
    drop(client);
    let left = Instant::now();
    envoy_has(&fleet, 0).await;
    // The question is still on its way, and so is the release that follows it.
    tokio::time::sleep(2 * LATE).await;
    assert_nothing_is_left(&fleet, "client left before the answer (300 ms late)", left).await;
}

#[tokio::test]
async fn a_client_that_leaves_when_it_is_admitted_leaves_nothing() {
    let fleet = Fleet::new().delay_ms(60_000).up().await;
    let client = fleet.client().raw(UPGRADE).await.unwrap();
    fleet.sees("it is in", |pool| pool.active == 1).await;
    drop(client);
    assert_nothing_is_left(&fleet, "client left after the answer", Instant::now()).await;
}

#[tokio::test]
async fn a_client_that_leaves_in_its_handshake_leaves_nothing() {
    let fleet = Fleet::new().up().await;
    let mut client = fleet.client().raw(&UPGRADE[..40]).await.unwrap();
    client.flush().await.unwrap();
    envoy_accepted(&fleet).await;
    drop(client);
    assert_nothing_is_left(&fleet, "client left in its handshake", Instant::now()).await;
}

async fn envoy_accepted(fleet: &RunningFleet) {
    eventually("Envoy has the connection", async || {
        fleet.envoys[0]
            .stat("http.ingress.downstream_cx_active")
            .await
            == 1
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_after_its_101_gives_its_place_back() {
    let fleet = Fleet::new().up().await;
    let session = fleet.client().websocket("/").await.admitted();
    drop(session);
    let promise = Promise::new(5, "client left after its 101", 1000);
    let gone = async || fleet.is_exact(0).await;
    promise.kept_since(Instant::now(), gone).await;
    assert_eq!(fleet.view().await.lifetimes(), 1);
}

#[cfg(not(feature = "full"))]
const CROWD: usize = 1000;
#[cfg(feature = "full")]
const CROWD: usize = 5000;

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_leaves_at_once_and_comes_again_finds_every_place() {
    let fleet = Fleet::new().as_shipped().envoys(2).workers(4);
    let fleet = fleet.max_concurrent(CROWD as u32 / 4).up().await;
    let sessions = fleet.sessions(CROWD).await;
    let start = Instant::now();
    drop(sessions);
    // One beat is 3.6 s at most, and its answer may ask for a list, which is the next beat.
    let promise = Promise::new(18, "everyone leaves at once: places free", 4000);
    let all_back = async || fleet.is_exact(0).await;
    promise.kept_since(start, all_back).await;
    let start = Instant::now();
    let sessions = fleet.sessions(CROWD).await;
    Promise::new(18, "everyone comes again", 20_000).kept_in(start.elapsed());
    assert!(fleet.is_exact(CROWD).await);
    fleet.assert_consistent().await;
    drop(sessions);
}

/// Many at once, each at another moment of its handshake.
#[tokio::test]
async fn clients_that_leave_at_any_moment_leave_nothing() {
    let fleet = Fleet::new().max_concurrent(50).delay_ms(20).up().await;
    let leaving = (0..100_u64).map(|number| {
        let client = fleet.client();
        async move {
            let stream: TcpStream = client.raw(UPGRADE).await.unwrap();
            // The moments are the point: 0 to 50 ms into the handshake.
            tokio::time::sleep(Duration::from_micros(500 * number)).await;
            drop(stream);
        }
    });
    futures_util::future::join_all(leaving).await;
    let promise = Promise::new(5, "100 clients left at 100 moments", 1000);
    let gone = async || fleet.is_exact(0).await;
    promise.kept_since(Instant::now(), gone).await;
    fleet.assert_consistent().await;
}
