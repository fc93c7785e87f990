//! Rates and caps for the whole fleet, whichever Envoy is asked.

use harness::client::Session;
use harness::docs::Part::{Filter, Policy};
use harness::envoy::tokens::{TENANT_A, TENANT_B};
use harness::{Fleet, RunningFleet, Visit, close_all, split};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use std::time::{Duration, Instant};

/// When each lease was given, by the pool's clock, in milliseconds; the oldest first.
async fn admissions(fleet: &RunningFleet) -> Vec<f64> {
    let script = "EVAL \"local t = {} \
        for _, k in ipairs(redis.call('KEYS', 'ws:*:holder:*')) do \
          local h = redis.call('HGETALL', k) \
          for i = 1, #h, 2 do if tonumber(h[i]) then \
            local _, _, since = struct.unpack('>ddd', h[i + 1]) t[#t + 1] = since end end end \
        table.sort(t) for i = 1, #t do t[i] = string.format('%.3f', t[i]) end \
        return table.concat(t, ' ')\" 0";
    let told = fleet.redis.told(script).await;
    let numbers = told.split_whitespace().filter_map(|it| it.parse().ok());
    numbers.collect()
}

/// Comes to both Envoys again and again; keeps what is admitted.
async fn press(fleet: &RunningFleet, lasting: Duration) -> (Vec<Session>, usize) {
    let (mut sessions, mut refused) = (Vec::new(), 0);
    let start = Instant::now();
    while start.elapsed() < lasting {
        let (admitted, refusals) = split(fleet.websockets(4).await);
        sessions.extend(admitted);
        refused += refusals.len();
        for refusal in refusals {
            assert_eq!(refusal.status, 429, "{refusal:?}");
            assert_eq!(refusal.reason.as_deref(), Some("rate_limited"));
            assert_eq!(refusal.retry_after_s, Some(1), "a second at most");
        }
    }
    (sessions, refused)
}

#[tokio::test]
async fn one_a_second_is_one_a_second_through_two_envoys() {
    let lasting = Duration::from_secs(if cfg!(feature = "full") { 30 } else { 5 });
    let fleet = Fleet::new().envoys(2).max_concurrent(1000);
    let fleet = fleet.example("rate", &[Policy]).up().await;
    let (sessions, refused) = press(&fleet, lasting).await;
    let admissions = admissions(&fleet).await;
    let gaps: Vec<f64> = admissions.windows(2).map(|two| two[1] - two[0]).collect();
    eprintln!(
        "{} admitted, {refused} refused in {lasting:?}, shortest gap {:.3} ms",
        admissions.len(),
        gaps.iter().copied().fold(f64::INFINITY, f64::min)
    );
    assert_eq!(admissions.len(), sessions.len());
    assert!(refused > sessions.len(), "there was no pressure");
    assert!(gaps.iter().all(|gap| *gap >= 999.0), "{gaps:?}");
    let due = lasting.as_secs() as usize;
    assert!(sessions.len() + 1 >= due / 2, "{} of {due}", sessions.len());
}

#[tokio::test]
async fn a_burst_comes_in_at_once_and_no_more() {
    let fleet = Fleet::new().envoys(2).max_concurrent(1000);
    let fleet = fleet.example("burst", &[Policy]).up().await;
    let start = Instant::now();
    let (sessions, refused) = split(fleet.websockets(100).await);
    let seconds = start.elapsed().as_secs() as usize + 1;
    assert!(
        (60..=60 + seconds).contains(&sessions.len()),
        "{}",
        sessions.len()
    );
    assert_eq!(sessions.len() + refused.len(), 100);
}

fn headers(name: HeaderName, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_str(value).expect("a value"))])
}

/// So many at the same time, spread over the Envoys.
async fn race(fleet: &RunningFleet, count: usize, headers: &HeaderMap) -> Vec<Visit> {
    let visit = |number: usize| {
        let client = fleet.envoys[number % fleet.envoys.len()].client();
        let headers = headers.clone();
        async move { client.websocket_with("/", headers).await }
    };
    futures_util::future::join_all((0..count).map(visit)).await
}

#[tokio::test]
async fn a_client_has_three_places_in_the_whole_fleet() {
    let fleet = Fleet::new().envoys(2).max_concurrent(1000);
    let fleet = fleet.example("client", &[Filter, Policy]).up().await;
    let tenant = |name| headers(HeaderName::from_static("x-tenant"), name);
    let (sessions, refused) = split(race(&fleet, 50, &tenant("a")).await);
    assert_eq!((sessions.len(), refused.len()), (3, 47));
    for refusal in refused {
        assert_eq!(
            (refusal.status, refusal.reason.as_deref()),
            (429, Some("client_limit"))
        );
    }
    assert_eq!(split(race(&fleet, 5, &tenant("b")).await).0.len(), 3);
    close_all(sessions).await;
    fleet
        .sees("the tenants' places are back", |pool| pool.active == 0)
        .await;
    assert_eq!(split(race(&fleet, 5, &tenant("a")).await).0.len(), 3);
}

#[tokio::test]
async fn a_client_is_known_by_its_address() {
    let fleet = Fleet::new().max_concurrent(1000);
    let fleet = fleet.policy(|policy| policy.client.max_concurrent = 2);
    let fleet = fleet.filter(|filter| filter["client"] = json!("peer"));
    let fleet = fleet.up().await;
    // Every connection has a port of its own, and what a client claims to be is not asked.
    let forged = headers(HeaderName::from_static("x-forwarded-for"), "10.1.2.3");
    let (sessions, refused) = split(race(&fleet, 5, &forged).await);
    assert_eq!((sessions.len(), refused.len()), (2, 3));
}

#[tokio::test]
async fn a_client_is_known_by_a_claim_of_its_token() {
    let fleet = Fleet::new().max_concurrent(1000).verify_tokens();
    let fleet = fleet.policy(|policy| policy.client.max_concurrent = 2);
    let fleet = fleet.filter(|filter| {
        filter["client"] = json!({"metadata": {
            "filter": "envoy.filters.http.jwt_authn", "path": ["claims", "sub"]}});
    });
    let fleet = fleet.up().await;
    let token = |token| headers(AUTHORIZATION, &format!("Bearer {token}"));
    let (first, refused) = split(race(&fleet, 5, &token(TENANT_A)).await);
    assert_eq!((first.len(), refused.len()), (2, 3));
    let (second, _) = split(race(&fleet, 5, &token(TENANT_B)).await);
    assert_eq!(second.len(), 2);
}

#[tokio::test]
async fn a_limit_in_the_shadow_lets_all_in_and_is_counted() {
    let fleet = Fleet::new().example("shadow", &[Policy]).up().await;
    let (sessions, refused) = split(fleet.websockets(5).await);
    assert_eq!((sessions.len(), refused.len()), (5, 0));
    let metrics = fleet.api().metrics().await.unwrap();
    let line = r#"berth_shadow_denials_total{pool="demo",limit="max_concurrent"} 4"#;
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn a_strategy_in_the_shadow_is_compared() {
    let fleet = Fleet::new().workers(3).max_concurrent(10);
    let fleet = fleet.example("shadow-strategy", &[Policy]).up().await;
    let (sessions, _) = split(fleet.websockets(9).await);
    assert_eq!(sessions.len(), 9);
    let metrics = fleet.api().metrics().await.unwrap();
    let line = r#"berth_shadow_decisions_total{pool="demo"} 9"#;
    assert!(metrics.contains(line), "{metrics}");
}
