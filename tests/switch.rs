//! A pool in service gets another strategy: nobody inside notices, nobody outside is turned away.

use admission::policy::{Policy, Strategy};
use futures_util::future::join_all;
use harness::{Fleet, RunningFleet, Session, close_all};
use std::cell::Cell;
use tokio::join;

/// Sessions that stay open all the time, in a pool of twice as many places.
const RESIDENTS: usize = 40;
/// Clients that come and go all the time.
const VISITORS: usize = 4;
/// Sessions that each strategy gets to decide about.
const DECISIONS: u64 = 20;

/// One client's sessions, one after the other.
async fn come_and_go(fleet: &RunningFleet, number: usize, closing: &Cell<bool>) {
    let client = fleet.envoys[number % fleet.envoys.len()].client();
    while !closing.get() {
        let mut session = client.websocket("/").await.admitted();
        assert!(session.echoes("just passing").await);
        session.close().await;
    }
}

/// Gives the pool this strategy, and waits until it has decided about some sessions.
async fn switch(fleet: &RunningFleet, strategy: Strategy) -> u64 {
    let before = fleet.view().await;
    let policy = Policy {
        strategy,
        ..before.policy
    };
    let version = fleet.api().set_policy(&policy).await.unwrap();
    let view = fleet.view().await;
    assert_eq!(view.policy, policy);
    let decided = view.lifetimes() + DECISIONS;
    fleet
        .sees("clients come in", |pool| pool.lifetimes() >= decided)
        .await;
    version
}

async fn assert_unharmed(fleet: &RunningFleet, residents: &mut [Session]) {
    let echoes = residents
        .iter_mut()
        .map(|session| session.echoes("still here"));
    assert!(join_all(echoes).await.into_iter().all(|echoed| echoed));
    let view = fleet.view().await;
    assert!(view.active >= RESIDENTS as u64, "{view:#?}");
    assert!(view.rejected.values().all(|count| *count == 0), "{view:#?}");
    fleet.assert_consistent().await;
}

#[tokio::test]
async fn a_pool_in_service_goes_through_every_strategy_and_back_and_nobody_notices() {
    let fleet = Fleet::new()
        .envoys(2)
        .workers(4)
        .max_concurrent(20)
        .policy(|policy| policy.max_lifetime = 1000)
        .up()
        .await;
    let visits = fleet.websockets(RESIDENTS).await.into_iter();
    let mut residents: Vec<Session> = visits.map(|visit| visit.admitted()).collect();
    let closing = Cell::new(false);
    let visitors = (0..VISITORS).map(|number| come_and_go(&fleet, number, &closing));
    let switches = async {
        let there = Strategy::ALL.into_iter().skip(1);
        let back = Strategy::ALL.into_iter().rev().skip(1);
        let mut version = 0;
        for strategy in there.chain(back) {
            let newer = switch(&fleet, strategy).await;
            assert!(newer > version, "{newer} after {version}");
            version = newer;
            assert_unharmed(&fleet, &mut residents).await;
        }
        closing.set(true);
    };
    join!(join_all(visitors), switches);

    for worker in &fleet.workers {
        let id = worker.id().as_str();
        let of_worker = |session: &&Session| session.worker == id;
        let sessions = residents.iter().filter(of_worker).count() as u64;
        fleet
            .sees("every place is a resident's", |pool| {
                pool.worker(id)
                    .is_some_and(|shown| shown.active == sessions)
            })
            .await;
    }
    close_all(residents).await;
    fleet
        .sees("all places are free", |pool| pool.active == 0)
        .await;
}
