//! A pool in service gets another strategy: nobody inside notices, nobody outside is turned away, and
//! no limit is forgotten.

use admission::policy::{Policy, Strategy};
use futures_util::future::join_all;
use harness::{Fleet, RunningFleet, Session, close_all, split};
use std::cell::Cell;
use tokio::join;

/// Sessions that stay open all the time.
const RESIDENTS: usize = 200;
/// They come in groups: together they would be a test of how quickly this machine opens sessions.
const GROUP: usize = 20;
const WORKERS: usize = 4;
const MAX_CONCURRENT: u32 = 60;
/// Places for those who come and go. Far more than there are visitors: a place comes back a little
/// later than its visitor does.
const SPARE: usize = WORKERS * MAX_CONCURRENT as usize - RESIDENTS;
/// Clients that come and go while the strategy changes.
const VISITORS: usize = 4;
/// Sessions that each strategy gets to decide about meanwhile.
const DECISIONS: u64 = 20;

async fn fleet() -> RunningFleet {
    Fleet::new()
        .envoys(2)
        .workers(WORKERS)
        .max_concurrent(MAX_CONCURRENT)
        .up()
        .await
}

async fn move_in(fleet: &RunningFleet) -> Vec<Session> {
    let mut residents = Vec::new();
    while residents.len() < RESIDENTS {
        let visits = fleet.websockets(GROUP).await.into_iter();
        residents.extend(visits.map(|visit| visit.admitted()));
    }
    residents
}

/// One client's sessions, one after the other.
async fn come_and_go(fleet: &RunningFleet, number: usize, closing: &Cell<bool>) {
    let client = fleet.envoys[number % fleet.envoys.len()].client();
    while !closing.get() {
        let mut session = client.websocket("/").await.admitted();
        assert!(session.echoes("just passing").await);
        session.close().await;
    }
}

/// Gives the pool this strategy while clients come and go, and waits until it has decided about some
/// of them.
async fn switch(fleet: &RunningFleet, strategy: Strategy) {
    let closing = Cell::new(false);
    let visitors = (0..VISITORS).map(|number| come_and_go(fleet, number, &closing));
    let switched = async {
        let before = fleet.view().await;
        let policy = Policy {
            strategy,
            ..before.policy
        };
        let version = fleet.api().set_policy(&policy).await.unwrap();
        let after = fleet.view().await;
        assert_eq!((after.policy_version, &after.policy), (version, &policy));
        assert_eq!(version, before.policy_version + 1);
        let decided = after.lifetimes() + DECISIONS;
        fleet
            .sees("clients come in", |pool| pool.lifetimes() >= decided)
            .await;
        closing.set(true);
    };
    join!(join_all(visitors), switched);
}

/// Every resident's session lives, and exactly theirs are the places taken, worker by worker.
async fn assert_at_home(fleet: &RunningFleet, residents: &mut [Session]) {
    let echoes = (residents.iter_mut()).map(|session| session.echoes("still here"));
    let echoed = join_all(echoes).await;
    assert_eq!(echoed.iter().filter(|echoed| **echoed).count(), RESIDENTS);
    let lives_at = |worker: &str| {
        let there = residents.iter().filter(|session| session.worker == worker);
        there.count() as u64
    };
    fleet
        .sees("every place taken is a resident's", |pool| {
            let mut workers = pool.workers.iter();
            pool.active == RESIDENTS as u64
                && workers.all(|worker| worker.active == lives_at(worker.worker.as_str()))
        })
        .await;
    fleet.assert_consistent().await;
}

/// Through both Envoys at once: as many come in as there are places, and not one more.
async fn assert_limited(fleet: &RunningFleet) {
    const TOO_MANY: usize = 4;
    let (admitted, refused) = split(fleet.websockets(SPARE + TOO_MANY).await);
    assert_eq!((admitted.len(), refused.len()), (SPARE, TOO_MANY));
    for refusal in refused {
        assert_eq!(
            (refusal.status, refusal.reason.as_deref()),
            (503, Some("pool_full"))
        );
    }
    let full = fleet.view().await;
    assert_eq!(full.active, (RESIDENTS + SPARE) as u64, "{full:#?}");
    fleet.assert_consistent().await;
    close_all(admitted).await;
    fleet
        .sees("the spare places are free", |pool| {
            pool.active == RESIDENTS as u64
        })
        .await;
}

#[tokio::test]
async fn a_pool_in_service_goes_through_every_strategy_and_nobody_notices() {
    let fleet = fleet().await;
    let mut residents = move_in(&fleet).await;
    let [first, others @ ..] = Strategy::ALL;
    assert_eq!(fleet.view().await.policy.strategy, first);
    for strategy in others.into_iter().chain([first]) {
        let refused_before = fleet.view().await.refused();
        switch(&fleet, strategy).await;
        assert_eq!(fleet.view().await.refused(), refused_before);
        assert_at_home(&fleet, &mut residents).await;
        assert_limited(&fleet).await;
    }
    assert_at_home(&fleet, &mut residents).await;
    close_all(residents).await;
    fleet
        .sees("all places are free", |pool| {
            pool.active == 0 && pool.workers.iter().all(|worker| worker.active == 0)
        })
        .await;
    let again = move_in(&fleet).await;
    assert_eq!(fleet.view().await.active, RESIDENTS as u64);
    close_all(again).await;
}
