//! A Redis that is none to keep leases in: found out, told, and taken back once it is put right.

use crate::support::{Pool, eventually};
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use redis_sidecar::error::StoreError;
use redis_sidecar::{App, app};
use std::time::Duration;
use tower::ServiceExt;

/// Status and body.
async fn get(pool: &Pool, path: &str) -> (u16, String) {
    let router = app(App::new(pool.store.clone(), Duration::from_secs(10)));
    let request = Request::get(path).body(Body::empty()).expect("a request");
    let response = router.oneshot(request).await.expect("an answer");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body");
    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    (status, body)
}

async fn told(pool: &Pool, words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    pool.redis.command(&words).await;
}

#[tokio::test]
async fn a_redis_that_may_evict_admits_nobody_until_it_is_put_right() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let held = pool.admit().await;
    told(&pool, "CONFIG SET maxmemory-policy allkeys-lru").await;
    eventually(async || get(&pool, "/readyz").await.0 == 503).await;
    let (_, body) = get(&pool, "/readyz").await;
    for part in ["store_unfit", "allkeys-lru", "maxmemory-policy noeviction"] {
        assert!(body.contains(part), "{body}");
    }
    let refused = pool.store.admit(&pool.question(&pool.mint())).await;
    assert!(matches!(refused, Err(StoreError::Unfit(_))), "{refused:?}");
    let (_, metrics) = get(&pool, "/metrics").await;
    assert!(metrics.contains("berth_store_unfit{reason=\"evicts\"} 1"));
    // What is given back is taken.
    assert_eq!(pool.release(&held.lease).await.released, 1);
    told(&pool, "CONFIG SET maxmemory-policy noeviction").await;
    eventually(async || get(&pool, "/readyz").await.0 == 200).await;
    pool.admit().await;
    let (_, metrics) = get(&pool, "/metrics").await;
    assert!(metrics.contains("berth_store_unfit{reason=\"evicts\"} 0"));
}

#[tokio::test]
async fn a_primary_that_becomes_a_replica_is_left_until_it_is_one_no_more() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    told(&pool, "REPLICAOF 127.0.0.1 1").await;
    eventually(async || {
        let (status, body) = get(&pool, "/readyz").await;
        status == 503 && body.contains("a replica of 127.0.0.1:1")
    })
    .await;
    let (_, metrics) = get(&pool, "/metrics").await;
    assert!(metrics.contains("berth_store_unfit{reason=\"replica\"} 1"));
    told(&pool, "REPLICAOF NO ONE").await;
    eventually(async || pool.store.is_up()).await;
    assert_eq!(get(&pool, "/readyz").await.0, 200);
    pool.admit().await;
}
