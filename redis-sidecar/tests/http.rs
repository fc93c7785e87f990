//! The routes: what goes over the wire, and what is refused.

use crate::support::{Api, ended, holder};
use admission::message::{Release, UNDER_WAY_MAX, Use};
use admission::outcome::Outcome;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_lease_is_taken_and_given_back() {
    let api = Api::new().await;
    assert_eq!(
        api.register().await.body,
        json!({"advice": "serve", "active": 0, "lifetime": 0})
    );
    let admitted = api.json("POST", "/v1/admit", api.question()).await;
    assert_eq!(admitted.body["decision"], "admitted");
    assert_eq!(admitted.body["address"], "10.0.0.1:80");
    let release = json!({"pool": "demo", "holder": api.pool.holder, "releases":
        [{"lease": admitted.body["lease"], "use": "used", "outcome": "success", "status": 101}]});
    let released = api.json("POST", "/v1/release", release).await;
    assert_eq!(released.body, json!({"released": 1, "unknown": 0}));
}

#[tokio::test]
async fn a_denial_is_an_answer() {
    let api = Api::new().await;
    let denied = api.json("POST", "/v1/admit", api.question()).await;
    assert_eq!(denied.status, StatusCode::OK);
    assert_eq!(denied.body["reason"], "no_worker");
}

