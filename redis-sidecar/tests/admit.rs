use crate::support::Pool;
use admission::message::{AdmitAnswer, DenyReason};
use redis_sidecar::view::PoolView;
use std::collections::BTreeMap;
use tokio::task::JoinSet;

#[tokio::test]
pub(crate) async fn gives_no_more_places_than_a_worker_has() {
    let pool = Pool::with(|policy| policy.max_concurrent = 2).await;
    pool.register("w1", "a").await;
    let first = pool.admit().await;
    let second = pool.admit().await;
    assert_eq!((first.active, second.active), (1, 2));
    assert_eq!(pool.denied().await, DenyReason::PoolFull);
}

#[tokio::test]
async fn a_worker_may_lower_its_limit_but_not_raise_it() {
    let pool = Pool::with(|policy| policy.max_concurrent = 2).await;
    pool.register_with("small", "a", Some(1)).await;
    pool.register_with("greedy", "a", Some(100)).await;
    for _ in 0..3 {
        pool.admit().await;
    }
    assert_eq!(pool.denied().await, DenyReason::PoolFull);
    assert_eq!(pool.worker("small").await.active, 1);
    assert_eq!(pool.worker("greedy").await.active, 2);
}

#[tokio::test]
async fn a_pool_without_workers_says_so() {
    let pool = Pool::with(|_| {}).await;
    assert_eq!(pool.denied().await, DenyReason::NoWorker);
}

#[tokio::test]
pub(crate) async fn asking_twice_is_asking_once() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let lease = pool.mint();
    let first = pool.ask(&lease).await;
    assert_eq!(pool.ask(&lease).await, first);
    let worker = pool.worker("w1").await;
    assert_eq!((worker.active, worker.lifetime), (1, 1));
}

#[tokio::test]
pub(crate) async fn a_release_that_overtakes_its_admit_wins() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let lease = pool.mint();
    assert_eq!(pool.release(&lease).await.unknown, 1);
    let answer = pool.ask(&lease).await;
    assert!(
        matches!(answer, AdmitAnswer::Denied(denied) if denied.reason == DenyReason::Cancelled)
    );
    assert_eq!(pool.view().await.head.active, 0);
}

#[tokio::test]
pub(crate) async fn an_ended_lease_is_never_admitted_again() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let lease = pool.admit().await.lease;
    pool.release(&lease).await;
    let answer = pool.ask(&lease).await;
    assert!(
        matches!(answer, AdmitAnswer::Denied(denied) if denied.reason == DenyReason::Cancelled)
    );
}

#[tokio::test]
async fn asking_again_after_the_worker_restarted_gives_the_lost_place_back() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let lease = pool.admit().await.lease;
    pool.register("w1", "b").await;
    let answer = pool.ask(&lease).await;
    assert!(
        matches!(answer, AdmitAnswer::Denied(denied) if denied.reason == DenyReason::Cancelled)
    );
    assert_eq!(pool.view().await.head.active, 0);
    let answer = pool.ask(&lease).await;
    assert!(
        matches!(answer, AdmitAnswer::Denied(denied) if denied.reason == DenyReason::Cancelled),
        "an ended id is never admitted again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_racing_on_ten_places_get_ten() {
    let pool = Pool::with(|policy| policy.max_concurrent = 2).await;
    for worker in ["w1", "w2", "w3", "w4", "w5"] {
        pool.register(worker, "a").await;
    }
    let stores = [pool.store.clone(), pool.second_store().await];
    let mut racing = JoinSet::new();
    for number in 0..200 {
        let (store, request) = (stores[number % 2].clone(), pool.question(&pool.mint()));
        racing.spawn(async move { (request.lease.clone(), store.admit(&request).await.unwrap()) });
    }
    let answers = racing.join_all().await;
    let admitted: BTreeMap<u64, String> = answers
        .into_iter()
        .filter_map(|(lease, answer)| match answer {
            AdmitAnswer::Admitted(admitted) => Some((lease.seq, admitted.worker.to_string())),
            AdmitAnswer::Denied(_) | AdmitAnswer::Redirected(_) => None,
        })
        .collect();
    assert_eq!(admitted.len(), 10);
    assert_invariants(&pool.view().await, &admitted);
}

/// I1, I2 and I3 (docs/architecture.md), for a pool in which nothing was released yet.
fn assert_invariants(view: &PoolView, leases: &BTreeMap<u64, String>) {
    let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
    for worker in leases.values() {
        *expected.entry(worker).or_default() += 1;
    }
    for worker in &view.workers {
        let leases = expected.get(worker.worker.as_str()).copied().unwrap_or(0);
        assert!(worker.active <= u64::from(view.policy.max_concurrent));
        assert_eq!(
            (worker.active, worker.lifetime),
            (leases, leases),
            "{worker:?}"
        );
    }
    assert_eq!(view.head.active, leases.len() as u64);
    assert_eq!(view.head.rejected["pool_full"], 190);
}
