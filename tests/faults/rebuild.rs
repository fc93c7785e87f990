//! Rows 9 and 10: Redis loses what it had. Everyone keeps their session, and nobody gets its place.

use harness::client::Session;
use harness::{Fleet, Prober, Promise, RunningFleet, close_all, scenario};
use std::time::Instant;

const WORKERS: usize = 5;

/// Every place is taken: whoever comes in now is one too many.
async fn full_house(fleet: Fleet, places: usize) -> (RunningFleet, Vec<Session>) {
    let fleet = fleet.as_shipped().envoys(2).workers(WORKERS);
    let fleet = fleet.max_concurrent((places / WORKERS) as u32).up().await;
    let sessions = fleet.sessions(places).await;
    (fleet, sessions)
}

#[tokio::test]
async fn a_flushed_store_learns_500_sessions_again_and_gives_none_of_their_places_away() {
    let (fleet, sessions) = full_house(Fleet::new(), 500).await;
    let prober = Prober::start(fleet.client());
    let start = Instant::now();
    fleet.redis.told("FLUSHALL").await;
    let promise = Promise::new(9, "FLUSHALL, 500 sessions", 4000);
    scenario::rebuilt(&fleet, sessions, prober, (promise, start)).await;
}

#[tokio::test]
async fn a_store_that_restarts_empty_learns_500_sessions_again_and_gives_none_of_their_places_away()
{
    let (mut fleet, sessions) = full_house(Fleet::new(), 500).await;
    let prober = Prober::start(fleet.client());
    fleet.redis.restart().await;
    let promise = Promise::new(9, "Redis restarted empty, 500 sessions", 4000);
    scenario::rebuilt(&fleet, sessions, prober, (promise, Instant::now())).await;
}

/// The house is filled right before the kill: what was not written to disk is told by the holders.
#[tokio::test]
async fn a_store_that_restarts_from_its_file_gives_no_place_twice() {
    let (mut fleet, sessions) = full_house(Fleet::new().redis_aof(), 50).await;
    let prober = Prober::start(fleet.client());
    fleet.redis.restart().await;
    let start = Instant::now();
    let rebuilds = async || {
        let view = fleet.api().view().await;
        view.is_ok_and(|view| view.rebuilding || view.repaired("rebuilds") > 1)
    };
    harness::eventually("a rebuild begins", rebuilds).await;
    let promise = Promise::new(10, "Redis restarted from its file", 4000);
    scenario::rebuilt(&fleet, sessions, prober, (promise, start)).await;
}

/// Someone asks at every moment, as in any fleet of some size.
#[tokio::test]
async fn a_rebuild_ends_in_time_while_clients_come_without_a_pause() {
    const CLIENTS: usize = 24;
    let (fleet, sessions) = full_house(Fleet::new(), 50).await;
    let envoys = fleet.envoys.iter().cycle().take(CLIENTS);
    let crowd: Vec<Prober> = envoys.map(|envoy| Prober::start(envoy.client())).collect();
    let prober = Prober::start(fleet.client());
    let start = Instant::now();
    fleet.redis.told("FLUSHALL").await;
    let promise = Promise::new(9, "FLUSHALL, 24 clients asking all the time", 4000);
    scenario::rebuilt(&fleet, sessions, prober, (promise, start)).await;
    for client in crowd {
        client.stop().await.assert_typed_in_time();
    }
}

#[tokio::test]
async fn lifetimes_survive_the_loss_of_the_store() {
    let (fleet, sessions) = full_house(Fleet::new(), 10).await;
    close_all(sessions).await;
    fleet.sees("all are gone", |pool| pool.active == 0).await;
    let told = fleet.view().await.lifetimes();
    // A worker says what it was last told: one heartbeat later it knows.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    fleet.redis.told("FLUSHALL").await;
    fleet
        .sees("the workers have told it", |pool| {
            !pool.rebuilding && pool.available() == WORKERS && pool.lifetimes() == told
        })
        .await;
}
