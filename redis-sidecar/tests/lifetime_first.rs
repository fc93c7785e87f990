//! The worked examples of the strategy, driven to the very figures they start from.

use crate::support::{Pool, default_policy};
use admission::policy::Policy;

struct Given {
    worker: &'static str,
    lifetime: u64,
    active: u64,
}

fn given(worker: &'static str, lifetime: u64, active: u64) -> Given {
    Given {
        worker,
        lifetime,
        active,
    }
}

/// Brings each worker to its figures in turn. The others cannot be chosen meanwhile: those that are
/// done are held full by a limit of their own, those to come are not registered.
async fn arranged(max_lifetime: u32, workers: &[Given]) -> Pool {
    let pool = Pool::with(|policy| {
        policy.max_lifetime = max_lifetime;
        policy.max_concurrent = 10;
    })
    .await;
    let mut spare = Vec::new();
    for &Given {
        worker,
        lifetime,
        active,
    } in workers
    {
        let held = active.max(1);
        pool.register_with(worker, "a", Some(u32::try_from(held).unwrap()))
            .await;
        for _ in held..lifetime {
            pool.release(&pool.admit().await.lease).await;
        }
        for number in 0..held {
            let lease = pool.admit().await.lease;
            if number >= active {
                spare.push(lease);
            }
        }
    }
    for lease in &spare {
        pool.release(lease).await;
    }
    for Given {
        worker,
        lifetime,
        active,
    } in workers
    {
        pool.register(worker, "a").await;
        let view = pool.worker(worker).await;
        assert_eq!(
            (view.lifetime, view.active),
            (*lifetime, *active),
            "{worker}"
        );
    }
    pool
}

async fn chosen(pool: &Pool) -> String {
    pool.admit().await.worker.to_string()
}

#[tokio::test]
async fn takes_the_highest_lifetime_outside_the_margin() {
    let workers = [
        given("A", 18, 2),
        given("B", 12, 1),
        given("C", 8, 0),
        given("D", 3, 1),
    ];
    assert_eq!(chosen(&arranged(20, &workers).await).await, "B");
}

#[tokio::test]
async fn falls_back_to_the_highest_when_all_are_inside() {
    let workers = [given("A", 8, 3), given("B", 7, 2)];
    assert_eq!(chosen(&arranged(10, &workers).await).await, "A");
}

#[tokio::test]
async fn a_single_worker_is_always_inside_and_always_taken() {
    assert_eq!(chosen(&arranged(4, &[given("A", 2, 0)]).await).await, "A");
}

#[tokio::test]
async fn goes_to_the_limit_but_never_beyond() {
    let workers = [given("A", 9, 1), given("B", 7, 2), given("C", 5, 0)];
    let pool = arranged(10, &workers).await;
    assert_eq!(chosen(&pool).await, "C");

    // Without C there are two workers, and the margin is 5: both are inside.
    let pool = arranged(10, &workers[..2]).await;
    let admitted = pool.admit().await;
    assert_eq!((admitted.worker.as_str(), admitted.lifetime), ("A", 10));
    assert_eq!(chosen(&pool).await, "B", "A has reached its limit");
}

#[tokio::test]
async fn a_tie_in_lifetime_goes_to_the_lowest_active_then_to_the_least_recently_chosen() {
    let pool = arranged(100, &[given("A", 5, 2), given("B", 5, 1)]).await;
    assert_eq!(chosen(&pool).await, "B");
    let pool = arranged(100, &[given("B", 5, 1), given("A", 5, 1)]).await;
    assert_eq!(chosen(&pool).await, "B");
}

#[tokio::test]
async fn a_thousand_sessions_in_turn_draw_a_sawtooth_without_overlap() {
    let pool = Pool::with(|policy| policy.max_lifetime = 80).await;
    for worker in 1..=8 {
        pool.register(&format!("w{worker}"), "life-0").await;
    }
    let mut restarts = 0;
    for _ in 0..1000 {
        let admitted = pool.admit().await;
        pool.release(&admitted.lease).await;
        if admitted.lifetime == 80 {
            restarts += 1;
            pool.register(admitted.worker.as_str(), &format!("life-{restarts}"))
                .await;
        }
    }
    let view = pool.view().await;
    assert!(restarts >= 5, "{restarts} restarts");
    assert_eq!(
        (view.head.recycles_total, view.head.overlaps_total),
        (restarts, 0)
    );
    assert!(
        view.policy
            == Policy {
                max_lifetime: 80,
                ..default_policy()
            }
    );
}
