//! Envoy without the filter: the shipped envoy/lua-filter.yaml, whose Lua counts at `/redis/atomic`.

use futures_util::future::join_all;
use harness::http::{self, Answer};
use harness::{Fleet, History, RouteBy, RunningFleet, eventually, paths};
use hyper::Method;
use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use serde_json::{Value, json};
use std::process::Command;

const LIMIT: usize = 2;

fn lua_fleet() -> Fleet {
    Fleet::new().route_by(RouteBy::LuaFilter)
}

/// How many requests are counted, as the sidecar tells.
async fn count(fleet: &RunningFleet) -> Value {
    let body = json!({"operation": "get", "key": "workers"}).to_string();
    let target = fleet.sidecars[0].target();
    let answer = http::send_json(&target, Method::POST, "/redis/atomic", body).await;
    let answer = answer.expect("a count");
    let told: Value = serde_json::from_slice(answer.body()).expect("JSON");
    told["count"].clone()
}

async fn all_is_given_back(fleet: &RunningFleet) {
    eventually("every place is given back", async || {
        count(fleet).await == 0
    })
    .await;
    for name in ["count", "owners", "deadlines"] {
        let ask = format!("EXISTS ws:atomic:{{workers}}:{name}");
        assert_eq!(fleet.redis.told(&ask).await, "0", "{name}");
    }
}

/// Reason and seconds to wait of an answer that is a refusal.
fn refusal(answer: &Answer) -> (u16, &str, u64) {
    let text = |name: &str| {
        answer
            .headers()
            .get(name)
            .and_then(|text| text.to_str().ok())
    };
    let wait = text(RETRY_AFTER.as_str()).and_then(|text| text.parse().ok());
    let reason = text("x-berth-reason").unwrap_or_default();
    (answer.status().as_u16(), reason, wait.unwrap_or_default())
}

#[tokio::test]
async fn of_ten_requests_at_once_two_come_in_through_any_envoy() {
    let fleet = lua_fleet().envoys(2).delay_ms(3_000).up().await;
    let client = |number: usize| fleet.envoys[number % 2].client();
    let visits = (0..10).map(|number| async move { client(number).get("/").await });
    let answers = join_all(visits).await;
    let (served, refused): (Vec<_>, Vec<_>) =
        (answers.iter()).partition(|answer| answer.status() == 200);
    assert_eq!((served.len(), refused.len()), (LIMIT, 8));
    for answer in refused {
        assert_eq!(refusal(answer), (503, "pool_full", 1));
    }
    let history = History::of(&fleet.workers, LIMIT);
    assert!(history.overlaps.is_empty(), "{history}");
    history.assert_clean();
    all_is_given_back(&fleet).await;
}

#[tokio::test]
async fn request_after_request_is_counted_and_given_back() {
    let fleet = lua_fleet()
        .envoys(2)
        .filter(|lua| lua["RATE_LIMIT"] = json!(1_000_000))
        .up()
        .await;
    let visits = (0..100).map(|number| {
        let client = fleet.envoys[number % 2].client();
        async move { client.get("/").await.status().as_u16() }
    });
    let statuses = join_all(visits).await;
    assert!(statuses.contains(&200), "{statuses:?}");
    assert!(
        statuses.iter().all(|status| [200, 503].contains(status)),
        "{statuses:?}"
    );
    let history = History::of(&fleet.workers, LIMIT);
    assert!(history.overlaps.is_empty(), "{history}");
    history.assert_clean();
    all_is_given_back(&fleet).await;
}

#[tokio::test]
async fn the_place_of_a_client_that_left_comes_back_after_its_time() {
    let short = |lua: &mut Value| lua["TTL_MS"] = json!(2_000);
    let fleet = lua_fleet().filter(short).delay_ms(60_000).up().await;
    let journal = fleet.workers[0].journal();
    let client = fleet
        .client()
        .raw(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        .await;
    eventually("the request is at the worker", async || journal.open() == 1).await;
    assert_eq!(count(&fleet).await, 1);
    drop(client);
    eventually("the worker has seen it go", async || journal.open() == 0).await;
    all_is_given_back(&fleet).await;
}

#[tokio::test]
async fn places_are_given_back_when_the_worker_is_away() {
    let fleet = lua_fleet().up().await;
    fleet.workers[0].stop_serving().await;
    for _ in 0..5 {
        let answer = fleet.client().get("/").await;
        assert_eq!((answer.status().as_u16(), refusal(&answer).1), (503, ""));
        all_is_given_back(&fleet).await;
    }
}

#[tokio::test]
async fn nobody_comes_in_while_nobody_can_be_asked() {
    let fleet = lua_fleet().up().await;
    fleet.sidecars[0].process.kill();
    let answer = fleet.client().get("/").await;
    assert_eq!(refusal(&answer), (503, "outage", 1));
    assert_eq!(fleet.workers[0].journal().opened_total(), 0);
}

#[tokio::test]
async fn nobody_comes_in_when_the_script_fails() {
    let broken = |lua: &mut Value| lua["SIDECAR"] = json!("nobody");
    let fleet = lua_fleet().filter(broken).up().await;
    let answer = fleet.client().get("/").await;
    assert_eq!(refusal(&answer), (503, "outage", 1));
    assert_eq!(fleet.workers[0].journal().opened_total(), 0);
}

#[tokio::test]
async fn a_rate_is_kept_by_all_envoys_together() {
    let rate = |lua: &mut Value| {
        lua["RATE_LIMIT"] = json!(1);
        lua["RATE_WINDOW_S"] = json!(86_400);
    };
    let fleet = lua_fleet().envoys(2).filter(rate).up().await;
    assert_eq!(fleet.envoys[0].client().get("/").await.status(), 200);
    let answer = fleet.envoys[1].client().get("/").await;
    let (status, reason, wait_s) = refusal(&answer);
    assert_eq!((status, reason), (429, "rate_limited"));
    assert!((1..=86_400).contains(&wait_s), "{wait_s}");
    all_is_given_back(&fleet).await;
}

#[tokio::test]
async fn a_clients_own_request_id_owns_nothing() {
    let fleet = lua_fleet().up().await;
    let mut headers = HeaderMap::new();
    headers.insert("x-request-id", HeaderValue::from_static("\"}, not an id"));
    let answer = fleet.client().get_with("/", headers).await;
    assert_eq!(answer.status(), 200);
    all_is_given_back(&fleet).await;
}

#[tokio::test]
async fn a_websocket_is_refused_because_its_end_would_not_be_seen() {
    let fleet = lua_fleet().up().await;
    assert_eq!(fleet.client().websocket("/").await.refused().status, 403);
    assert_eq!(count(&fleet).await, 0);
}

/// Every `$ curl …` of the page, and what it says that comes back.
fn examples(page: &str) -> Vec<(&str, &str)> {
    let mut lines = page.lines();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if let (Some(command), Some(answer)) = (line.strip_prefix("$ "), lines.clone().next()) {
            found.push((command, answer));
        }
    }
    found
}

#[tokio::test]
async fn the_page_says_what_happens() {
    let fleet = Fleet::new().up().await;
    let file = paths::top().join("docs/option-b.md");
    let page = std::fs::read_to_string(&file).expect("docs/option-b.md");
    let examples = examples(&page);
    assert!(examples.len() >= 5, "{examples:?}");
    for (command, expected) in examples {
        let address = fleet.sidecars[0].listen().to_string();
        let command = command.replace("127.0.0.1:7070", &address);
        let output = Command::new("sh").args(["-c", &command]).output();
        let output = output.expect("a shell");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            expected,
            "{command}"
        );
    }
}
