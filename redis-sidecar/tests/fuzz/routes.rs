//! Through the routes, as anyone who reaches the API may call them.

use super::words::{OUTCOMES, TEXTS, Words};
use super::{BATCH, Run, policies};
use crate::openapi::{Called, assert_described};
use crate::support::Pool;
use admission::id::{Epoch, HolderId, ProxyId};
use admission::message::{SIDECAR_HEADER, SIDECAR_HEADER_VALUE};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use redis_sidecar::store::Sign;
use redis_sidecar::{App, app};
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;

struct Call {
    method: &'static str,
    path: String,
    body: Value,
}

fn holder(epoch: &Epoch) -> Value {
    json!(HolderId {
        proxy: ProxyId::lossy(b"envoy"),
        epoch: epoch.clone(),
    })
}

fn lease(dice: &mut fastrand::Rng, epoch: &Epoch) -> Value {
    json!(format!("{epoch}.{}", dice.lease_number()))
}

/// Adds a field in one of two cases.
fn perhaps(dice: &mut fastrand::Rng, body: &mut Value, field: &str, value: Value) {
    if dice.bool() {
        body[field] = value;
    }
}

fn admit(dice: &mut fastrand::Rng) -> Value {
    let epoch = dice.epoch();
    let mut body = json!({"pool": "demo", "holder": holder(&epoch), "lease": lease(dice, &epoch)});
    let (bytes, key, bind) = (dice.number(), dice.key(), dice.bool());
    perhaps(dice, &mut body, "bytes", json!(bytes));
    let operation = dice.of(&["query", "execute", "begin"]);
    perhaps(dice, &mut body, "operation", json!(operation));
    perhaps(dice, &mut body, "client", json!(key));
    let (worker, redirect) = (dice.worker(), dice.bool());
    perhaps(dice, &mut body, "self", json!(worker));
    perhaps(dice, &mut body, "redirect", json!(redirect));
    perhaps(
        dice,
        &mut body,
        "affinity",
        json!({"key": key, "bind": bind}),
    );
    body
}

fn admit_group(dice: &mut fastrand::Rng) -> Value {
    let epoch = dice.epoch();
    let questions: Vec<Value> = (0..dice.usize(1..6))
        .map(|_| {
            let (key, bytes) = (dice.key(), dice.number());
            let mut question = json!({"number": dice.u64(1..40)});
            perhaps(dice, &mut question, "bytes", json!(bytes));
            perhaps(dice, &mut question, "client", json!(key));
            perhaps(dice, &mut question, "affinity", json!({"key": key}));
            question
        })
        .collect();
    json!({"pool": "demo", "holder": holder(&epoch), "questions": questions})
}

fn release(dice: &mut fastrand::Rng) -> Value {
    let epoch = dice.epoch();
    let releases: Vec<Value> = (0..dice.usize(1..5))
        .map(|_| {
            let mut one = json!({"lease": lease(dice, &epoch), "use": dice.of(&["used", "unused"]),
                "outcome": dice.of(&OUTCOMES), "bytes_read": dice.number(),
                "bytes_written": dice.number()});
            for field in ["handshake_us", "upgrade_us", "session_us"] {
                let us = dice.time_us();
                perhaps(dice, &mut one, field, json!(us));
            }
            perhaps(dice, &mut one, "unbind", json!("00ff00ff00ff00ff"));
            one
        })
        .collect();
    json!({"pool": "demo", "holder": holder(&epoch), "releases": releases})
}

fn observe(dice: &mut fastrand::Rng) -> Value {
    let epoch = dice.epoch();
    json!({"pool": "demo", "holder": holder(&epoch), "observations": [
        {"lease": lease(dice, &epoch), "outcome": dice.of(&OUTCOMES), "handshake_us": dice.time_us()},
        {"lease": lease(dice, &epoch), "outcome": dice.of(&OUTCOMES)}]})
}

