//! Requests that belong together reach the same worker, and clients that are sent elsewhere.

use admission::policy::Strategy;
use harness::client::{Client, worker_of};
use harness::docs::Part::{Filter, Policy};
use harness::http::Answer;
use harness::{Fleet, RunningFleet, split};
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use serde_json::json;

const TX: HeaderName = HeaderName::from_static("x-tx-id");

/// Begin, queries and commit of a transaction, as docs/limits.md shows it.
async fn transactional(workers: usize) -> RunningFleet {
    let fleet = Fleet::new().envoys(2).workers(workers).max_concurrent(1);
    fleet.example("transactions", &[Filter]).up().await
}

fn text(headers: &HeaderMap, name: &HeaderName) -> String {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

async fn with_key(client: &Client, path: &str, key: &str) -> Answer {
    let key = HeaderValue::from_str(key).expect("a key");
    client
        .get_with(path, HeaderMap::from_iter([(TX, key)]))
        .await
}

fn reason(answer: &Answer) -> String {
    text(answer.headers(), &HeaderName::from_static("x-berth-reason"))
}

#[tokio::test]
async fn a_transaction_reaches_its_worker_until_it_ends() {
    let fleet = transactional(3).await;
    let [one, two] = [fleet.envoys[0].client(), fleet.envoys[1].client()];
    let begun = one.get("/tx/begin").await;
    let (key, worker) = (text(begun.headers(), &TX), worker_of(begun.headers()));
    assert!(!key.is_empty(), "{begun:?}");
    // Every place of every worker is taken, its own too.
    fleet
        .sees("the begin has ended", |pool| pool.active == 0)
        .await;
    let (sessions, _) = split(fleet.websockets(3).await);
    assert_eq!(sessions.len(), 3);
    for number in 0..100 {
        let client = if number % 2 == 0 { &one } else { &two };
        let answer = with_key(client, "/tx/query", &key).await;
        assert_eq!(
            answer.status(),
            StatusCode::OK,
            "{number}: {}",
            reason(&answer)
        );
        assert_eq!(worker_of(answer.headers()), worker, "{number}");
    }
    assert_eq!(
        with_key(&two, "/tx/commit", &key).await.status(),
        StatusCode::OK
    );
    fleet
        .sees("the commit has ended", |pool| pool.active == 3)
        .await;
    let late = with_key(&one, "/tx/query", &key).await;
    assert_eq!(
        (late.status().as_u16(), reason(&late)),
        (503, "affinity_lost".into())
    );
}

#[tokio::test]
async fn a_transaction_whose_worker_died_goes_to_no_other() {
    let fleet = transactional(2).await;
    let client = fleet.client();
    let begun = client.get("/tx/begin").await;
    let (key, worker) = (text(begun.headers(), &TX), worker_of(begun.headers()));
    let dying = fleet.workers.iter().find(|it| it.id().as_str() == worker);
    dying.expect("the worker").die().await;
    // The first to come finds nobody there; from then on it is known.
    let first = with_key(&client, "/tx/query", &key).await;
    assert_eq!(first.status().as_u16(), 503);
    harness::eventually("the worker is known to be gone", async || {
        reason(&with_key(&client, "/tx/query", &key).await) == "affinity_lost"
    })
    .await;
    assert_eq!(
        client.get("/other").await.status(),
        StatusCode::OK,
        "the other serves"
    );
}

#[tokio::test]
async fn a_key_in_the_query_leads_to_its_worker_until_an_answer_says_that_it_is_over() {
    let fleet = Fleet::new().workers(3).max_concurrent(10);
    let fleet = fleet.policy(|policy| policy.strategy = Strategy::RoundRobin);
    let fleet = fleet.filter(|filter| {
        filter["admit"] = json!("everything");
        filter["affinity"] = json!({
            "key": {"query": "tx"},
            "bind": {"answer_header": "x-tx-id"},
            "unbind_header": "x-tx-end",
        });
    });
    let fleet = fleet.up().await;
    let client = fleet.client();
    let begun = client.get("/tx/begin").await;
    let (key, worker) = (text(begun.headers(), &TX), worker_of(begun.headers()));
    for path in ["/tx/query", "/tx/query", "/tx/query", "/tx/end"] {
        let answer = client.get(&format!("{path}?a=1&tx={key}")).await;
        assert_eq!(worker_of(answer.headers()), worker, "{path}");
    }
    fleet
        .sees("the last has ended", |pool| pool.active == 0)
        .await;
    let late = client.get(&format!("/tx/query?tx={key}")).await;
    assert_eq!(reason(&late), "affinity_lost");
}

#[tokio::test]
async fn a_cookie_prefers_its_worker() {
    let fleet = Fleet::new().workers(4).max_concurrent(100);
    let fleet = fleet.policy(|policy| policy.strategy = Strategy::RoundRobin);
    let fleet = fleet.example("cookie", &[Filter, Policy]).up().await;
    let cookie = HeaderMap::from_iter([(
        hyper::header::COOKIE,
        HeaderValue::from_static("theme=dark; sid=42"),
    )]);
    let first = fleet.client().get_with("/", cookie.clone()).await;
    for _ in 0..10 {
        let again = fleet.client().get_with("/", cookie.clone()).await;
        assert_eq!(worker_of(again.headers()), worker_of(first.headers()));
        fleet.client().get("/").await;
    }
}

#[tokio::test]
async fn a_client_is_sent_to_another_worker_but_not_for_ever() {
    let fleet = Fleet::new().workers(2).max_concurrent(1);
    let fleet = fleet.example("redirect", &[Filter]).up().await;
    let client = fleet.client();
    let here = client.get("/a?b=1&berth-hop=1").await;
    assert_eq!(
        (here.status(), worker_of(here.headers()).as_str()),
        (StatusCode::OK, "worker-1")
    );
    let body = String::from_utf8_lossy(here.body()).into_owned();
    assert!(
        !body.contains("berth-hop"),
        "hidden from the worker: {body}"
    );
    fleet
        .sees("its place is free again", |pool| pool.active == 0)
        .await;
    let session = client.websocket("/").await.admitted();
    let sent = client.get("/a?b=1").await;
    assert_eq!(sent.status(), StatusCode::TEMPORARY_REDIRECT);
    let there = fleet.workers[1].address();
    let location = format!("http://{there}/a?b=1&berth-hop=1");
    assert_eq!(text(sent.headers(), &LOCATION), location);
    let third = client.get("/a?berth-hop=2").await;
    assert_eq!(
        (third.status().as_u16(), reason(&third)),
        (429, "too_many_hops".into())
    );
    assert_eq!(
        fleet.view().await.active,
        1,
        "who is sent on takes no place"
    );
    session.close().await;
}
