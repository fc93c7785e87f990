//! `on_outage: local_share`: places that sessions leave during an outage are taken again by their own
//! proxy, never by two, and afterwards the store holds what is there.

use harness::client::{Session, Visit, close_all};
use harness::{Fleet, Prober, RunningFleet, eventually};
use serde_json::json;
use std::time::{Duration, Instant};

/// On each of two workers; each of two Envoys fills half of them.
const PLACES: usize = 5;

async fn full(fleet: Fleet) -> (RunningFleet, [Vec<Session>; 2]) {
    let fleet = fleet.as_shipped().envoys(2).workers(2);
    let fleet = fleet.max_concurrent(PLACES as u32).policy(|policy| {
        // So that a busy machine does not run out of the time in which places are shared.
        policy.lease_ttl_ms = 30_000;
    });
    let fleet = fleet.filter(|filter| filter["on_outage"] = json!("local_share"));
    let fleet = fleet.up().await;
    let first = fleet.sessions_of(0, PLACES).await;
    let second = fleet.sessions_of(1, PLACES).await;
    fleet.told().await;
    (fleet, [first, second])
}

/// Comes until it is let in; only an outage may keep it out.
async fn take_place(fleet: &RunningFleet, envoy: usize) -> Session {
    let start = Instant::now();
    loop {
        match fleet.envoys[envoy].client().websocket("/").await {
            Visit::Admitted(session) => return *session,
            Visit::Refused(refused) => {
                assert_eq!(refused.reason.as_deref(), Some("outage"));
                assert!(start.elapsed() < harness::wait::DEADLINE, "{refused:?}");
            }
        }
    }
}

/// Two sessions of this Envoy end and two others come; then it is as full as before.
async fn assert_replaces_two(fleet: &RunningFleet, envoy: usize, sessions: &mut Vec<Session>) {
    close_all(sessions.drain(..2).collect()).await;
    sessions.push(take_place(fleet, envoy).await);
    sessions.push(take_place(fleet, envoy).await);
    let refused = fleet.envoys[envoy].client().websocket("/").await.refused();
    assert_eq!(refused.reason.as_deref(), Some("outage"));
    assert!(fleet.envoys[envoy].stat("berth.reused").await >= 2);
}

/// What is open is what is held, and at no time was there more than may be.
async fn assert_exact(fleet: &RunningFleet, mut sessions: Vec<Session>) {
    assert_eq!(fleet.alive(&mut sessions).await, sessions.len());
    eventually("what is open is what is held", async || {
        fleet.is_exact(sessions.len()).await && fleet.open_at_workers() == sessions.len()
    })
    .await;
    let audit = fleet.api().audit().await.unwrap();
    assert_eq!(audit["drift"], 0, "{audit}");
    fleet.assert_consistent().await;
    assert_eq!(fleet.view().await.reclaimed(), 0);
    close_all(sessions).await;
    fleet
        .sees("all places are free", |pool| pool.active == 0)
        .await;
}

#[tokio::test]
async fn while_redis_stands_still_each_proxy_fills_the_places_that_its_sessions_leave() {
    let (fleet, [mut first, mut second]) = full(Fleet::new()).await;
    fleet.redis.process.freeze().await;
    assert_replaces_two(&fleet, 0, &mut first).await;
    assert_replaces_two(&fleet, 1, &mut second).await;
    // Under pressure: one place of each goes from hand to hand.
    close_all(vec![first.remove(0), second.remove(0)]).await;
    let probers = [0, 1].map(|envoy| Prober::start(fleet.envoys[envoy].client()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    for prober in probers {
        let probes = prober.stop().await;
        probes.assert_typed_in_time();
        assert!(probes.admitted() > 0, "{probes:?}");
    }
    fleet.redis.process.thaw();
    first.extend(second);
    assert_exact(&fleet, first).await;
}

#[tokio::test]
async fn a_proxy_that_is_cut_off_fills_its_own_places_and_the_other_gets_none_of_them() {
    let (fleet, [mut first, second]) = full(Fleet::new().redis_through_proxy()).await;
    fleet.redis_links[0].refuse().await;
    let others = Prober::start(fleet.envoys[1].client());
    assert_replaces_two(&fleet, 0, &mut first).await;
    close_all(vec![first.remove(0)]).await;
    let own = Prober::start(fleet.client());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (own, others) = (own.stop().await, others.stop().await);
    assert!(own.admitted() > 0, "{own:?}");
    assert_eq!(others.admitted(), 0, "{others:?}");
    assert!(others.refused("pool_full") > 0, "{others:?}");
    fleet.redis_links[0].heal().await;
    first.extend(second);
    assert_exact(&fleet, first).await;
}

/// Its sidecar is the one that the store hears of its end from: nobody knows whether it has.
#[tokio::test]
async fn a_proxy_without_a_sidecar_soon_shares_nothing() {
    let (mut fleet, [mut first, second]) = full(Fleet::new()).await;
    fleet.sidecars[0].process.kill();
    tokio::time::sleep(Duration::from_secs(2)).await;
    close_all(vec![first.remove(0)]).await;
    for _ in 0..5 {
        let refused = fleet.client().websocket("/").await.refused();
        assert_eq!(refused.reason.as_deref(), Some("outage"));
    }
    assert_eq!(fleet.envoys[0].stat("berth.reused").await, 0);
    fleet.sidecars[0].restart().await;
    first.extend(second);
    assert_exact(&fleet, first).await;
}
