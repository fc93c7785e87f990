//! Requests with the same key go to the same worker.

use crate::support::{Pool, registration};
use admission::message::{
    AdmitAnswer, Admitted, AffinityRequest, BindRequest, DenyReason, Release, Use,
};
use admission::outcome::Outcome;
use admission::policy::{AffinityMode, Policy, Strategy};

async fn pool_with(adjust: impl FnOnce(&mut Policy)) -> Pool {
    let pool = Pool::with(|policy| {
        policy.strategy = Strategy::RoundRobin;
        policy.max_concurrent = 2;
        policy.max_lifetime = 0;
        adjust(policy);
    })
    .await;
    for worker in ["w1", "w2", "w3"] {
        pool.register(worker, "a").await;
    }
    pool
}

async fn ask(pool: &Pool, key: &str, bind: bool) -> AdmitAnswer {
    let mut question = pool.question(&pool.mint());
    question.affinity = Some(AffinityRequest {
        key: key.to_owned(),
        bind,
    });
    pool.store.admit(&question).await.expect("a decision")
}

async fn admit(pool: &Pool, key: &str, bind: bool) -> Admitted {
    match ask(pool, key, bind).await {
        AdmitAnswer::Admitted(admitted) => admitted,
        answer => panic!("not admitted: {answer:?}"),
    }
}

async fn denied(pool: &Pool, key: &str, bind: bool) -> DenyReason {
    match ask(pool, key, bind).await {
        AdmitAnswer::Denied(denied) => denied.reason,
        answer => panic!("not denied: {answer:?}"),
    }
}

/// A transaction: begun by a request without a key, and bound by its answer.
async fn begin(pool: &Pool, key: &str) -> Admitted {
    let admitted = pool.admit().await;
    let request = BindRequest {
        pool: pool.name.clone(),
        holder: pool.holder.clone(),
        lease: admitted.lease.clone(),
        key: key.to_owned(),
    };
    assert!(pool.store.bind(&request).await.expect("an answer").bound);
    admitted
}

