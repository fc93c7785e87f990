//! Every place comes back, however its session ends.

use harness::api::PoolView;
use harness::client::UPGRADE;
use harness::{Fleet, Session, eventually};
use hyper::StatusCode;
use serde_json::json;

#[tokio::test]
async fn a_closed_session_gives_its_place_to_the_next_client() {
    let fleet = Fleet::new().max_concurrent(1).up().await;
    for _round in 1..=20 {
        let session = fleet.client().websocket("/").await.admitted();
        assert_eq!(fleet.client().websocket("/").await.refused().status, 503);
        session.close().await;
        fleet
            .sees("the place is free", |pool| pool.active == 0)
            .await;
    }
    assert_eq!(fleet.view().await.lifetimes(), 20);
    fleet.assert_consistent().await;
}

#[tokio::test]
async fn clients_that_vanish_without_a_goodbye_give_their_places_back() {
    let fleet = Fleet::new()
        .envoys(2)
        .workers(2)
        .max_concurrent(4)
        .up()
        .await;
    let sessions: Vec<Session> = fleet
        .websockets(8)
        .await
        .into_iter()
        .map(|visit| visit.admitted())
        .collect();
    assert_eq!(fleet.view().await.active, 8);
    drop(sessions);
    fleet
        .sees("all places are free", |pool| pool.active == 0)
        .await;
    assert_eq!(
        fleet.view().await.lifetimes(),
        8,
        "they were sessions all the same"
    );
}

#[tokio::test]
async fn a_client_that_leaves_before_the_answer_leaves_nothing_behind() {
    let fleet = Fleet::new()
        .impatient()
        .filter(|filter| {
            // The question must not be given up before the client leaves.
            filter["ask_timeout_ms"] = 60_000.into();
            filter["watchdog_ms"] = 60_000.into();
        })
        .up()
        .await;
    fleet.sidecars[0].process.freeze().await;
    let client = fleet.client().raw(UPGRADE).await.unwrap();
    let asked = async || {
        fleet.envoys[0]
            .stat("cluster.berth_sidecar.upstream_rq_active")
            .await
            > 0
    };
    eventually("the question is on its way", asked).await;
    drop(client);
    let gone = async || {
        fleet.envoys[0]
            .stat("http.ingress.downstream_rq_active")
            .await
            == 0
    };
    eventually("Envoy has noticed", gone).await;
    fleet.sidecars[0].process.thaw();
    // The sidecar answers in order: once this session is through, so is the question before it.
    fleet.client().websocket("/").await.admitted().close().await;
    let only_this = |pool: &PoolView| (pool.active, pool.lifetimes()) == (0, 1);
    fleet
        .sees("only the one that stayed was counted", only_this)
        .await;
}

#[tokio::test]
async fn a_client_that_leaves_while_the_worker_thinks_gives_place_and_lifetime_back() {
    let fleet = Fleet::new().max_concurrent(1).delay_ms(60_000).up().await;
    let client = fleet.client().raw(UPGRADE).await.unwrap();
    fleet
        .sees("a place is taken", |pool| {
            (pool.active, pool.lifetimes()) == (1, 1)
        })
        .await;
    eventually("the worker has the request", async || {
        fleet.workers[0].journal().opened_total() == 1
    })
    .await;
    drop(client);
    fleet
        .sees("place and lifetime are back", |pool| {
            (pool.active, pool.lifetimes()) == (0, 0)
        })
        .await;
}

#[tokio::test]
async fn a_failed_upgrade_gives_place_and_lifetime_back() {
    let fleet = Fleet::new().max_concurrent(1).up().await;
    for status in [
        StatusCode::FORBIDDEN,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::FOUND,
    ] {
        fleet.workers[0].fail_upgrades_with(Some(status));
        let refused = fleet.client().websocket("/").await.refused();
        assert_eq!(
            (refused.status, refused.reason),
            (status.as_u16(), None),
            "the worker's own word"
        );
        let back = |pool: &PoolView| (pool.active, pool.lifetimes()) == (0, 0);
        fleet.sees("place and lifetime are back", back).await;
    }
    fleet.workers[0].fail_upgrades_with(None);
    let _session = fleet.client().websocket("/").await.admitted();
    assert_eq!(fleet.view().await.lifetimes(), 1);
}

#[tokio::test]
async fn sessions_that_their_worker_cuts_give_their_places_back() {
    let fleet = Fleet::new().max_concurrent(3).up().await;
    let sessions: Vec<Session> = fleet
        .websockets(3)
        .await
        .into_iter()
        .map(|visit| visit.admitted())
        .collect();
    fleet.workers[0].stop_serving().await;
    fleet
        .sees("all places are free", |pool| pool.active == 0)
        .await;
    drop(sessions);
}

#[tokio::test]
async fn a_served_request_gives_its_place_back_and_keeps_its_lifetime() {
    let fleet = Fleet::new()
        .filter(|filter| filter["admit"] = json!("everything"))
        .up()
        .await;
    for served in 1..=10 {
        assert_eq!(fleet.client().get("/work").await.status(), 200);
        let counted = move |pool: &PoolView| (pool.active, pool.lifetimes()) == (0, served);
        fleet.sees("the request is counted once", counted).await;
    }
}
