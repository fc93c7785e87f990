//! A strategy that runs beside the pool's own and decides nothing.

use crate::support::{Pool, id};
use admission::message::{Release, Use};
use admission::outcome::Outcome;
use admission::policy::{Policy, Strategy};

async fn pool_with(strategy: Strategy, shadow: Option<Strategy>) -> Pool {
    let pool = Pool::with(|policy| {
        policy.strategy = strategy;
        policy.shadow_strategy = shadow;
        policy.max_concurrent = 5;
    })
    .await;
    for worker in ["w1", "w2", "w3", "w4"] {
        pool.register(worker, "a").await;
    }
    pool
}

/// Forty requests of workers that are ever slower, eight at a time.
async fn load(pool: &Pool) -> Vec<String> {
    let mut chosen = Vec::new();
    for _ in 0..5 {
        let mut leases = Vec::new();
        for _ in 0..8 {
            let admitted = pool.admit().await;
            let slow: u64 = admitted.worker.as_str()[1..].parse().expect("a number");
            leases.push((admitted.lease, 1000 * slow * slow));
            chosen.push(admitted.worker.to_string());
        }
        for (lease, us) in leases {
            pool.served(&lease, us).await;
        }
    }
    chosen
}

#[tokio::test]
async fn whoever_is_in_the_shadow_the_live_one_chooses_the_same() {
    for live in [
        Strategy::Sewt,
        Strategy::RoundRobin,
        Strategy::LeastConnections,
    ] {
        let alone = load(&pool_with(live, None).await).await;
        for shadow in Strategy::ALL.into_iter().filter(|it| *it != live) {
            let pool = pool_with(live, Some(shadow)).await;
            assert_eq!(load(&pool).await, alone, "{live:?} beside {shadow:?}");
            assert_eq!(pool.view().await.head.shadow_decisions_total, 40);
            pool.assert_no_drift().await;
        }
    }
}

#[tokio::test]
async fn it_tells_how_often_it_would_have_chosen_otherwise() {
    let pool = pool_with(Strategy::RoundRobin, Some(Strategy::LeastConnections)).await;
    let mut leases = Vec::new();
    for _ in 0..4 {
        leases.push(pool.admit().await.lease);
    }
    let head = pool.view().await.head;
    assert_eq!(
        (head.shadow_decisions_total, head.shadow_differed_total),
        (4, 0)
    );
    // The turn is the first one's, but the last has no lease.
    let last = leases.pop().expect("a lease");
    pool.release(&last).await;
    pool.admit().await;
    let head = pool.view().await.head;
    assert_eq!(
        (head.shadow_decisions_total, head.shadow_differed_total),
        (5, 1)
    );
}

#[tokio::test]
async fn it_learns_what_the_live_one_learns() {
    let pool = pool_with(Strategy::RoundRobin, Some(Strategy::Sewt)).await;
    load(&pool).await;
    // All idle and all known: sewt would always take the fastest, the turn takes all alike.
    let before = pool.view().await.head.shadow_differed_total;
    for _ in 0..8 {
        let lease = pool.admit().await.lease;
        pool.release_with(Release {
            r#use: Use::Used,
            outcome: Outcome::Success,
            ..Release::unused(lease)
        })
        .await;
    }
    let after = pool.view().await.head.shadow_differed_total;
    assert_eq!(after - before, 6, "of eight, w1 has its turn twice");
}

#[tokio::test]
async fn switched_on_in_service_it_knows_what_was_known() {
    let pool = pool_with(Strategy::Sewt, None).await;
    load(&pool).await;
    let mut policy: Policy = pool.store.policy(&pool.name).expect("a policy").clone();
    policy.strategy = Strategy::RoundRobin;
    policy.shadow_strategy = Some(Strategy::Sewt);
    pool.store
        .apply(&pool.name, &policy)
        .await
        .expect("a change");
    let admitted = pool.admit().await;
    let head = pool.view().await.head;
    let differed = u64::from(admitted.worker != id("w1"));
    assert_eq!(head.shadow_differed_total, differed);
}

#[tokio::test]
async fn one_that_draws_differs_as_often_as_chance_has_it() {
    let pool = pool_with(Strategy::LeastConnections, Some(Strategy::Random)).await;
    for _ in 0..400 {
        let lease = pool.admit().await.lease;
        pool.release(&lease).await;
    }
    let head = pool.view().await.head;
    // Three of four, give or take four deviations.
    assert!(
        (265..=335).contains(&head.shadow_differed_total),
        "{head:?}"
    );
}
