use crate::support::{Pool, holder};
use admission::message::{ReleaseAnswer, Use};
use admission::outcome::Outcome;

#[tokio::test]
async fn gives_the_place_back_and_keeps_the_lifetime() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let lease = pool.admit().await.lease;
    let answer = pool.release(&lease).await;
    assert_eq!(
        answer,
        ReleaseAnswer {
            released: 1,
            unknown: 0
        }
    );
    let worker = pool.worker("w1").await;
    assert_eq!((worker.active, worker.lifetime), (0, 1));
}

#[tokio::test]
async fn an_unused_lease_gives_its_lifetime_back_too() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let lease = pool.admit().await.lease;
    pool.release_as(&lease, Use::Unused, Outcome::Unknown).await;
    let worker = pool.worker("w1").await;
    assert_eq!((worker.active, worker.lifetime), (0, 0));
}

#[tokio::test]
async fn a_second_release_changes_nothing() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let kept = pool.admit().await;
    let lease = pool.admit().await.lease;
    pool.release(&lease).await;
    assert_eq!(
        pool.release(&lease).await,
        ReleaseAnswer {
            released: 0,
            unknown: 1
        }
    );
    assert_eq!(pool.worker("w1").await.active, kept.active);
    assert_eq!(pool.view().await.head.active, 1);
}

#[tokio::test]
async fn only_its_own_holder_can_release_a_lease() {
    let pool = Pool::with(|_| {}).await;
    pool.register("w1", "a").await;
    let mut forged = pool.admit().await.lease;
    forged.epoch = holder(2).epoch;
    let other = Pool {
        holder: holder(2),
        ..pool
    };
    assert_eq!(
        other.release(&forged).await,
        ReleaseAnswer {
            released: 0,
            unknown: 1
        }
    );
    assert_eq!(other.worker("w1").await.active, 1);
}

#[tokio::test]
async fn ended_ids_are_forgotten_after_a_time() {
    let pool = Pool::with(|policy| policy.lease_ttl_ms = 100).await;
    let lease = pool.mint();
    pool.release(&lease).await;
    crate::support::eventually(async || {
        pool.reap().await;
        let client = redis::Client::open(pool.redis.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let left: u64 = redis::cmd("EXISTS")
            .arg("ws:{demo}:tombstones")
            .query_async(&mut connection)
            .await
            .unwrap();
        left == 0
    })
    .await;
}
