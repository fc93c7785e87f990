//! The limits that are not a worker's own: rates, the pool's cap, and those of each client.

use crate::support::{Pool, eventually};
use admission::message::{AdmitAnswer, AdmitRequest, Denied, DenyReason, Release};
use admission::policy::{Algorithm, Policy};
use redis_sidecar::view::RateView;
use std::time::Duration;
use tokio::task::JoinSet;

async fn pool_with(adjust: impl FnOnce(&mut Policy)) -> Pool {
    let pool = Pool::with(|policy| {
        policy.max_concurrent = 1_000_000;
        policy.max_lifetime = 1_000_000;
        adjust(policy);
    })
    .await;
    pool.register("w1", "a").await;
    pool
}

fn rate(text: &str) -> Option<admission::policy::Rate> {
    Some(text.parse().expect("a rate"))
}

async fn ask_as(pool: &Pool, client: &str) -> AdmitAnswer {
    let mut question = pool.question(&pool.mint());
    question.client = Some(client.to_owned());
    pool.store.admit(&question).await.expect("a decision")
}

fn is_admitted(answer: &AdmitAnswer) -> bool {
    matches!(answer, AdmitAnswer::Admitted(_))
}

async fn denial(pool: &Pool, question: &AdmitRequest) -> Denied {
    match pool.store.admit(question).await.expect("a decision") {
        AdmitAnswer::Denied(denied) => denied,
        answer => panic!("not denied: {answer:?}"),
    }
}

#[tokio::test]
pub(crate) async fn a_rate_of_one_a_second_is_never_two_in_one() {
    let pool = pool_with(|policy| policy.requests.rate = rate("1/s")).await;
    let mut clock = pool.clock().await;
    pool.admit().await;
    for later_ms in [1.0, 400.0, 500.0] {
        clock.advance(later_ms).await;
        assert_eq!(pool.denied().await, DenyReason::RateLimited);
    }
    clock.advance(100.0).await;
    pool.admit().await;
}

#[tokio::test]
async fn a_denied_request_takes_nothing_and_is_told_when_to_come() {
    let pool = pool_with(|policy| policy.requests.rate = rate("1/10s")).await;
    let mut clock = pool.clock().await;
    pool.admit().await;
    clock.advance(600.0).await;
    let denied = denial(&pool, &pool.question(&pool.mint())).await;
    assert_eq!(denied.reason, DenyReason::RateLimited);
    assert!(
        (9_000..=9_400).contains(&denied.retry_after_ms),
        "{denied:?}"
    );
    for _ in 0..50 {
        assert_eq!(pool.denied().await, DenyReason::RateLimited);
    }
    clock.advance(denied.retry_after_ms as f64).await;
    pool.admit().await;
}

#[tokio::test]
async fn a_burst_is_what_may_come_at_once_and_then_the_rate_holds() {
    let pool = pool_with(|policy| {
        policy.requests.rate = rate("60/min");
        policy.requests.burst = 60;
    })
    .await;
    let mut clock = pool.clock().await;
    for _ in 0..60 {
        pool.admit().await;
    }
    assert_eq!(pool.denied().await, DenyReason::RateLimited);
    // However long the test took so far: some may have come back.
    clock.advance(10_000.0).await;
    let mut admitted = 0;
    while is_admitted(&pool.ask(&pool.mint()).await) {
        admitted += 1;
    }
    assert!((10..=20).contains(&admitted), "{admitted} in ten seconds");
}

#[tokio::test]
async fn a_fixed_window_begins_anew_with_the_clock() {
    let pool = pool_with(|policy| {
        policy.requests.rate = rate("3/2s");
        policy.requests.algorithm = Algorithm::FixedWindow;
    })
    .await;
    let until_next = async || {
        eventually(async || is_admitted(&pool.ask(&pool.mint()).await)).await;
    };
    until_next().await;
    while is_admitted(&pool.ask(&pool.mint()).await) {}
    let full = pool.view().await.head.rate_limit;
    let Some(RateView::Window { window, used }) = full else {
        panic!("no window: {full:?}");
    };
    assert_eq!(used, 3);
    let denied = denial(&pool, &pool.question(&pool.mint())).await;
    assert!(denied.retry_after_ms <= 2000, "{denied:?}");
    until_next().await;
    match pool.view().await.head.rate_limit {
        Some(RateView::Window { window: now, used }) => {
            assert!(now > window && used <= 3, "{now} {window} {used}");
        }
        other => panic!("no window: {other:?}"),
    }
}

