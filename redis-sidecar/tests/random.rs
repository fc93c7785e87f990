//! Chance, judged by the chi-square test. The dice start from a fixed seed, so a verdict is final.

use crate::support::{Pool, chi_square, registration};
use admission::policy::Strategy;
use std::collections::BTreeMap;

const DRAWS: usize = 6000;
/// The chi-square distribution with 3 degrees of freedom exceeds this once in a thousand.
const CHI_SQUARE_3: f64 = 16.27;

async fn pool_of(weights: &[(&str, f64)]) -> Pool {
    let pool = Pool::with(|policy| {
        policy.strategy = Strategy::Random;
        policy.max_concurrent = 3;
        policy.max_lifetime = 0;
    })
    .await;
    for (worker, weight) in weights {
        pool.register_as(worker, &registration("a", None, *weight))
            .await;
    }
    pool
}

/// Sessions in turn; `held` of them stay open, so that workers fill up, leave and enter again.
async fn draw(pool: &Pool, held: usize) -> BTreeMap<String, f64> {
    let mut counts = BTreeMap::new();
    let mut open = std::collections::VecDeque::new();
    for _ in 0..DRAWS {
        let admitted = pool.admit().await;
        *counts.entry(admitted.worker.to_string()).or_default() += 1.0;
        open.push_back(admitted.lease);
        if open.len() > held {
            pool.release(&open.pop_front().expect("a lease")).await;
        }
    }
    counts
}

#[tokio::test]
async fn equal_weights_are_equal_chances() {
    let weights = [("w1", 1.0), ("w2", 1.0), ("w3", 1.0), ("w4", 1.0)];
    let pool = pool_of(&weights).await;
    let counts = draw(&pool, 0).await;
    assert!(chi_square(&counts, &weights) < CHI_SQUARE_3, "{counts:?}");
}

#[tokio::test]
async fn weights_are_chances() {
    let weights = [("w1", 1.0), ("w2", 2.0), ("w3", 3.0), ("w4", 6.0)];
    let pool = pool_of(&weights).await;
    let counts = draw(&pool, 0).await;
    assert!(chi_square(&counts, &weights) < CHI_SQUARE_3, "{counts:?}");
}

#[tokio::test]
async fn workers_that_fill_up_and_return_get_their_share_and_no_more() {
    let weights = [("w1", 1.0), ("w2", 1.0), ("w3", 1.0), ("w4", 1.0)];
    let pool = pool_of(&weights).await;
    let counts = draw(&pool, 6).await;
    assert!(chi_square(&counts, &weights) < CHI_SQUARE_3, "{counts:?}");
}

#[tokio::test]
async fn a_changed_weight_changes_the_chances() {
    let pool = pool_of(&[("w1", 1.0), ("w2", 1.0), ("w3", 1.0), ("w4", 1.0)]).await;
    draw(&pool, 0).await;
    let weights = [("w1", 3.0), ("w2", 1.0), ("w3", 1.0), ("w4", 1.0)];
    pool.register_as("w1", &registration("a", None, 3.0)).await;
    let counts = draw(&pool, 0).await;
    assert!(chi_square(&counts, &weights) < CHI_SQUARE_3, "{counts:?}");
}
