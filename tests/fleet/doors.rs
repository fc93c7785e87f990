//! Sidecars behind doors that ask who comes, as docs/listeners.md shows them.

use harness::http::{self, Target};
use harness::{Fleet, RunningFleet, eventually};
use serde_json::{Value, json};

/// One comes in, another finds no place, and the place is free again when the first has left.
async fn assert_in_service(fleet: &RunningFleet) {
    let mut session = fleet.client().websocket("/").await.admitted();
    assert!(session.echoes("hello").await);
    let refused = fleet.client().websocket("/").await.refused();
    assert_eq!(refused.reason.as_deref(), Some("pool_full"));
    session.close().await;
    fleet
        .sees("the place is free", |pool| pool.active == 0)
        .await;
    fleet
        .sees("a filter is present", |pool| pool.holders > 0)
        .await;
}

fn door(fleet: &RunningFleet) -> Target {
    fleet.sidecars[0].door()
}

#[tokio::test]
async fn envoy_and_sidecar_know_each_other_by_their_certificates() {
    let fleet = Fleet::new()
        .max_concurrent(1)
        .guarded("certificates")
        .up()
        .await;
    assert_in_service(&fleet).await;
    // Without a certificate there is no answer at all.
    assert!(http::get(&door(&fleet), "/healthz").await.is_err());
}

#[tokio::test]
async fn envoy_is_let_in_by_its_token() {
    let fleet = Fleet::new().max_concurrent(1).guarded("token").up().await;
    assert_in_service(&fleet).await;
    let metrics = fleet.api().metrics().await.unwrap();
    assert!(!metrics.contains("berth_unauthorized_total{"), "{metrics}");
}

#[tokio::test]
async fn a_token_that_is_not_known_yet_is_an_outage_until_it_is() {
    const NEXT: &str = "0123456789abcdef0123456789abcdef";
    let fleet = Fleet::new().max_concurrent(1).guarded("token");
    let fleet = fleet.filter(|filter| filter["sidecar_token"] = json!(NEXT));
    let fleet = fleet.up().await;
    let refused = fleet.client().websocket("/").await.refused();
    assert_eq!(
        (refused.status, refused.reason.as_deref()),
        (503, Some("outage"))
    );
    let metrics = fleet.api().metrics().await.unwrap();
    assert!(metrics.contains("berth_unauthorized_total{api=\"data\",reason=\"wrong_token\"}"));
    std::fs::write(fleet.file("filter.tokens"), NEXT).unwrap();
    eventually("the new token counts", async || fleet.admits(0).await).await;
    fleet
        .sees("the place is free", |pool| pool.active == 0)
        .await;
    assert_in_service(&fleet).await;
    let log = String::from_utf8_lossy(&fleet.sidecars[0].process.log()).into_owned();
    assert!(!log.contains(NEXT), "{log}");
}

#[tokio::test]
async fn workers_register_with_their_token() {
    let fleet = Fleet::new().max_concurrent(1).guarded("workers").up().await;
    assert_in_service(&fleet).await;
    let rogue = json!({"address": "127.0.0.1:1", "incarnation": "rogue"}).to_string();
    let path = "/v1/pools/demo/workers/worker-1";
    let answer = http::send_json(&door(&fleet), hyper::Method::PUT, path, rogue)
        .await
        .unwrap();
    let body: Value = serde_json::from_slice(answer.body()).unwrap();
    assert_eq!(
        (answer.status().as_u16(), &body["error"]),
        (401, &json!("unauthorized"))
    );
    let elsewhere = http::get(&door(&fleet), "/v1/pools").await.unwrap();
    assert_eq!(elsewhere.status(), 404, "this door is for workers");
}
