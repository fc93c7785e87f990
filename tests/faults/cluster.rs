//! Row 12: the pool's slot moves, and its primary dies. Everyone keeps their session, and nobody gets its place.

use harness::client::Session;
use harness::cluster::Move;
use harness::redis::Redis;
use harness::{Fleet, Prober, Promise, RedisCluster, RunningFleet, close_all, eventually};
use std::time::{Duration, Instant};

const WORKERS: usize = 2;
const PLACES: usize = 20;

/// Every place is taken: whoever comes in now is one too many. With the slot's way to another primary.
async fn full_house() -> (RedisCluster, Move, RunningFleet, Vec<Session>) {
    let cluster = RedisCluster::start().await;
    let fleet = Fleet::new().redis_at(cluster.url()).as_shipped();
    let fleet = fleet.envoys(2).workers(WORKERS);
    let fleet = fleet.max_concurrent((PLACES / WORKERS) as u32).up().await;
    let sessions = fleet.sessions(PLACES).await;
    let slot = cluster.slot_of("ws:{demo}:pool").await;
    let from = cluster.primary_of(slot, 0).await.expect("a primary");
    let to = (from + 1) % 3;
    (cluster, Move { slot, from, to }, fleet, sessions)
}

/// Exact in time, nobody in, nobody out, no figure off, and afterwards every place can be had again.
async fn assert_healed(
    fleet: &RunningFleet,
    mut sessions: Vec<Session>,
    prober: Prober,
    (promise, start): (Promise, Instant),
    owner: &Redis,
) {
    let exact = async || owner.has_the_pool().await && fleet.is_exact(PLACES).await;
    promise.kept_since(start, exact).await;
    let probes = prober.stop().await;
    assert_eq!(probes.admitted(), 0, "{probes:?}");
    probes.assert_typed_in_time();
    assert_eq!(
        fleet.alive(&mut sessions).await,
        PLACES,
        "nobody was dropped"
    );
    let view = fleet.view().await;
    assert_eq!(view.repaired("overcommitted"), 0, "{view:#?}");
    assert_eq!(view.reclaimed(), 0, "{view:#?}");
    assert_no_drift(fleet).await;
    close_all(sessions).await;
    fleet
        .sees("all places are free", |pool| pool.active == 0)
        .await;
    for envoy in [0, 1] {
        eventually("places are given again", async || fleet.admits(envoy).await).await;
    }
    fleet.assert_consistent().await;
}

async fn assert_no_drift(fleet: &RunningFleet) {
    let audit = fleet.api().audit().await.expect("an audit");
    let drift = audit["drift"].as_object().expect("figures");
    assert!(drift.values().all(|off| off == 0), "{audit}");
}

#[tokio::test]
async fn a_slot_that_moves_while_clients_ask_costs_nobody_a_place() {
    let (cluster, the_move, fleet, sessions) = full_house().await;
    let prober = Prober::start(fleet.client());
    cluster.begin(the_move).await;
    while cluster.send_keys(the_move, 5).await > 0 {
        // Long enough for questions between two steps.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    cluster.finish(the_move).await;
    let promise = Promise::new(12, "slot moved", 5000);
    let owner = &cluster.nodes[the_move.to];
    assert_healed(&fleet, sessions, prober, (promise, Instant::now()), owner).await;
}

#[tokio::test]
async fn a_primary_that_dies_is_replaced_and_costs_nobody_a_place() {
    let (cluster, Move { slot, from, .. }, fleet, sessions) = full_house().await;
    let prober = Prober::start(fleet.client());
    cluster.nodes[from].process.kill();
    let (primary, promoted) = cluster.promoted(slot, from).await;
    let promise = Promise::new(12, "primary killed, from the promotion", 5000);
    let owner = &cluster.nodes[primary];
    assert_healed(&fleet, sessions, prober, (promise, promoted), owner).await;
}

/// Half of the places are free: they come and go while the slot does, and never too many.
#[tokio::test]
async fn nobody_is_let_in_too_much_while_a_slot_moves_back_and_forth() {
    let (cluster, there, fleet, mut sessions) = full_house().await;
    close_all(sessions.split_off(PLACES / 2)).await;
    let envoys = fleet.envoys.iter().cycle().take(12);
    let crowd: Vec<Prober> = envoys.map(|envoy| Prober::start(envoy.client())).collect();
    let back = Move {
        from: there.to,
        to: there.from,
        ..there
    };
    let admissions = || crowd.iter().map(Prober::admissions).sum::<usize>();
    for the_move in [there, back] {
        cluster.move_slot(the_move).await;
        let before = admissions();
        let served = async || admissions() > before;
        let promise = Promise::new(12, "slot moved under load, served again", 5000);
        promise.kept_since(Instant::now(), served).await;
    }
    for client in crowd {
        client.stop().await;
    }
    let held = sessions.len() as u64;
    fleet
        .sees("who left is gone", |pool| pool.active == held)
        .await;
    assert_no_drift(&fleet).await;
    fleet.assert_consistent().await;
    fleet.assert_unharmed(sessions).await;
}
