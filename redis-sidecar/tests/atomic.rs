//! `/redis/atomic`: counts and rates for callers without the filter.

use crate::support::{Redis, eventually, library};
use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use redis_sidecar::store::Store;
use redis_sidecar::{App, app};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tower::ServiceExt;

const BUDGET: Duration = Duration::from_secs(10);
/// Longer than any test.
const LONG_MS: u64 = 3_600_000;

/// A sidecar before a Redis that may be another's, too.
struct Sidecar {
    router: Router,
}

impl Sidecar {
    async fn before(redis: &Redis) -> Self {
        let settings = redis.settings();
        let store = Store::start_with(&settings, BTreeMap::new(), library()).expect("a store");
        eventually(async || store.is_up()).await;
        let router = app(App::new(store, BUDGET));
        Self { router }
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> (StatusCode, String) {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .body(Body::from(body.to_string()))
            .expect("a request");
        let router = self.router.clone();
        let response = router.oneshot(request).await.expect("an answer");
        let status = response.status();
        let body = response.into_body().collect().await.expect("a body");
        let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        (status, text)
    }

    async fn post(&self, body: &Value) -> (StatusCode, Value) {
        let (status, text) = self.send("POST", "/redis/atomic", body).await;
        (status, serde_json::from_str(&text).expect("JSON"))
    }

    /// An operation on the key `k`.
    async fn ask(&self, operation: &str, args: Value) -> Value {
        let body = json!({"operation": operation, "key": "k", "args": args});
        let (status, answer) = self.post(&body).await;
        assert_eq!(status, StatusCode::OK, "{body}: {answer}");
        answer
    }

    async fn hold(&self, owner: &str, ttl_ms: u64) -> Value {
        let args = json!({"limit": 1_000_000, "owner": owner, "ttl_ms": ttl_ms});
        self.ask("check_and_increment", args).await
    }

    async fn count(&self) -> Value {
        self.ask("get", json!({})).await["count"].clone()
    }
}

async fn keys(redis: &Redis) -> Vec<String> {
    let found = redis.command(&["KEYS", "*"]).await;
    redis::from_redis_value(found).expect("keys")
}

async fn number(redis: &Redis, words: &[&str]) -> i64 {
    redis::from_redis_value(redis.command(words).await).expect("a number")
}

#[tokio::test]
pub(crate) async fn a_count_grows_to_its_limit_and_no_further() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    let two = json!({"limit": 2});
    for count in 1..=2 {
        let answer = sidecar.ask("check_and_increment", two.clone()).await;
        assert_eq!(answer, json!({"allowed": true, "count": count}));
    }
    let answer = sidecar.ask("check_and_increment", two).await;
    let refused = json!({"allowed": false, "count": 2, "reason": "limit_exceeded"});
    assert_eq!(answer, refused);
    assert_eq!(sidecar.count().await, 2);
    for count in [1, 0, 0] {
        let answer = sidecar.ask("decrement", json!({})).await;
        assert_eq!(answer, json!({ "count": count }));
    }
    assert_eq!(keys(&redis).await, Vec::<String>::new());
}

#[tokio::test]
async fn two_sidecars_that_race_count_exactly() {
    const LIMIT: usize = 5;
    let redis = Redis::start();
    let mut races = tokio::task::JoinSet::new();
    for number in 1..=2 {
        let sidecar = std::sync::Arc::new(Sidecar::before(&redis).await);
        for request in 0..40 {
            let sidecar = sidecar.clone();
            let owner = format!("{number}.{request}");
            let args = json!({"limit": LIMIT, "owner": owner, "ttl_ms": LONG_MS});
            races.spawn(async move { sidecar.ask("check_and_increment", args).await });
        }
    }
    let answers = races.join_all().await;
    let allowed = answers.iter().filter(|answer| answer["allowed"] == true);
    assert_eq!(allowed.count(), LIMIT);
    assert_eq!(Sidecar::before(&redis).await.count().await, LIMIT);
}

