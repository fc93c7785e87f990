//! What a worker may say of itself, and of others: rogue ones get no further than their token.

use crate::doors::{OPERATOR, OTHER, Sidecar, WORKER};
use crate::support::{Pool, id, registration};
use admission::id::Address;
use admission::message::{Advice, DenyReason, HeartbeatRequest, RegisterRequest};
use redis_sidecar::error::StoreError;

fn body(address: &str, rest: &str) -> String {
    format!(r#"{{"address": "{address}", "incarnation": "a"{rest}}}"#)
}

const W1: &str = "/v1/pools/demo/workers/w1";

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_token_is_for_its_pools_and_addresses() {
    let sidecar = Sidecar::start(|_| {}).await;
    let register = async |token, path: &str, address: &str| {
        sidecar
            .call(Some(token), "PUT", path, &body(address, ""))
            .await
    };
    assert_eq!(register(WORKER, W1, "10.1.2.3:80").await.status, 200);
    let elsewhere = "/v1/pools/next/workers/w1";
    for (path, address, named) in [
        (elsewhere, "10.1.2.3:80", "worker_tokens.pools"),
        (
            "/v1/pools/demo/workers/w2",
            "11.0.0.1:80",
            "worker_tokens.cidrs",
        ),
        (W1, "11.0.0.1:80", "worker_tokens.cidrs"),
    ] {
        let answer = register(WORKER, path, address).await;
        assert_eq!(
            (answer.status, &answer.body["error"]),
            (403, &"forbidden".into()),
            "{path}"
        );
        assert!(
            answer.body["message"].as_str().unwrap().contains(named),
            "{answer:?}"
        );
    }
    for verb in ["/heartbeat", "/drain"] {
        let path = format!("{elsewhere}{verb}");
        let answer = sidecar
            .call(Some(WORKER), "POST", &path, r#"{"incarnation": "a"}"#)
            .await;
        assert_eq!(answer.status, 403, "{verb}");
    }
    assert_eq!(
        sidecar
            .call(Some(WORKER), "DELETE", elsewhere, "")
            .await
            .status,
        403
    );
    assert_eq!(register(OTHER, elsewhere, "11.0.0.1:80").await.status, 200);
    assert!(
        sidecar
            .metric(r#"berth_refusals_total{reason="forbidden"} 6"#)
            .await
    );
    sidecar.server.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_worker_takes_anothers_name() {
    let sidecar = Sidecar::start(|_| {}).await;
    let call = async |token, method: &str, path: &str, body: &str| {
        sidecar.call(Some(token), method, path, body).await.status
    };
    let beat = r#"{"incarnation": "a"}"#;
    assert_eq!(call(WORKER, "PUT", W1, &body("10.0.0.1:80", "")).await, 200);
    assert_eq!(call(OTHER, "PUT", W1, &body("10.6.6.6:80", "")).await, 403);
    assert_eq!(
        call(OTHER, "POST", &format!("{W1}/heartbeat"), beat).await,
        403
    );
    assert_eq!(call(OTHER, "POST", &format!("{W1}/drain"), "").await, 403);
    assert_eq!(call(OTHER, "DELETE", W1, "").await, 403);
    let shown = sidecar
        .call(Some(OPERATOR), "GET", "/v1/pools/demo", "")
        .await;
    let worker = &shown.body["workers"][0];
    assert_eq!(
        (&worker["address"], &worker["state"]),
        (&"10.0.0.1:80".into(), &"available".into())
    );
    assert_eq!(
        call(WORKER, "POST", &format!("{W1}/heartbeat"), beat).await,
        200
    );
    assert_eq!(
        call(OPERATOR, "POST", &format!("{W1}/drain"), "").await,
        200
    );
    sidecar.server.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_worker_is_where_clients_must_not_get() {
    let sidecar = Sidecar::start(|settings| {
        settings.workers.refuse = vec!["10.0.0.5:9901".to_owned().try_into().unwrap()];
        settings.workers.weight_max = 10.0;
    })
    .await;
    let register = async |address: &str, rest: &str| {
        sidecar
            .call(Some(OTHER), "PUT", W1, &body(address, rest))
            .await
    };
    for address in [
        "127.0.0.1:80",
        "[::1]:80",
        "169.254.169.254:80",
        "224.0.0.1:80",
        "10.0.0.5:9901",
    ] {
        let answer = register(address, "").await;
        assert_eq!(answer.status, 403, "{address}");
        assert!(
            answer.body["message"]
                .as_str()
                .unwrap()
                .contains("workers."),
            "{answer:?}"
        );
    }
    for address in ["0.0.0.0:80", "10.0.0.5:0", "localhost:80"] {
        assert_eq!(register(address, "").await.status, 400, "{address}");
    }
    assert_eq!(
        register("10.0.0.5:80", r#", "weight": 10.5"#).await.status,
        400
    );
    assert_eq!(
        register("10.0.0.5:80", r#", "weight": 10"#).await.status,
        200
    );
    sidecar.server.end().await.unwrap();
}

#[tokio::test]
pub(crate) async fn a_name_stays_with_its_token_whatever_is_said() {
    let pool = Pool::with(|_| {}).await;
    let (owner, rogue) = (pool.store.speaker("team-a"), pool.store.speaker("team-b"));
    let request = registration("a", None, 1.0);
    let registered = owner.register(&pool.name, &id("w1"), &request).await;
    assert_eq!(registered.unwrap().advice, Advice::Serve);
    let elsewhere = RegisterRequest {
        address: Address::parse("10.6.6.6:80").unwrap(),
        ..registration("b", None, 1.0)
    };
    let beat = HeartbeatRequest {
        incarnation: request.incarnation.clone(),
        sessions: None,
        report: None,
    };
    let others = |result: Result<(), StoreError>| {
        assert!(
            matches!(result, Err(StoreError::OthersWorker { .. })),
            "{result:?}"
        );
    };
    others(
        rogue
            .register(&pool.name, &id("w1"), &elsewhere)
            .await
            .map(|_| ()),
    );
    others(
        rogue
            .heartbeat(&pool.name, &id("w1"), &beat)
            .await
            .map(|_| ()),
    );
    others(rogue.drain(&pool.name, &id("w1")).await.map(|_| ()));
    others(rogue.remove(&pool.name, &id("w1")).await.map(|_| ()));
    assert_eq!(pool.admit().await.address.to_string(), "10.0.0.1:80");
    // Also when it has left, as long as it is remembered.
    owner.remove(&pool.name, &id("w1")).await.unwrap();
    others(
        rogue
            .register(&pool.name, &id("w1"), &elsewhere)
            .await
            .map(|_| ()),
    );
}

#[tokio::test]
pub(crate) async fn no_worker_lowers_its_lifetime_by_what_it_says() {
    let pool = Pool::with(|policy| policy.max_lifetime = 3).await;
    pool.register("w1", "a").await;
    for _ in 0..3 {
        let lease = pool.admit().await.lease;
        pool.release(&lease).await;
    }
    let told = RegisterRequest {
        lifetime: Some(0),
        ..registration("a", None, 1.0)
    };
    let answer = pool.register_as("w1", &told).await;
    assert_eq!((answer.advice, answer.lifetime), (Advice::Recycle, 3));
    // Away, back, and as an earlier self: the life is the same.
    pool.store.remove(&pool.name, &id("w1")).await.unwrap();
    pool.register("w1", "b").await;
    let answer = pool.register_as("w1", &told).await;
    assert_eq!((answer.advice, answer.lifetime), (Advice::Recycle, 3));
    assert_eq!(pool.denied().await, DenyReason::NoWorker);
}

#[tokio::test]
async fn no_worker_has_more_places_than_its_pool_allows() {
    let pool = Pool::with(|policy| policy.max_concurrent = 2).await;
    pool.register_with("w1", "a", Some(u32::MAX)).await;
    pool.admit().await;
    pool.admit().await;
    assert_eq!(pool.denied().await, DenyReason::PoolFull);
}

#[tokio::test]
pub(crate) async fn a_pool_has_no_more_workers_than_it_may_have() {
    let pool = Pool::with(|policy| policy.workers_max = 2).await;
    pool.register("w1", "a").await;
    pool.register("w2", "a").await;
    let third = registration("a", None, 1.0);
    let refused = pool.store.register(&pool.name, &id("w3"), &third).await;
    assert!(
        matches!(refused, Err(StoreError::Crowded(_))),
        "{refused:?}"
    );
    assert_eq!(pool.register("w2", "b").await.advice, Advice::Serve);
}
