//! A fresh fleet: the limit, who reaches whom, and how long each container takes to start.

use harness::{Compose, Part, close_all, split};

#[tokio::test]
async fn a_limit_is_exact_over_two_envoys() {
    let mut fleet = Compose::new().workers(6).up().await;
    for _ in 0..3 {
        let (sessions, refused) = split(fleet.websockets(40).await);
        assert_eq!((sessions.len(), refused.len()), (12, 28), "{refused:?}");
        for refusal in refused {
            assert_eq!(refusal.reason.as_deref(), Some("pool_full"));
        }
        close_all(sessions).await;
        fleet
            .sees("all places are free", |pool| pool.active == 0)
            .await;
        fleet.assert_consistent().await;
    }
    fleet.assert_redis_is_for_sidecars_only().await;
    // Last: each is killed for it.
    for part in [
        Part::Redis,
        Part::Sidecar(0),
        Part::Envoy(0),
        Part::Worker(0),
    ] {
        let took = fleet.start_time(part).await;
        eprintln!(
            "{part:?}: {} ms from `docker start` until it serves",
            took.as_millis()
        );
    }
}