fn renew(dice: &mut fastrand::Rng) -> Value {
    let mut body = json!({"pool": "demo", "holder": holder(&dice.epoch()), "beat": dice.u64(1..5),
        "asking": [dice.lease_number()], "ended": [dice.lease_number(), dice.lease_number()]});
    let (count, digest, rebuild) = (dice.number(), dice.u32(..), dice.number());
    perhaps(
        dice,
        &mut body,
        "held",
        json!({"count": count, "digest": digest}),
    );
    perhaps(dice, &mut body, "rebuild", json!(rebuild));
    let listed: Vec<Value> = (0..dice.usize(..4))
        .map(|_| json!([dice.lease_number(), dice.number()]))
        .collect();
    let numbers = listed.iter().map(|lease| lease[0].to_string());
    let clients: Value = numbers
        .map(|number| (number, json!("00ff00ff00ff00ff")))
        .collect();
    let place = json!({"worker": dice.worker(), "incarnation": dice.incarnation(),
        "address": "10.0.0.1:80", "leases": listed, "clients": clients});
    perhaps(dice, &mut body, "leases", json!([place, place]));
    body
}

fn register(dice: &mut fastrand::Rng) -> Value {
    let mut body = json!({"address": "10.0.0.1:80", "incarnation": dice.incarnation(),
        "weight": dice.of(&[0.001, 0.3, 1.0, 1000.0])});
    let (max_concurrent, lifetime) = (dice.number(), dice.number());
    perhaps(dice, &mut body, "max_concurrent", json!(max_concurrent));
    perhaps(dice, &mut body, "lifetime", json!(lifetime));
    perhaps(dice, &mut body, "origin", json!("https://w.example.com"));
    body
}

fn heartbeat(dice: &mut fastrand::Rng) -> Value {
    let mut body = json!({"incarnation": dice.incarnation()});
    let sessions = dice.number();
    perhaps(dice, &mut body, "sessions", json!(sessions));
    let count = |dice: &mut fastrand::Rng| dice.of(&[0, 1, 20, u32::MAX]);
    let figure = |dice: &mut fastrand::Rng| dice.of(&[0.0, 5e-324, 12.5, 1e12]);
    let report = json!({"status": dice.of(&["SERVING", "SERVING", "DRAINING", "DOWN"]),
        "runningHttpSession": count(dice), "maxHttpSessions": count(dice), "runningTx": count(dice),
        "maxOpenConns": count(dice), "openConns": count(dice), "idleConns": count(dice),
        "maxTransactionConns": count(dice), "waitConnCount": count(dice), "timeouts1m": count(dice),
        "p95LatencyMs": figure(dice), "uptimeSec": figure(dice),
        "errorRate1m": dice.of(&[0.0, 5e-324, 1.0])});
    perhaps(dice, &mut body, "report", report);
    body
}

fn atomic(dice: &mut fastrand::Rng) -> Value {
    let (limit, ttl_ms) = (dice.u64(..4), dice.of(&[100, 60_000]));
    let owner = dice.of(&["me", "you", "\0", "a b"]);
    let (operation, args) = match dice.u8(..6) {
        0 => ("check_and_increment", json!({"limit": limit})),
        1 => (
            "check_and_increment",
            json!({"limit": limit, "owner": owner, "ttl_ms": ttl_ms}),
        ),
        2 => ("decrement", json!({"owner": owner})),
        3 => ("renew", json!({"owner": owner, "ttl_ms": ttl_ms})),
        4 => ("check_rate_limit", json!({"limit": limit, "window_s": 60})),
        _ => ("get", json!({})),
    };
    json!({"operation": operation, "key": dice.key(), "args": args})
}

fn call(dice: &mut fastrand::Rng) -> Call {
    let worker = format!("/v1/pools/demo/workers/{}", dice.worker());
    let (method, path, body) = match dice.u8(..32) {
        0..6 => ("POST", "/v1/admit".into(), admit(dice)),
        6..10 => ("POST", "/v1/admit/group".into(), admit_group(dice)),
        10..15 => ("POST", "/v1/release".into(), release(dice)),
        15..17 => ("POST", "/v1/observe".into(), observe(dice)),
        17..20 => ("POST", "/v1/renew".into(), renew(dice)),
        20 => {
            let epoch = dice.epoch();
            let body = json!({"pool": "demo", "holder": holder(&epoch), "lease": lease(dice, &epoch),
                "key": dice.key()});
            ("POST", "/v1/bind".into(), body)
        }
        21..24 => ("PUT", worker, register(dice)),
        24..27 => ("POST", worker + "/heartbeat", heartbeat(dice)),
        27 => match dice.bool() {
            true => ("POST", worker + "/drain", json!({})),
            false => ("DELETE", worker, json!({})),
        },
        28 => ("PUT", "/v1/pools/demo/policy".into(), policies::any(dice)),
        29 => (
            "POST",
            "/v1/pools/demo/explain".into(),
            json!({"bytes": dice.number()}),
        ),
        30 => ("GET", "/metrics".into(), json!({})),
        _ => ("POST", "/redis/atomic".into(), atomic(dice)),
    };
    Call { method, path, body }
}

