//! A sidecar's routes, called without a network, over a pool of its own.

use super::{Pool, eventually};
use crate::openapi::{Called, assert_described};
use admission::message::{SIDECAR_HEADER, SIDECAR_HEADER_VALUE};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt;
use redis_sidecar::{App, app};
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;

/// Longer than any answer takes.
const BUDGET: Duration = Duration::from_secs(10);

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
    /// Whether it says that a sidecar gave it.
    pub(crate) marked: bool,
}

pub(crate) struct Api {
    pub(crate) pool: Pool,
    router: Router,
}

impl Api {
    pub(crate) async fn new() -> Self {
        Self::with_budget(BUDGET).await
    }

    pub(crate) async fn with_budget(budget: Duration) -> Self {
        Self::of(Pool::with(|_| {}).await, budget)
    }

    pub(crate) fn of(pool: Pool, budget: Duration) -> Self {
        let router = app(App::new(pool.store.clone(), budget));
        Self { pool, router }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Response {
        let answered = self.router.clone().oneshot(request).await;
        answered.expect("an answer")
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(body.into())
            .expect("a request");
        let response = self.send(request).await;
        let marked = response
            .headers()
            .get(SIDECAR_HEADER)
            .is_some_and(|mark| mark == SIDECAR_HEADER_VALUE);
        let status = response.status();
        let content_type = response.headers().get("content-type").cloned();
        let bytes = response
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        assert_described(&Called {
            method,
            path,
            request: None,
            status,
            content_type: content_type
                .as_ref()
                .map_or("", |text| text.to_str().unwrap_or("")),
            answer: &body,
        });
        Answer {
            status,
            body,
            marked,
        }
    }

    pub(crate) async fn json(&self, method: &str, path: &str, body: Value) -> Answer {
        self.call(method, path, body.to_string()).await
    }

    pub(crate) async fn register(&self) -> Answer {
        let body = json!({"address": "10.0.0.1:80", "incarnation": "a"});
        self.json("PUT", "/v1/pools/demo/workers/w1", body).await
    }

    pub(crate) fn question(&self) -> Value {
        serde_json::to_value(self.pool.question(&self.pool.mint())).expect("a question")
    }

    /// Answers that nobody heard are taken back: so many, and nobody is left in the pool.
    pub(crate) async fn until_taken_back(&self, count: usize) {
        let unheard = format!("berth_unheard_total{{pool=\"demo\"}} {count}");
        eventually(async || {
            let metrics = self.call("GET", "/metrics", "").await.body;
            metrics.as_str().is_some_and(|text| text.contains(&unheard))
        })
        .await;
        eventually(async || self.pool.view().await.head.active == 0).await;
    }
}
