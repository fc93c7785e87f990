use crate::support::{Api, Pool, default_policy};
use admission::message::{AdmitAnswer, GROUP_MAX};
use axum::http::StatusCode;
use redis_sidecar::store::Store;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinSet;

const REQUESTS: u64 = 64;

/// How many calls so many requests take that come at once. All of them must get in.
async fn calls_of(pool: &Pool, store: &Store) -> u64 {
    pool.redis.command(&["CONFIG", "RESETSTAT"]).await;
    let mut asking = JoinSet::new();
    for _ in 0..REQUESTS {
        let (store, question) = (store.clone(), pool.question(&pool.mint()));
        asking.spawn(async move { store.admit(&question).await.expect("a decision") });
    }
    for answer in asking.join_all().await {
        assert!(matches!(answer, AdmitAnswer::Admitted(_)), "{answer:?}");
    }
    pool.redis.calls_of("fcall").await
}

#[tokio::test]
async fn admissions_that_come_at_once_go_by_few_calls() {
    let pool = Pool::with(|policy| policy.max_concurrent = REQUESTS as u32).await;
    pool.register("w1", "a").await;
    pool.admit().await;
    pool.register("w2", "a").await;
    let calls = calls_of(&pool, &pool.store).await;
    assert!((1..REQUESTS / 4).contains(&calls), "{calls} calls");
    assert_eq!(pool.view().await.head.active, REQUESTS + 1);
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn a_group_of_one_is_a_call_for_each() {
    let pool = Pool::with(|policy| policy.max_concurrent = REQUESTS as u32).await;
    pool.register("w1", "a").await;
    let alone = pool.store_with(|redis| redis.group_max = 1).await;
    assert_eq!(calls_of(&pool, &alone).await, REQUESTS);
}

#[tokio::test]
async fn whoever_happens_to_send_may_leave_and_the_others_are_answered() {
    let pool = Pool::with(|policy| policy.max_concurrent = REQUESTS as u32).await;
    pool.register("w1", "a").await;
    let ask = || {
        let (store, question) = (pool.store.clone(), pool.question(&pool.mint()));
        tokio::spawn(async move { store.admit(&question).await })
    };
    let (first, second) = (ask(), ask());
    tokio::task::yield_now().await; // both have joined, and nobody is answered yet
    first.abort();
    second.await.expect("a task").expect("a decision");
    pool.admit().await;
}

/// Questions of the pool's own holder, with these numbers.
fn questions(api: &Api, numbers: impl IntoIterator<Item = u64>) -> Value {
    let questions: Vec<Value> = (numbers.into_iter())
        .map(|number| json!({"number": number}))
        .collect();
    json!({"pool": "demo", "holder": api.pool.holder, "questions": questions})
}

#[tokio::test]
async fn a_group_over_http_is_decided_one_after_the_other() {
    let api = Api::new().await;
    api.register().await;
    let room = u64::from(default_policy().max_concurrent);
    let asked = questions(&api, 1..=room + 1);
    let answer = api.json("POST", "/v1/admit/group", asked.clone()).await;
    let answers = answer.body["answers"].as_array().expect("answers");
    let decisions: Vec<_> = answers.iter().map(|it| it["decision"].clone()).collect();
    let mut expected = vec![json!("admitted"); usize::try_from(room).expect("some")];
    expected.push(json!("denied"));
    assert_eq!(decisions, expected);
    assert_eq!(answers[0]["address"], "10.0.0.1:80");
    assert_eq!(answers[0]["active"], 1);
    assert_eq!(answers.last().expect("one")["reason"], "pool_full");
    // Asking twice is asking once.
    api.json("POST", "/v1/admit/group", asked).await;
    assert_eq!(api.pool.view().await.head.active, room);
}

#[tokio::test]
async fn a_group_over_http_has_as_many_as_it_may_have() {
    let api = Api::new().await;
    let too_many = u64::try_from(GROUP_MAX).expect("few") + 1;
    for numbers in [0..0, 1..too_many + 1] {
        let answer = api
            .json("POST", "/v1/admit/group", questions(&api, numbers))
            .await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        let message = answer.body["message"].as_str().expect("a sentence");
        assert!(message.starts_with("questions"), "{message}");
    }
    let beyond = questions(&api, [(1 << 53) + 1]);
    let answer = api.json("POST", "/v1/admit/group", beyond).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn answers_that_nobody_hears_leave_no_leases() {
    let api = Api::with_budget(Duration::from_millis(50)).await;
    api.register().await;
    api.pool.redis.stop();
    let asked = questions(&api, 1..=2);
    let answer = api.json("POST", "/v1/admit/group", asked).await;
    assert_eq!(answer.body["error"], "store_unavailable");
    api.pool.redis.go_on();
    api.until_taken_back(2).await;
    assert_eq!(api.pool.worker("w1").await.lifetime, 0);
}
