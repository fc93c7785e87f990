//! Row 12: slots move, and nodes die.

use super::desk::{Desk, TIMEOUT_MS, at, guarded};
use harness::cluster::Move;
use harness::{RedisCluster, eventually};
use redis_sidecar::atomic::{CountKey, Operation};
use redis_sidecar::error::StoreError;
use redis_sidecar::settings::RedisSettings;
use redis_sidecar::store::Store;
use std::time::{Duration, Instant};

/// Two places are taken. With the slot's way to another primary.
async fn with_leases() -> (RedisCluster, Desk, Move) {
    let cluster = RedisCluster::start().await;
    let desk = Desk::open(&at(cluster.url())).await;
    desk.take(2).await;
    let slot = cluster.slot_of("ws:{demo}:pool").await;
    let from = cluster.primary_of(slot, 0).await.expect("a primary");
    let to = (from + 1) % 3;
    (cluster, desk, Move { slot, from, to })
}

#[tokio::test]
async fn a_slot_that_has_moved_is_followed_and_rebuilt() {
    let (cluster, desk, the_move) = with_leases().await;
    let rebuilds = desk.rebuilds().await;
    cluster.move_slot(the_move).await;
    desk.settled().await;
    assert_eq!(desk.rebuilds().await, rebuilds + 1, "another server");
    desk.assert_exact(2).await;
}

#[tokio::test]
async fn a_slot_on_its_way_is_a_short_outage_and_nothing_is_lost() {
    let (cluster, desk, the_move) = with_leases().await;
    cluster.begin(the_move).await;
    assert_short_outage(&desk).await;
    // Some keys here, some there.
    assert_eq!(cluster.send_keys(the_move, 3).await, 3);
    assert_short_outage(&desk).await;
    while cluster.send_keys(the_move, 10).await > 0 {}
    assert_short_outage(&desk).await;
    cluster.finish(the_move).await;
    desk.settled().await;
    desk.assert_exact(2).await;
}

async fn assert_short_outage(desk: &Desk) {
    let start = Instant::now();
    let refused = desk.ask(&desk.mint()).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    // The timeout of one answer, and what a busy machine adds.
    let took = start.elapsed();
    assert!(
        took < Duration::from_millis(TIMEOUT_MS + 2000),
        "after {took:?}"
    );
}

#[tokio::test]
async fn a_slot_moves_back_and_forth_while_places_come_and_go() {
    let (cluster, desk, there) = with_leases().await;
    let back = Move {
        from: there.to,
        to: there.from,
        ..there
    };
    let over = std::cell::Cell::new(false);
    let ((), decided) = tokio::join!(
        async {
            for the_move in [there, back, there] {
                cluster.move_slot(the_move).await;
                desk.settled().await;
            }
            over.set(true);
        },
        async {
            let mut decided = 0;
            while !over.get() {
                decided += usize::from(desk.decides().await);
                tokio::task::yield_now().await;
            }
            decided
        }
    );
    assert!(decided > 0);
    desk.settled().await;
    desk.assert_exact(2).await;
}

#[tokio::test]
async fn a_primary_that_dies_is_followed_by_its_replica() {
    let (cluster, desk, Move { slot, from, .. }) = with_leases().await;
    let replica = &cluster.nodes[from + 3];
    replica.catches_up_with(&cluster.nodes[from]).await;
    cluster.nodes[from].process.kill();
    let (primary, _) = cluster.promoted(slot, from).await;
    assert_eq!(primary, from + 3);
    desk.settled().await;
    desk.assert_exact(2).await;
}

