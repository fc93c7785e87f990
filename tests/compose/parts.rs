//! Each kind of container is killed, ended, or stands still.

use harness::client::Session;
use harness::{Compose, ComposeFleet, Fault, Part, Prober, Promise, Raised, close_all, scenario};
use std::time::{Duration, Instant};

const SESSIONS: usize = 100;
const WORKERS: usize = 4;

/// Every place is taken, through this Envoy.
async fn full_house(fleet: &ComposeFleet, envoy: usize) -> Vec<Session> {
    let sessions = fleet.sessions_of(envoy, SESSIONS).await;
    fleet
        .sees("all hold a place", |pool| pool.active == SESSIONS as u64)
        .await;
    sessions
}

async fn fleet() -> ComposeFleet {
    let fleet = Compose::new().workers(WORKERS);
    fleet.max_concurrent((SESSIONS / WORKERS) as u32).up().await
}

#[tokio::test]
async fn an_envoy_keeps_its_places_while_it_stands_still_and_gives_them_back_when_it_ends() {
    let mut fleet = fleet().await;
    let sessions = full_house(&fleet, 0).await;
    let (fault, lasting) = (Fault::Stopped(Part::Envoy(0)), Duration::from_secs(5));
    scenario::places_are_kept(&mut fleet, fault, lasting, &sessions).await;
    fleet.heal(fault).await;
    fleet.assert_unharmed(sessions).await;
    for (row, name, fault) in [
        (
            1,
            "compose: Envoy killed, 100 sessions",
            Fault::Killed(Part::Envoy(0)),
        ),
        (
            2,
            "compose: Envoy ended, 100 sessions",
            Fault::Ended(Part::Envoy(0)),
        ),
    ] {
        let sessions = full_house(&fleet, 0).await;
        let promise = Promise::new(row, name, 3000);
        scenario::places_return(&mut fleet, fault, promise).await;
        drop(sessions);
        fleet.heal(fault).await;
        fleet.all_well().await;
    }
}

#[tokio::test]
async fn a_spare_serves_while_a_sidecar_is_killed_or_stands_still() {
    let mut fleet = fleet().await;
    let mut sessions = fleet.sessions_of(0, 20).await;
    for (name, fault) in [
        ("compose: sidecar killed", Fault::Killed(Part::Sidecar(0))),
        ("compose: sidecar stopped", Fault::Stopped(Part::Sidecar(0))),
    ] {
        let promise = Promise::new(7, name, 2000);
        let lasting = Duration::from_secs(5);
        scenario::spare_serves(&mut fleet, fault, lasting, (promise, &mut sessions)).await;
        fleet.heal(fault).await;
        fleet.all_well().await;
    }
    fleet.assert_unharmed(sessions).await;
}

#[tokio::test]
async fn a_redis_that_stands_still_or_restarts_from_its_file_costs_nobody_a_place() {
    let mut fleet = fleet().await;
    let sessions = fleet.sessions(20).await;
    let promise = Promise::new(8, "compose: Redis stopped for 5 s", 2000);
    let (fault, lasting) = (Fault::Stopped(Part::Redis), Duration::from_secs(5));
    scenario::outage_costs_nothing(&mut fleet, fault, lasting, (promise, sessions)).await;
    let sessions = full_house(&fleet, 1).await;
    let prober = Prober::start(fleet.client());
    let fault = Fault::Killed(Part::Redis);
    fleet.harm(fault).await;
    fleet.heal(fault).await;
    let promise = Promise::new(10, "compose: Redis killed, restarted from its file", 4000);
    scenario::rebuilt(&fleet, sessions, prober, (promise, Instant::now())).await;
}

#[tokio::test]
async fn a_worker_that_is_killed_starts_anew() {
    let mut fleet = Compose::new().workers(1).max_concurrent(10).up().await;
    let cut = fleet.sessions(10).await;
    let promise = Promise::new(17, "compose: worker killed, started again", 3000);
    scenario::worker_starts_anew(&mut fleet, Fault::Killed(Part::Worker(0)), promise).await;
    drop(cut);
    let sessions = fleet.sessions(10).await;
    fleet
        .sees("only the new ones hold places", |pool| pool.active == 10)
        .await;
    close_all(sessions).await;
    fleet.assert_consistent().await;
}

#[tokio::test]
async fn a_worker_that_stands_still_keeps_its_sessions() {
    let mut fleet = fleet().await;
    let sessions = fleet.sessions(20).await;
    let fault = Fault::Stopped(Part::Worker(0));
    fleet.harm(fault).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    fleet.heal(fault).await;
    scenario::serves_again(
        &fleet,
        Promise::new(17, "compose: worker stopped for 3 s", 2000),
    )
    .await;
    fleet.assert_unharmed(sessions).await;
}
