//! A fresh fleet: the limit, who reaches whom, and how long each container takes to start.

use harness::{Compose, Part, close_all, split};

#[tokio::test]
async fn a_limit_is_exact_over_two_envoys() {
    const PLACES: usize = 12;
    let mut fleet = Compose::new().workers(6).up().await;
    for _ in 0..3 {
        let (mut sessions, refused) = split(fleet.websockets(40).await);
        assert!(sessions.len() <= PLACES, "{} came in", sessions.len());
        for refusal in refused {
            // A busy machine may be too slow for some: they come again.
            let reason = refusal.reason.as_deref();
            assert!(
                matches!(reason, Some("pool_full" | "outage")),
                "{refusal:?}"
            );
        }
        sessions.extend(fleet.sessions(PLACES - sessions.len()).await);
        for envoy in [0, 1] {
            fleet.assert_full(envoy).await;
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