/// A count has one key, so that whoever has it next can answer before the slot is its own.
#[tokio::test]
async fn a_count_whose_slot_is_on_its_way_is_answered_by_whoever_gets_it() {
    let (cluster, desk, _) = with_leases().await;
    let key = CountKey::parse("a").expect("a key");
    let operation = Operation::CheckRateLimit {
        limit: 1,
        window_s: 60,
    };
    let slot = cluster.slot_of("{a}").await;
    let from = cluster.primary_of(slot, 0).await.expect("a primary");
    let to = (from + 1) % 3;
    cluster.begin(Move { slot, from, to }).await;
    let answered = desk.store.atomic(&key, &operation).await;
    assert!(answered.is_ok(), "{answered:?}");
    let keys = format!("CLUSTER COUNTKEYSINSLOT {slot}");
    let kept = [
        cluster.nodes[from].told(&keys).await,
        cluster.nodes[to].told(&keys).await,
    ];
    assert_eq!(kept, ["0", "1"], "it is where the slot goes");
    cluster.finish(Move { slot, from, to }).await;
    let again = desk.store.atomic(&key, &operation).await;
    assert!(
        again.is_ok() && format!("{again:?}") != format!("{answered:?}"),
        "the limit is 1"
    );
}

/// `/readyz` tells these, so that a sidecar that lacks a shard is not taken for one that has all.
#[tokio::test]
async fn a_primary_that_is_missing_is_named_though_the_pool_lives_elsewhere() {
    let (cluster, desk, Move { to: other, .. }) = with_leases().await;
    for node in &cluster.nodes {
        node.told("CONFIG SET cluster-require-full-coverage no")
            .await;
    }
    assert!(desk.store.faults().is_empty());
    // First whoever would stand in for it.
    for node in [other + 3, other] {
        cluster.nodes[node].process.kill();
    }
    let address = cluster.nodes[other].address().to_string();
    eventually("it is named", async || {
        let faults = desk.store.faults();
        faults.iter().any(|(server, _)| *server == address)
    })
    .await;
    eventually("the pool goes on", async || desk.decides().await).await;
}

/// So that callers leave file descriptors for as many connections as the sidecar itself needs.
#[tokio::test]
async fn a_cluster_whose_replicas_are_waited_for_takes_no_more_connections_than_are_kept_for_it() {
    let cluster = RedisCluster::start().await;
    let settings = RedisSettings {
        wait_replicas: 1,
        ..at(cluster.url())
    };
    let desk = Desk::open(&settings).await;
    eventually("every primary is connected", async || desk.store.is_up()).await;
    let mut connections = 0;
    for node in &cluster.nodes {
        let clients = node.info("connected_clients").await.expect("a figure");
        // Not counting whoever asks this.
        connections += clients.parse::<usize>().expect("a number") - 1;
    }
    let kept = Store::connections_max(&settings).expect("a figure");
    assert!(
        (27..=kept).contains(&connections),
        "{connections} of {kept}"
    );
}

#[tokio::test]
async fn pools_and_counts_live_on_every_primary() {
    let (cluster, desk, _) = with_leases().await;
    let mut owners = std::collections::BTreeSet::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        let key = CountKey::parse(name).expect("a key");
        let operation = Operation::CheckRateLimit {
            limit: 1,
            window_s: 60,
        };
        desk.store.atomic(&key, &operation).await.expect("a count");
        let slot = cluster
            .slot_of(&format!("ws:atomic:{{{name}}}:count"))
            .await;
        owners.insert(cluster.primary_of(slot, 0).await);
    }
    assert_eq!(owners.len(), 3, "the keys are spread");
    assert!(desk.store.is_up());
}

#[tokio::test]
async fn the_printed_line_is_enough_for_a_cluster() {
    let cluster = RedisCluster::start().await;
    let (settings, password) = guarded(at(cluster.url()), &cluster.nodes).await;
    let desk = Desk::open(&settings).await;
    desk.assert_exact(0).await;
    // Without one of them nobody can be found.
    for node in &cluster.nodes {
        node.told("ACL SETUSER berth -cluster|slots").await;
    }
    let blind = Store::start(&settings, [].into()).expect("a store");
    eventually("it says what is missing", async || {
        let error = blind.reap(&desk.pool).await.expect_err("nobody to ask");
        error.to_string().contains("cluster|slots")
    })
    .await;
    std::fs::write(password.path(), "open-barley").expect("a password");
    let stranger = Store::start(&settings, [].into()).expect("a store");
    eventually("it says where the password is", async || {
        let error = stranger.reap(&desk.pool).await.expect_err("no entry");
        error.to_string().contains("redis.password_file")
    })
    .await;
}
