use crate::support::Pool;
use admission::policy::Strategy;

async fn pool_of(workers: &[&str]) -> Pool {
    let pool = Pool::with(|policy| {
        policy.strategy = Strategy::RoundRobin;
        policy.max_concurrent = 2;
    })
    .await;
    for worker in workers {
        pool.register(worker, "a").await;
    }
    pool
}

#[tokio::test]
async fn takes_strict_turns_for_the_whole_fleet() {
    let pool = pool_of(&["w1", "w2", "w3"]).await;
    let mut order = Vec::new();
    for _ in 0..9 {
        let admitted = pool.admit().await;
        order.push(admitted.worker.to_string());
        pool.release(&admitted.lease).await;
    }
    assert_eq!(order.join(" "), "w1 w2 w3 w1 w2 w3 w1 w2 w3");
}

#[tokio::test]
async fn never_takes_the_same_twice_in_a_row_while_two_may_be_chosen() {
    let pool = pool_of(&["w1", "w2", "w3"]).await;
    let mut last = String::new();
    for round in 0..60 {
        let admitted = pool.admit().await;
        assert_ne!(admitted.worker.as_str(), last);
        last = admitted.worker.to_string();
        if round % 3 == 0 {
            // A restart does not give a worker another turn.
            pool.register(&last, &format!("life-{round}")).await;
        }
        pool.release(&admitted.lease).await;
    }
}

#[tokio::test]
async fn the_full_are_passed_over_and_keep_their_turn() {
    let pool = pool_of(&["w1", "w2"]).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(pool.admit().await.lease);
    }
    pool.denied().await;
    pool.release(&held[1]).await;
    assert_eq!(pool.admit().await.worker.as_str(), "w2");
}