/// Replaces one of the values, wherever it stands.
fn spoil(dice: &mut fastrand::Rng, value: &mut Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() && !dice.one_in(8) => {
            let chosen = dice.usize(..fields.len());
            if let Some(inner) = fields.values_mut().nth(chosen) {
                spoil(dice, inner);
            }
        }
        Value::Array(items) if !items.is_empty() && !dice.one_in(8) => {
            let chosen = dice.usize(..items.len());
            spoil(dice, &mut items[chosen]);
        }
        _ => *value = dice.hostile_json(),
    }
}

impl Call {
    fn spoiled(mut self, dice: &mut fastrand::Rng) -> Self {
        if dice.one_in(3) {
            spoil(dice, &mut self.body);
        }
        if dice.one_in(40) {
            let text = dice.of(&TEXTS);
            self.path = format!("/v1/pools/demo/workers/{}", percent(text));
        }
        self
    }

    async fn send(&self, router: &Router, run: &Run) {
        let request = Request::builder().method(self.method).uri(&self.path);
        let request = request.body(Body::from(self.body.to_string()));
        let response = router.clone().oneshot(request.expect("a request")).await;
        let response = response.expect("an answer");
        let mark = response.headers().get(SIDECAR_HEADER);
        let marked = mark.is_some_and(|mark| mark == SIDECAR_HEADER_VALUE);
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        if head.status.is_server_error() || !marked {
            run.story
                .fail(&format!("{} {}", head.status, body.escape_ascii()));
        }
        let content_type = head.headers.get("content-type");
        assert_described(&Called {
            method: self.method,
            path: &self.path,
            request: Some(&self.body),
            status: head.status,
            content_type: content_type.map_or("", |text| text.to_str().unwrap_or("")),
            answer: &serde_json::from_slice(&body).unwrap_or_default(),
        });
    }
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// A presence hangs, so it is told to the store itself.
async fn presence(dice: &mut fastrand::Rng, pool: &Pool) {
    let holder = HolderId {
        proxy: ProxyId::lossy(b"envoy"),
        epoch: dice.epoch(),
    };
    let (sign, number) = (
        dice.of(&[Sign::Opened, Sign::Vouched, Sign::Ended]),
        dice.u64(1..4),
    );
    let told = pool.store.presence(&pool.name, &holder, sign, number).await;
    told.expect("a standing");
}

/// How many leases were given, as the sidecar counted them.
async fn admissions(router: &Router) -> u64 {
    let request = Request::get("/metrics")
        .body(Body::empty())
        .expect("a request");
    let response = router.clone().oneshot(request).await.expect("an answer");
    let text = response
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    let text = String::from_utf8_lossy(&text).into_owned();
    let count = text.split("berth_admissions_total{pool=\"demo\"} ").nth(1);
    count
        .and_then(|rest| rest.lines().next()?.parse().ok())
        .unwrap_or(0)
}

#[tokio::test]
async fn hostile_requests_are_answered_and_leave_no_drift() {
    let mut run = Run::new();
    let pool = Pool::with(|_| {}).await;
    let mut clock = pool.clock().await;
    let router = app(App::new(pool.store.clone(), Duration::from_secs(10)));
    while run.goes_on() {
        for _ in 0..BATCH {
            let next = call(&mut run.dice).spoiled(&mut run.dice);
            let Call { method, path, body } = &next;
            run.story.add(format!("{method} {path} {body}"));
            next.send(&router, &run).await;
            run.executions += 1;
        }
        presence(&mut run.dice, &pool).await;
        run.audit(&pool).await;
        run.read(&pool).await;
        if run.dice.one_in(4) {
            let ms = run.dice.of(&[50.0, 2_000.0, 100_000.0]);
            run.story.add(format!("{ms} ms later"));
            clock.advance(ms).await;
            pool.look_after().await;
            run.audit(&pool).await;
        }
    }
    let admitted = admissions(&router).await;
    assert!(admitted > 0, "nothing was reached");
    run.tell(&format!("routes, {admitted} admitted"));
}