#[tokio::test]
pub(crate) async fn the_pool_has_a_limit_of_its_own() {
    let pool = pool_with(|policy| policy.global_conn = 3).await;
    pool.register("w2", "a").await;
    let lease = pool.admit().await.lease;
    pool.admit().await;
    pool.admit().await;
    assert_eq!(pool.denied().await, DenyReason::PoolFull);
    pool.release(&lease).await;
    pool.admit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn fifty_racing_for_three_places_of_a_client_get_three() {
    let pool = pool_with(|policy| policy.client.max_concurrent = 3).await;
    let stores = [pool.store.clone(), pool.second_store().await];
    let mut racing = JoinSet::new();
    for number in 0..50 {
        let store = stores[number % 2].clone();
        let mut question = pool.question(&pool.mint());
        question.client = Some("tenant-a".to_owned());
        racing.spawn(async move { store.admit(&question).await.expect("a decision") });
    }
    let answers = racing.join_all().await;
    assert_eq!(answers.iter().filter(|it| is_admitted(it)).count(), 3);
    assert!(is_admitted(&ask_as(&pool, "tenant-b").await));
    pool.assert_no_drift().await;
}

#[tokio::test]
pub(crate) async fn a_clients_place_comes_back_with_its_lease() {
    let pool = pool_with(|policy| policy.client.max_concurrent = 1).await;
    for _ in 0..3 {
        let AdmitAnswer::Admitted(admitted) = ask_as(&pool, "a").await else {
            panic!("the place did not come back");
        };
        match ask_as(&pool, "a").await {
            AdmitAnswer::Denied(denied) => assert_eq!(denied.reason, DenyReason::ClientLimit),
            answer => panic!("{answer:?}"),
        }
        pool.release(&admitted.lease).await;
    }
    let head = pool.view().await.head;
    assert_eq!((head.clients, head.active), (0, 0), "nothing is left");
}

#[tokio::test]
async fn each_client_has_its_own_rate() {
    let pool = pool_with(|policy| policy.client.rate = rate("1/min")).await;
    assert!(is_admitted(&ask_as(&pool, "a").await));
    assert!(is_admitted(&ask_as(&pool, "b").await));
    assert!(!is_admitted(&ask_as(&pool, "a").await));
    assert!(
        is_admitted(&pool.ask(&pool.mint()).await),
        "no key, no limit"
    );
}

#[tokio::test]
pub(crate) async fn beyond_the_keys_that_are_kept_all_share_one_place() {
    let pool = pool_with(|policy| {
        policy.client.max_concurrent = 2;
        policy.client.keys_max = 5;
    })
    .await;
    let mut admitted = 0;
    for number in 0..20 {
        admitted += u64::from(is_admitted(&ask_as(&pool, &number.to_string()).await));
    }
    assert_eq!(admitted, 5 + 2, "five of their own, and two for all others");
    assert_eq!(pool.view().await.head.clients, 6);
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn clients_that_stay_away_are_forgotten() {
    let pool = pool_with(|policy| {
        policy.client.rate = rate("1/s");
        policy.client.keys_max = 50;
    })
    .await;
    let mut clock = pool.clock().await;
    for round in 0..20 {
        for number in 0..10 {
            let key = format!("{round}-{number}");
            assert!(is_admitted(&ask_as(&pool, &key).await), "{key}");
        }
        clock.advance(1500.0).await;
    }
    let kept = pool.view().await.head.client_rates;
    assert!(kept <= 20, "{kept} of 200 are kept");
}

#[tokio::test]
async fn a_limit_in_the_shadow_counts_and_lets_all_in() {
    let pool = pool_with(|policy| {
        policy.requests.rate = rate("1/min");
        policy.client.max_concurrent = 1;
        policy.global_conn = 2;
        policy.shadow =
            serde_json::from_str(r#"["requests.rate", "client.max_concurrent"]"#).unwrap();
    })
    .await;
    assert!(is_admitted(&ask_as(&pool, "a").await));
    assert!(is_admitted(&ask_as(&pool, "a").await));
    match ask_as(&pool, "a").await {
        AdmitAnswer::Denied(denied) => assert_eq!(denied.reason, DenyReason::PoolFull),
        answer => panic!("global_conn is no shadow: {answer:?}"),
    }
    let shadowed = pool.view().await.head.shadowed;
    assert_eq!(shadowed["requests.rate"], 2);
    assert_eq!(shadowed["client.max_concurrent"], 2);
}

#[tokio::test]
async fn a_pool_in_the_shadow_denies_nobody_that_a_worker_could_serve() {
    let pool = Pool::with(|policy| {
        policy.max_concurrent = 1;
        policy.shadow = serde_json::from_str(r#"["all"]"#).unwrap();
    })
    .await;
    assert_eq!(pool.denied().await, DenyReason::NoWorker, "there is nobody");
    pool.register("w1", "a").await;
    pool.register("w2", "a").await;
    for _ in 0..10 {
        pool.admit().await;
    }
    let view = pool.view().await;
    assert_eq!(view.head.active, 10);
    assert_eq!(view.head.shadowed["max_concurrent"], 8);
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn rates_are_used_up_after_a_loss() {
    let pool = pool_with(|policy| {
        policy.requests.rate = rate("1/min");
        policy.client.rate = rate("1/min");
        policy.rebuild_ms = 100;
        policy.lease_ttl_ms = 100;
    })
    .await;
    let mut clock = pool.clock().await;
    let mut over = async || {
        clock.advance(200.0).await;
        pool.reap().await;
    };
    over().await;
    assert_eq!(pool.denied().await, DenyReason::RateLimited);
    clock.advance(60_000.0).await;
    pool.heartbeat("w1", "a").await;
    assert!(is_admitted(&ask_as(&pool, "a").await));
}

#[tokio::test]
async fn a_changed_rate_is_kept_from_the_next_decision_on() {
    let pool = pool_with(|policy| policy.requests.rate = rate("1/min")).await;
    pool.admit().await;
    assert_eq!(pool.denied().await, DenyReason::RateLimited);
    let mut policy = pool.store.policy(&pool.name).expect("a policy").clone();
    policy.requests.rate = rate("10000/s");
    policy.requests.algorithm = Algorithm::FixedWindow;
    pool.store
        .apply(&pool.name, &policy)
        .await
        .expect("a change");
    tokio::time::sleep(Duration::from_millis(1)).await; // allow: any time will do
    pool.admit().await;
    pool.admit().await;
}

#[tokio::test]
async fn a_loosened_rate_is_not_kept_to_the_old() {
    let pool = pool_with(|policy| policy.requests.rate = rate("1/d")).await;
    pool.admit().await;
    assert_eq!(pool.denied().await, DenyReason::RateLimited);
    let mut policy = pool.store.policy(&pool.name).expect("a policy").clone();
    policy.requests.rate = rate("1/s");
    pool.store
        .apply(&pool.name, &policy)
        .await
        .expect("a change");
    pool.clock().await.advance(1100.0).await;
    pool.admit().await;
}

#[tokio::test]
pub(crate) async fn who_was_among_the_others_gets_no_second_share() {
    let pool = pool_with(|policy| {
        policy.client.max_concurrent = 2;
        policy.client.keys_max = 2;
    })
    .await;
    let mut named = Vec::new();
    for client in ["a", "c"] {
        let AdmitAnswer::Admitted(admitted) = ask_as(&pool, client).await else {
            panic!("a place for the first two");
        };
        named.push(admitted.lease);
    }
    for _ in 0..2 {
        assert!(
            is_admitted(&ask_as(&pool, "b").await),
            "as one of the others"
        );
    }
    for lease in &named {
        pool.release(lease).await;
    }
    assert!(
        !is_admitted(&ask_as(&pool, "b").await),
        "though there is room for its name"
    );
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn a_shadow_does_not_open_the_gates_of_a_strategy() {
    let pool = Pool::with(|policy| {
        policy.strategy = admission::policy::Strategy::Score;
        policy.shadow = serde_json::from_str(r#"["max_concurrent"]"#).unwrap();
    })
    .await;
    pool.register("silent", "a").await;
    assert_eq!(
        pool.denied().await,
        DenyReason::PoolFull,
        "it has not reported"
    );
}

/// What Redis has allocated.
async fn used_memory(pool: &Pool) -> u64 {
    let mut connection = pool.redis.connection().await;
    let info: String = (redis::cmd("INFO")
        .arg("memory")
        .query_async(&mut connection))
    .await
    .expect("what Redis says");
    let line = info.lines().find_map(|it| it.strip_prefix("used_memory:"));
    line.and_then(|it| it.trim().parse().ok())
        .expect("a number")
}

/// Each once, many at a time.
async fn come_and_go(pool: &Pool, clients: std::ops::Range<u64>) {
    const AT_ONCE: usize = 200;
    let mut visits = JoinSet::new();
    for number in clients {
        let (store, mut question) = (pool.store.clone(), pool.question(&pool.mint()));
        question.client = Some(number.to_string());
        visits.spawn(async move {
            if let AdmitAnswer::Admitted(admitted) =
                store.admit(&question).await.expect("an answer")
            {
                let release = Release::unused(admitted.lease);
                let epoch = &question.holder.epoch;
                let released = store.release(&question.pool, epoch, &[release]).await;
                released.expect("a release");
            }
        });
        if visits.len() >= AT_ONCE {
            while visits.join_next().await.is_some() {}
            pool.heartbeat("w1", "a").await;
            pool.reap().await;
        }
    }
    while visits.join_next().await.is_some() {}
    pool.reap().await;
}

/// `make test-nightly` tries a million.
#[tokio::test]
async fn however_many_clients_come_no_more_is_kept_than_for_those_told_apart() {
    let count = std::env::var("BERTH_CLIENTS").ok();
    let count: u64 = count.and_then(|it| it.parse().ok()).unwrap_or(20_000);
    let pool = pool_with(|policy| {
        policy.client.max_concurrent = 1;
        policy.client.rate = rate("1/s");
        policy.client.keys_max = 1000;
        policy.lease_ttl_ms = 200;
    })
    .await;
    come_and_go(&pool, 0..5000).await;
    let before = used_memory(&pool).await;
    come_and_go(&pool, 5000..count).await;
    let head = pool.view().await.head;
    let after = used_memory(&pool).await;
    eprintln!(
        "{count} clients: {} rates kept, Redis {before} B, then {after} B",
        head.client_rates
    );
    assert_eq!(head.clients, 0);
    assert!(head.client_rates <= 1001, "{}", head.client_rates);
    let grown = after.saturating_sub(before);
    assert!(grown < 2_000_000, "{before} bytes became {after}");
    pool.assert_no_drift().await;
}