#[tokio::test]
pub(crate) async fn nobody_gives_back_what_another_holds() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    sidecar.hold("a", LONG_MS).await;
    let all = json!({"limit": 1_000_000});
    sidecar.ask("check_and_increment", all).await;
    for (args, count) in [
        (json!({"owner": "b"}), 2),
        (json!({}), 1),
        (json!({}), 1),
        (json!({"owner": "a"}), 0),
        (json!({"owner": "a"}), 0),
    ] {
        let answer = sidecar.ask("decrement", args.clone()).await;
        assert_eq!(answer, json!({ "count": count }), "{args}");
    }
    assert_eq!(keys(&redis).await, Vec::<String>::new());
}

#[tokio::test]
async fn what_a_silent_owner_holds_is_taken_back_and_no_more() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    for _ in 0..3 {
        sidecar.hold("silent", 150).await;
    }
    sidecar.hold("patient", LONG_MS).await;
    assert_eq!(sidecar.count().await, 4);
    eventually(async || sidecar.count().await == 1).await;
    // Late words of the silent one change nothing.
    let late = sidecar.ask("renew", json!({"owner": "silent"})).await;
    assert_eq!(late, json!({"count": 1, "held": 0}));
    let late = sidecar.ask("decrement", json!({"owner": "silent"})).await;
    assert_eq!(late, json!({"count": 1}));
    let (_, metrics) = sidecar.send("GET", "/metrics", &json!({})).await;
    for series in [
        "berth_atomic_taken_back_total 3",
        r#"berth_atomic_operations_total{operation="check_and_increment",outcome="allowed"} 4"#,
        r#"berth_atomic_operations_total{operation="decrement",outcome="unheld"} 1"#,
    ] {
        assert!(metrics.contains(series), "no {series} in {metrics}");
    }
}

#[tokio::test]
async fn every_word_of_an_owner_begins_its_time_anew() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    let deadline = async || {
        let told = redis
            .command(&["ZSCORE", "ws:atomic:{k}:deadlines", "a"])
            .await;
        redis::from_redis_value::<f64>(told).expect("a deadline")
    };
    sidecar.hold("a", 10_000).await;
    let mut last = deadline().await;
    for (operation, args, longer) in [
        ("renew", json!({"owner": "a", "ttl_ms": 20_000}), 10_000.0),
        (
            "check_and_increment",
            json!({"limit": 0, "owner": "a", "ttl_ms": 40_000}),
            20_000.0,
        ),
        (
            "check_and_increment",
            json!({"limit": 9, "owner": "a", "ttl_ms": 80_000}),
            40_000.0,
        ),
        ("decrement", json!({"owner": "a"}), 0.0),
        ("renew", json!({"owner": "a"}), 0.0),
    ] {
        sidecar.ask(operation, args.clone()).await;
        let next = deadline().await;
        assert!(next >= last + longer, "{operation} {args}: {last} {next}");
        last = next;
    }
    let renewed = sidecar.ask("renew", json!({"owner": "a"})).await;
    assert_eq!(renewed, json!({"count": 1, "held": 1}));
}

#[tokio::test]
pub(crate) async fn what_has_no_owner_stays_until_it_is_given_back() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    sidecar.hold("a", 150).await;
    let all = json!({"limit": 1_000_000});
    sidecar.ask("check_and_increment", all).await;
    assert_eq!(keys(&redis).await.len(), 3);
    for key in keys(&redis).await {
        assert_eq!(number(&redis, &["PTTL", &key]).await, -1, "{key}");
    }
    eventually(async || sidecar.count().await == 1).await;
    for key in keys(&redis).await {
        assert_eq!(number(&redis, &["PTTL", &key]).await, -1, "{key}");
    }
    sidecar.ask("decrement", json!({})).await;
    assert_eq!(keys(&redis).await, Vec::<String>::new());
}

#[tokio::test]
async fn keys_of_lost_owners_go_although_nobody_asks_and_not_before() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    sidecar.hold("short", 300).await;
    sidecar.hold("long", 600_000).await;
    for key in keys(&redis).await {
        let left = number(&redis, &["PTTL", &key]).await;
        assert!((500_000..=600_000).contains(&left), "{key}: {left}");
    }
    sidecar.ask("decrement", json!({"owner": "long"})).await;
    sidecar.hold("short", 300).await;
    eventually(async || keys(&redis).await.is_empty()).await;
}