#[tokio::test]
pub(crate) async fn a_transaction_stays_with_its_worker_whatever_its_load() {
    let pool = pool_with(|policy| {
        policy.global_conn = 4;
        policy.requests.rate = Some("3/h".parse().unwrap());
        policy.requests.burst = 3;
    })
    .await;
    let worker = begin(&pool, "tx").await.worker;
    for _ in 0..100 {
        assert_eq!(admit(&pool, "tx", false).await.worker, worker);
    }
    let shown = pool.worker(worker.as_str()).await;
    assert_eq!((shown.active, shown.bound), (101, 100));
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn an_end_unbinds() {
    let pool = pool_with(|_| {}).await;
    begin(&pool, "tx").await;
    let commit = admit(&pool, "tx", false).await;
    let key = commit.affinity.expect("the key's hash");
    pool.release_with(Release {
        unbind: Some(key),
        r#use: Use::Used,
        outcome: Outcome::Success,
        ..Release::unused(commit.lease)
    })
    .await;
    assert_eq!(denied(&pool, "tx", false).await, DenyReason::AffinityLost);
    assert_eq!(pool.view().await.head.bindings, 0);
}

#[tokio::test]
pub(crate) async fn a_bound_worker_that_is_gone_is_replaced_by_none() {
    let pool = pool_with(|_| {}).await;
    let worker = begin(&pool, "tx").await.worker;
    pool.register(worker.as_str(), "b").await;
    assert_eq!(denied(&pool, "tx", false).await, DenyReason::AffinityLost);
    assert_eq!(denied(&pool, "none", false).await, DenyReason::AffinityLost);
}

#[tokio::test]
async fn a_bound_worker_that_cannot_be_reached_is_waited_for() {
    let pool = pool_with(|_| {}).await;
    let first = begin(&pool, "tx").await;
    pool.release_as(&first.lease, Use::Unused, Outcome::ConnectFailed)
        .await;
    assert_eq!(denied(&pool, "tx", false).await, DenyReason::AffinityLost);
    pool.clock().await.advance(2000.0).await;
    assert_eq!(admit(&pool, "tx", false).await.worker, first.worker);
}

#[tokio::test]
async fn a_draining_worker_keeps_its_bound_sessions() {
    let pool = pool_with(|_| {}).await;
    let worker = begin(&pool, "tx").await.worker;
    let drained = pool.store.drain(&pool.name, &worker).await;
    drained.expect("a drain");
    assert_eq!(admit(&pool, "tx", false).await.worker, worker);
    for _ in 0..4 {
        assert_ne!(pool.admit().await.worker, worker, "nothing new comes");
    }
}

#[tokio::test]
async fn the_first_request_with_a_key_may_bind_it() {
    let pool = pool_with(|_| {}).await;
    let worker = admit(&pool, "s", true).await.worker;
    for _ in 0..5 {
        assert_eq!(admit(&pool, "s", true).await.worker, worker);
    }
}

#[tokio::test]
pub(crate) async fn a_preference_gives_way_and_binds_anew() {
    let pool = pool_with(|policy| policy.affinity.mode = AffinityMode::Prefer).await;
    let first = admit(&pool, "s", true).await;
    assert_eq!(admit(&pool, "s", true).await.worker, first.worker);
    // It has no room left.
    let second = admit(&pool, "s", true).await;
    assert_ne!(second.worker, first.worker);
    pool.release(&first.lease).await;
    assert_eq!(admit(&pool, "s", true).await.worker, second.worker);
    assert_eq!(pool.worker(second.worker.as_str()).await.bound, 0);
}

#[tokio::test]
async fn a_key_that_nobody_uses_is_unbound_and_one_in_use_is_not() {
    let pool = pool_with(|policy| policy.affinity.ttl_ms = 1000).await;
    begin(&pool, "idle").await;
    begin(&pool, "busy").await;
    let mut clock = pool.clock().await;
    for _ in 0..4 {
        clock.advance(400.0).await;
        let lease = admit(&pool, "busy", false).await.lease;
        pool.release(&lease).await;
    }
    assert_eq!(denied(&pool, "idle", false).await, DenyReason::AffinityLost);
}

#[tokio::test]
pub(crate) async fn no_more_keys_are_bound_than_may_be() {
    let pool = pool_with(|policy| policy.affinity.keys_max = 2).await;
    for key in ["a", "b"] {
        admit(&pool, key, true).await;
    }
    assert_eq!(denied(&pool, "c", true).await, DenyReason::AffinityLost);
    let head = pool.view().await.head;
    assert_eq!((head.bindings, head.unbound_total), (2, 1));
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn a_client_is_sent_to_the_worker_that_was_chosen() {
    let pool = Pool::with(|policy| policy.max_concurrent = 1).await;
    for worker in ["here", "there"] {
        let mut request = registration("a", None, 1.0);
        request.origin = Some(format!("https://{worker}.example.com").parse().unwrap());
        pool.register_as(worker, &request).await;
    }
    let ask = async || {
        let mut question = pool.question(&pool.mint());
        question.own = Some("here".parse().unwrap());
        question.redirect = true;
        pool.store.admit(&question).await.expect("a decision")
    };
    match ask().await {
        AdmitAnswer::Admitted(admitted) => assert_eq!(admitted.worker.as_str(), "here"),
        answer => panic!("{answer:?}"),
    }
    match ask().await {
        AdmitAnswer::Redirected(redirected) => {
            assert_eq!(redirected.origin.as_str(), "https://there.example.com");
        }
        answer => panic!("{answer:?}"),
    }
    assert_eq!(pool.view().await.head.active, 1, "no lease was taken");
}

#[tokio::test]
pub(crate) async fn a_key_that_a_client_made_up_opens_no_limit_but_the_workers() {
    let pool = pool_with(|policy| policy.global_conn = 4).await;
    for _ in 0..4 {
        admit(&pool, "mine", true).await;
    }
    assert_eq!(denied(&pool, "mine", true).await, DenyReason::PoolFull);
}

#[tokio::test]
pub(crate) async fn a_release_that_comes_again_leaves_the_next_binding_alone() {
    let pool = pool_with(|_| {}).await;
    let first = admit(&pool, "s", true).await;
    let end = Release {
        unbind: first.affinity,
        r#use: Use::Used,
        outcome: Outcome::Success,
        ..Release::unused(first.lease)
    };
    pool.release_with(end.clone()).await;
    let second = admit(&pool, "s", true).await;
    assert_ne!(second.worker, first.worker, "in turns");
    pool.release_with(end).await;
    assert_eq!(admit(&pool, "s", true).await.worker, second.worker);
}

#[tokio::test]
async fn a_removed_worker_is_gone_and_stays_removed() {
    let pool = pool_with(|policy| policy.max_lifetime = 3).await;
    let worker = begin(&pool, "tx").await.worker;
    for _ in 0..5 {
        admit(&pool, "tx", false).await;
    }
    assert_eq!(pool.view().await.head.recycles_total, 1, "once a life");
    let removed = pool.store.remove(&pool.name, &worker).await;
    removed.expect("a removal");
    assert_eq!(denied(&pool, "tx", false).await, DenyReason::AffinityLost);
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn clients_that_are_sent_on_are_spread() {
    let pool = Pool::with(|policy| {
        policy.strategy = Strategy::Random;
        policy.max_concurrent = 1;
    })
    .await;
    for worker in ["here", "b", "c", "d"] {
        let mut request = registration("a", None, 1.0);
        request.origin = Some(format!("https://{worker}.example.com").parse().unwrap());
        pool.register_as(worker, &request).await;
    }
    pool.admit_for(|question| question.own = Some("here".parse().unwrap()))
        .await;
    let mut origins = std::collections::BTreeSet::new();
    for _ in 0..40 {
        let mut question = pool.question(&pool.mint());
        question.own = Some("here".parse().unwrap());
        question.redirect = true;
        match pool.store.admit(&question).await.expect("a decision") {
            AdmitAnswer::Redirected(redirected) => origins.insert(redirected.origin.to_string()),
            answer => panic!("{answer:?}"),
        };
    }
    assert_eq!(origins.len(), 3);
    pool.assert_no_drift().await;
}
