use crate::support::{Pool, registration};
use admission::policy::Strategy;

async fn pool() -> Pool {
    Pool::with(|policy| {
        policy.strategy = Strategy::LeastConnections;
        policy.max_concurrent = 100;
    })
    .await
}

#[tokio::test]
async fn the_fewest_leases_win_and_ties_take_turns() {
    let pool = pool().await;
    for worker in ["w1", "w2", "w3"] {
        pool.register(worker, "a").await;
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        order.push(pool.admit().await);
    }
    let names: Vec<_> = order
        .iter()
        .map(|admitted| admitted.worker.as_str())
        .collect();
    assert_eq!(names.join(" "), "w1 w2 w3 w1 w2 w3");
    pool.release(&order[1].lease).await;
    assert_eq!(pool.admit().await.worker.as_str(), "w2");
}

#[tokio::test]
async fn a_larger_weight_takes_more() {
    let pool = pool().await;
    pool.register_as("large", &registration("a", None, 3.0))
        .await;
    pool.register_as("small", &registration("a", None, 1.0))
        .await;
    for _ in 0..40 {
        pool.admit().await;
    }
    assert_eq!(pool.worker("large").await.active, 30);
    assert_eq!(pool.worker("small").await.active, 10);
}