#[tokio::test]
async fn every_answer_is_marked() {
    let api = Api::new().await;
    for (method, path) in [
        ("GET", "/healthz"),
        ("GET", "/nowhere"),
        ("PUT", "/v1/admit"),
        ("POST", "/v1/admit"),
    ] {
        assert!(api.call(method, path, "").await.marked, "{method} {path}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_with_a_reason() {
    let api = Api::new().await;
    for body in ["", "{", "[]", r#"{"pool": "a b"}"#, r#"{"pool": "demo"}"#] {
        let answer = api.call("POST", "/v1/admit", body).await;
        assert!(answer.status.is_client_error(), "{body}");
        assert_eq!(answer.body["error"], "invalid", "{body}");
    }
    let untyped = Request::builder().method("POST").uri("/v1/admit");
    let untyped = untyped
        .body(Body::from(api.question().to_string()))
        .expect("a request");
    let answer = api.send(untyped).await;
    assert_eq!(
        answer.status(),
        StatusCode::OK,
        "a content type is not needed"
    );
    let too_large = api.call("POST", "/v1/release", "x".repeat(21 * 1024)).await;
    assert_eq!(too_large.status, StatusCode::PAYLOAD_TOO_LARGE);
    let typo = json!({"address": "10.0.0.1:80", "incarnation": "a", "wieght": 2});
    let answer = api.json("PUT", "/v1/pools/demo/workers/w1", typo).await;
    assert!(
        answer.body["message"]
            .as_str()
            .is_some_and(|text| text.contains("wieght"))
    );
}

#[tokio::test]
async fn nobody_speaks_for_another_holder() {
    let api = Api::new().await;
    let mut question = api.question();
    question["holder"] = json!(holder(2));
    let answer = api.json("POST", "/v1/admit", question).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let release = json!({"pool": "demo", "holder": holder(2), "releases":
        [{"lease": api.pool.mint(), "use": "used", "outcome": "success"}]});
    assert_eq!(
        api.json("POST", "/v1/release", release).await.status,
        StatusCode::BAD_REQUEST
    );
}

#[tokio::test]
async fn unknown_pools_and_workers_are_not_found() {
    let api = Api::new().await;
    let pool = api.call("GET", "/v1/pools/other", "").await;
    assert_eq!(
        (pool.status, &pool.body["error"]),
        (StatusCode::NOT_FOUND, &json!("unknown_pool"))
    );
    let worker = api
        .call("POST", "/v1/pools/demo/workers/w9/drain", "")
        .await;
    assert_eq!(
        (worker.status, &worker.body["error"]),
        (StatusCode::NOT_FOUND, &json!("unknown_worker"))
    );
    assert_eq!(
        api.call("GET", "/v1/pools", "").await.body,
        json!({"pools": ["demo"]})
    );
}

#[tokio::test]
async fn a_policy_is_changed_while_the_pool_runs() {
    let api = Api::new().await;
    let policy = json!({"strategy": "roundrobin", "max_concurrent": 7});
    let answer = api.json("PUT", "/v1/pools/demo/policy", policy).await;
    assert_eq!(answer.body, json!({"version": 2}));
    let shown = api.call("GET", "/v1/pools/demo", "").await.body;
    assert_eq!(shown["policy"]["strategy"], "round_robin");
}

#[tokio::test]
async fn a_bad_policy_is_refused_with_a_sentence_that_names_the_field() {
    let api = Api::new().await;
    for (bad, sentence) in [
        // Unknown words.
        (
            json!({"strategy": "best"}),
            "strategy: unknown variant `best`",
        ),
        (json!({"max_concurent": 7}), "max_concurent: unknown field"),
        (json!({"sewt": {"alfa": 1}}), "sewt.alfa: unknown field"),
        (
            json!({"sewt": {"estimator": "p50"}}),
            "sewt.estimator: unknown variant",
        ),
        // Wrong types.
        (json!({"strategy": 7}), "strategy: expected value"),
        (
            json!({"max_concurrent": "7"}),
            "max_concurrent: invalid type",
        ),
        (
            json!({"max_concurrent": 1.5}),
            "max_concurrent: invalid type",
        ),
        (
            json!({"max_concurrent": null}),
            "max_concurrent: invalid type",
        ),
        (json!({"max_lifetime": -1}), "max_lifetime: invalid value"),
        (
            json!({"max_lifetime": 1_u64 << 32}),
            "max_lifetime: invalid value",
        ),
        (
            json!({"sewt": {"size_buckets": [1, "2"]}}),
            "sewt.size_buckets[1]: invalid type",
        ),
        (
            json!({"sewt": {"adaptive_alpha": 1}}),
            "sewt.adaptive_alpha: invalid type",
        ),
        (json!({"sewt": 1}), "sewt: invalid type"),
        // Values that are out of range.
        (json!({"max_concurrent": 0}), "max_concurrent must be"),
        (json!({"max_concurrent": 1 << 21}), "max_concurrent must be"),
        (
            json!({"strategy": "lifetime_first"}),
            "max_lifetime must be",
        ),
        (json!({"heartbeat_ttl_ms": 9}), "heartbeat_ttl_ms must be"),
        (json!({"lease_ttl_ms": 99}), "lease_ttl_ms must be"),
        (json!({"ejection_ms": 0}), "ejection_ms must be"),
        (json!({"ejection_max_ms": 1}), "ejection_max_ms must be"),
        (
            json!({"retry_after_ms": 86_400_001}),
            "retry_after_ms must be",
        ),
        (json!({"forget_ms": 1}), "forget_ms must be"),
        (json!({"sewt": {"alpha": 0}}), "sewt.alpha must be"),
        (
            json!({"sewt": {"alpha_min": 0.9}}),
            "sewt.alpha_min must be",
        ),
        (
            json!({"sewt": {"alpha_max": 1.1}}),
            "sewt.alpha_max must be",
        ),
        (
            json!({"sewt": {"size_buckets": [2, 1]}}),
            "sewt.size_buckets must be",
        ),
    ] {
        let answer = api.json("PUT", "/v1/pools/demo/policy", bad.clone()).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{bad}");
        let message = answer.body["message"].as_str().expect("a sentence");
        assert!(message.starts_with(sentence), "{bad}: {message}");
    }
    assert_eq!(api.pool.view().await.head.policy_version, 1);
}

#[tokio::test]
async fn what_is_no_policy_at_all_is_refused() {
    let api = Api::new().await;
    for body in ["", "{", "[]", "7", "null", r#"{"strategy": "sewt"} x"#] {
        let answer = api.call("PUT", "/v1/pools/demo/policy", body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}");
        assert_eq!(answer.body["error"], "invalid", "{body}");
    }
    let elsewhere = api.json("PUT", "/v1/pools/other/policy", json!({})).await;
    assert_eq!(elsewhere.body["error"], "unknown_pool");
    assert_eq!(api.pool.view().await.head.policy_version, 1);
}

#[tokio::test]
async fn ready_means_that_a_script_ran() {
    let api = Api::new().await;
    assert_eq!(api.call("GET", "/readyz", "").await.status, StatusCode::OK);
    api.pool.redis.stop();
    let api = Api::of(api.pool, Duration::from_millis(200));
    let answer = api.call("GET", "/readyz", "").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(
        answer.body.to_string().contains("pool demo"),
        "{}",
        answer.body
    );
    assert_eq!(api.call("GET", "/healthz", "").await.status, StatusCode::OK);
}

#[tokio::test]
async fn an_answer_that_nobody_hears_leaves_no_lease() {
    let api = Api::with_budget(Duration::from_millis(50)).await;
    api.register().await;
    api.pool.redis.stop();
    let answer = api.json("POST", "/v1/admit", api.question()).await;
    assert_eq!(answer.body["error"], "store_unavailable");
    api.pool.redis.go_on();
    api.until_taken_back(1).await;
    assert_eq!(api.pool.worker("w1").await.lifetime, 0);
}

#[tokio::test]
async fn metrics_have_the_names_that_were_promised() {
    let api = Api::new().await;
    api.register().await;
    api.json("POST", "/v1/admit", api.question()).await;
    let text = api.call("GET", "/metrics", "").await.body;
    let text = text.as_str().expect("text");
    for line in [
        "websocket_connections_active_total{pool=\"demo\"} 1",
        "websocket_connections_rejected_total{pool=\"demo\"} 0",
        "websocket_proxy_instance{proxy_id=\"envoy-1\"} 1",
        "berth_admissions_total{pool=\"demo\"} 1",
        "berth_worker_lifetime{pool=\"demo\",worker=\"w1\"} 1",
        "berth_decision_seconds_count{pool=\"demo\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn metrics_tell_what_each_worker_has_done() {
    let api = Api::new().await;
    api.register().await;
    let pool = &api.pool;
    pool.served(&pool.admit().await.lease, 4000).await;
    let failed = ended(&pool.admit().await.lease, Use::Used, Outcome::Reset);
    pool.release_with(Release {
        bytes_read: 10,
        bytes_written: 20,
        ..failed
    })
    .await;
    let text = api.call("GET", "/metrics", "").await.body;
    let text = text.as_str().expect("text");
    let worker = "{pool=\"demo\",worker=\"w1\"}";
    for line in [
        format!("berth_worker_requests_total{worker} 2"),
        format!("berth_worker_errors_total{worker} 1"),
        format!("berth_worker_bytes_read_total{worker} 11"),
        format!("berth_worker_bytes_written_total{worker} 22"),
        format!("berth_worker_latency_mean_seconds{worker} 0.004"),
    ] {
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn very_many_bytes_can_be_told() {
    let api = Api::new().await;
    api.register().await;
    let used = ended(&api.pool.admit().await.lease, Use::Used, Outcome::Success);
    let release = Release {
        bytes_read: 200_000_000_000_000,
        ..used
    };
    api.pool.release_with(release).await;
    let shown = api.call("GET", "/v1/pools/demo", "").await.body;
    let total = &shown["workers"][0]["bytes_read_total"];
    assert_eq!(*total, json!(200_000_000_000_000_u64), "{shown}");
}

#[tokio::test]
async fn a_beat_is_answered_and_what_cannot_be_one_is_refused() {
    let api = Api::new().await;
    api.register().await;
    let beat = |beat: u64| {
        json!({"pool": "demo", "holder": holder(7), "beat": beat,
        "held": {"count": 0, "digest": 0}})
    };
    let answer = api.json("POST", "/v1/renew", beat(1)).await;
    assert_eq!(
        answer.body,
        json!({"verdict": "kept", "lost": false, "lease_ttl_ms": 15_000})
    );
    let long: Vec<u64> = (0..=UNDER_WAY_MAX as u64).collect();
    for (field, value) in [
        ("asking", json!(long)),
        ("ended", json!([u64::MAX])),
        ("beat", json!(0)),
        ("beat", json!(1_u64 << 40)),
        ("holder", json!("envoy")),
    ] {
        let mut wrong = beat(2);
        wrong[field] = value;
        let answer = api.json("POST", "/v1/renew", wrong).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{field}");
    }
    let listed: Vec<_> = (1..3000_u64).map(|number| json!([number, 1])).collect();
    let mut list = beat(2);
    list["held"] = json!({"count": 1, "digest": 1});
    list["leases"] = json!([{"worker": "w1", "incarnation": "a", "address": "10.0.0.1:80",
        "leases": listed}]);
    let answer = api.json("POST", "/v1/renew", list).await;
    assert_eq!(answer.body["verdict"], "list", "longer than any other body");
    assert_eq!(api.pool.view().await.head.active, 2999);
}

#[tokio::test]
async fn metrics_tell_who_holds_and_what_was_put_right() {
    let api = Api::new().await;
    api.register().await;
    api.json("POST", "/v1/admit", api.question()).await;
    api.pool.release(&api.pool.mint()).await;
    let text = api.call("GET", "/metrics", "").await.body;
    let text = text.as_str().expect("text");
    for line in [
        "berth_repairs_total{pool=\"demo\",kind=\"tombstoned\"} 1",
        "berth_repairs_total{pool=\"demo\",kind=\"rebuilds\"} 0",
        "berth_holders{pool=\"demo\"} 1",
        "berth_quarantined_holders{pool=\"demo\"} 0",
        "berth_rebuilding{pool=\"demo\"} 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