#[tokio::test]
pub(crate) async fn more_lost_owners_than_one_script_sweeps_are_swept_all_the_same() {
    const OWNERS: usize = 1_000;
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    sidecar.hold("patient", LONG_MS).await;
    let fill = "for n = 1, ARGV[1] do redis.call('HSET', KEYS[1], n, '1 100')
        redis.call('ZADD', KEYS[2], 1, n) redis.call('INCR', KEYS[3]) end return 0";
    let (owners, deadlines) = ("ws:atomic:{k}:owners", "ws:atomic:{k}:deadlines");
    let words = ["EVAL", fill, "3", owners, deadlines, "ws:atomic:{k}:count"];
    let count = OWNERS.to_string();
    redis.command(&[&words[..], &[&count]].concat()).await;
    let one = json!({"limit": 2});
    let answer = sidecar.ask("check_and_increment", one).await;
    assert_eq!(answer, json!({"allowed": true, "count": 2}));
}

#[tokio::test]
pub(crate) async fn a_count_has_only_so_many_owners() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    sidecar.hold("known", LONG_MS).await;
    let fill = "for n = 1, 9999 do redis.call('HSET', KEYS[1], n, '1 100') end return 0";
    redis
        .command(&["EVAL", fill, "1", "ws:atomic:{k}:owners"])
        .await;
    let answer = sidecar.hold("one more", LONG_MS).await;
    let refused = json!({"allowed": false, "count": 1, "reason": "too_many_owners"});
    assert_eq!(answer, refused);
    let known = sidecar.hold("known", LONG_MS).await;
    assert_eq!(known, json!({"allowed": true, "count": 2}));
    let nobody = sidecar.ask("check_and_increment", json!({"limit": 9}));
    assert_eq!(nobody.await, json!({"allowed": true, "count": 3}));
}

#[tokio::test]
pub(crate) async fn a_window_has_no_more_requests_than_its_limit() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    // A day: no test runs into the next window but one at midnight, and that once in a while.
    let two = json!({"limit": 2, "window_s": 86_400});
    let rate = async || sidecar.ask("check_rate_limit", two.clone()).await;
    for count in 1..=2 {
        let allowed = json!({"allowed": true, "count": count, "retry_after_ms": 0});
        assert_eq!(rate().await, allowed);
    }
    for _ in 0..2 {
        let mut refused = rate().await;
        let wait = refused["retry_after_ms"].take().as_u64().expect("a time");
        assert!((1..=86_400_000).contains(&wait), "{wait}");
        let expected = json!({"allowed": false, "count": 2, "retry_after_ms": null});
        assert_eq!(refused, expected);
    }
    assert_eq!(keys(&redis).await, ["ws:atomic:{k}:rate_limit:86400"]);
}

#[tokio::test]
async fn a_new_window_has_room_again_and_an_old_one_leaves_no_key() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    let one = json!({"limit": 1, "window_s": 1});
    let rate = async || sidecar.ask("check_rate_limit", one.clone()).await;
    assert_eq!(rate().await["allowed"], true);
    eventually(async || rate().await["allowed"] == true).await;
    eventually(async || keys(&redis).await.is_empty()).await;
}

#[tokio::test]
async fn a_count_and_a_rate_of_one_key_are_apart_and_windows_of_other_lengths_too() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    for window_s in [3_600, 86_400] {
        let args = json!({"limit": 1, "window_s": window_s});
        let answer = sidecar.ask("check_rate_limit", args).await;
        assert_eq!(answer["allowed"], true);
    }
    assert_eq!(sidecar.count().await, 0);
}

#[tokio::test]
async fn a_full_redis_counts_down_but_not_up() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    sidecar.hold("a", LONG_MS).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let more = json!({"operation": "check_and_increment", "key": "k", "args": {"limit": 9}});
    let (status, answer) = sidecar.post(&more).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    let answer = sidecar.ask("decrement", json!({"owner": "a"})).await;
    assert_eq!(answer, json!({"count": 0}));
}

#[tokio::test]
async fn what_was_counted_for_a_caller_that_left_is_given_back() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    sidecar.count().await; // the library is there
    redis.stop();
    let args = json!({"limit": 1_000_000, "owner": "a", "ttl_ms": LONG_MS});
    let question = sidecar.ask("check_and_increment", args);
    let left = tokio::time::timeout(Duration::from_millis(100), question).await;
    assert!(left.is_err(), "nobody answers");
    redis.go_on();
    let undone = r#"berth_atomic_operations_total{operation="decrement",outcome="done"} 1"#;
    eventually(async || {
        let (_, metrics) = sidecar.send("GET", "/metrics", &json!({})).await;
        metrics.contains(undone)
    })
    .await;
    assert_eq!(sidecar.count().await, 0);
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    let long = "x".repeat(129);
    for (operation, key, args, named) in [
        ("eval", "k", json!({}), "operation: unknown variant `eval`"),
        ("get", "", json!({}), "key: a key must have 1 to 128"),
        ("get", &long, json!({}), "key: a key must have 1 to 128"),
        ("get", "a{b}", json!({}), "key: a key may contain only"),
        ("get", "a b", json!({}), "key: a key may contain only"),
        ("get", "k", json!([]), "args: invalid type: sequence"),
        ("get", "k", json!({"limits": 1}), "args"),
        ("get", "k", json!({"limit": 1}), "args.limit: get has no"),
        ("check_and_increment", "k", json!([2]), "args: invalid type"),
        ("check_and_increment", "k", json!({}), "args.limit: is need"),
        (
            "check_and_increment",
            "k",
            json!({"limit": -1}),
            "args.limit: ",
        ),
        (
            "check_and_increment",
            "k",
            json!({"limit": "2"}),
            "args.limit: ",
        ),
        (
            "check_and_increment",
            "k",
            json!({"limit": 1.5}),
            "args.limit: ",
        ),
        (
            "check_and_increment",
            "k",
            json!({"limit": 1_000_000_001}),
            "args.limit: must be 0 to 1000000000, not 1000000001",
        ),
        (
            "check_and_increment",
            "k",
            json!({"limit": 1, "owner": ""}),
            "args.owner: an owner must have 1 to 128",
        ),
        (
            "check_and_increment",
            "k",
            json!({"limit": 1, "owner": "a"}),
            "args.ttl_ms: is needed, 100 to 86400000",
        ),
        (
            "check_and_increment",
            "k",
            json!({"limit": 1, "ttl_ms": 1000}),
            "args.ttl_ms: is an owner's, and needs args.owner",
        ),
        (
            "check_and_increment",
            "k",
            json!({"limit": 1, "owner": "a", "ttl_ms": 99}),
            "args.ttl_ms: must be 100 to 86400000, not 99",
        ),
        (
            "check_and_increment",
            "k",
            json!({"limit": 1, "window_s": 1}),
            "args.window_s: check_and_increment has no such argument",
        ),
        ("decrement", "k", json!({"owner": long}), "args.owner: "),
        ("decrement", "k", json!({"by": 2}), "args"),
        ("renew", "k", json!({}), "args.owner: is needed"),
        (
            "renew",
            "k",
            json!({"owner": "a", "ttl_ms": 0}),
            "args.ttl_ms: ",
        ),
        (
            "check_rate_limit",
            "k",
            json!({"limit": 1}),
            "args.window_s: ",
        ),
        (
            "check_rate_limit",
            "k",
            json!({"limit": 1, "window_s": 86_401}),
            "args.window_s: must be 1 to 86400, not 86401",
        ),
    ] {
        let body = json!({"operation": operation, "key": key, "args": args});
        let (status, answer) = sidecar.post(&body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {answer}");
        assert_eq!(answer["error"], "invalid", "{body}");
        let message = answer["message"].as_str().expect("a message");
        assert!(message.starts_with(named), "{body}: {message}");
    }
    let nameless = json!({"operation": "get", "key": "k", "script": "return 1"});
    assert_eq!(sidecar.post(&nameless).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(keys(&redis).await, Vec::<String>::new());
}

#[tokio::test]
async fn arguments_may_be_left_out_where_none_is_needed() {
    let redis = Redis::start();
    let sidecar = Sidecar::before(&redis).await;
    for operation in ["get", "decrement"] {
        let body = json!({"operation": operation, "key": "ws:pod_conn:10.1.1.1/a_b-c"});
        let expected = (StatusCode::OK, json!({"count": 0}));
        assert_eq!(sidecar.post(&body).await, expected);
    }
}
