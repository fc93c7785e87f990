use crate::support::{Pool, SEED, Vm};
use admission::message::{DenyReason, Verdict};
use redis_sidecar::store::{Sign, Standing};

const REBUILD_MS: f64 = 1_500.0;
const TTL_MS: f64 = 15_000.0;

/// A pool that was made just now.
async fn new_pool() -> Pool {
    let pool = Pool::with(|policy| policy.rebuild_ms = REBUILD_MS as u64).await;
    pool.register("w1", "a").await;
    pool
}

/// A pool whose first rebuild is over.
async fn settled() -> Pool {
    let pool = new_pool().await;
    pass(&pool, REBUILD_MS).await;
    assert!(!rebuilding(&pool).await);
    pool
}

async fn pass(pool: &Pool, ms: f64) {
    pool.clock().await.advance(ms).await;
    pool.look_after().await;
}

async fn rebuilding(pool: &Pool) -> bool {
    pool.view().await.head.rebuilding
}

/// The pool was last used with another server, as after a restart.
async fn restart(pool: &Pool) {
    let other = ["HSET", "ws:{demo}:live", "store_id", "another"];
    pool.redis.command(&other).await;
}

#[tokio::test]
async fn a_new_pool_waits_before_it_admits() {
    let pool = new_pool().await;
    assert_eq!(pool.denied().await, DenyReason::Rebuilding);
    pass(&pool, REBUILD_MS).await;
    pool.admit().await;
    assert_eq!(pool.repairs("rebuilds").await, 1);
}

#[tokio::test]
pub(crate) async fn another_server_than_the_last_begins_a_rebuild_and_the_same_does_not() {
    let pool = settled().await;
    pool.admit().await;
    pool.second_store().await;
    pool.admit().await;
    restart(&pool).await;
    assert_eq!(pool.denied().await, DenyReason::Rebuilding);
    pass(&pool, REBUILD_MS).await;
    assert_eq!(pool.repairs("rebuilds").await, 2);
    pool.release(&pool.mint()).await;
    assert!(!rebuilding(&pool).await);
}

#[tokio::test]
async fn a_redis_that_restarts_is_noticed_by_its_run_id() {
    let mut pool = settled().await;
    pool.admit().await;
    pool.redis.restart().await;
    crate::support::eventually(async || pool.store.reap(&pool.name).await.is_ok()).await;
    pool.register("w1", "a").await;
    assert_eq!(pool.denied().await, DenyReason::Rebuilding);
}

#[tokio::test]
async fn a_pool_that_never_waits_admits_at_once() {
    let pool = Pool::with(|policy| policy.rebuild_ms = 0).await;
    pool.register("w1", "a").await;
    restart(&pool).await;
    pool.admit().await;
    assert_eq!(pool.repairs("rebuilds").await, 0);
}

#[tokio::test]
pub(crate) async fn whoever_was_announced_is_waited_for_until_it_has_told_what_it_holds() {
    let pool = settled().await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    restart(&pool).await;
    let Standing::Present { rebuild: Some(_) } = vm.presence(Sign::Opened, 1).await else {
        panic!("the rebuild does not wait");
    };
    pass(&pool, REBUILD_MS * 2.0).await;
    assert_eq!(pool.denied().await, DenyReason::Rebuilding);
    // With a question on its way, more may be held than is told.
    let mut asking = vm.next();
    asking.asking = vec![vm.mint()];
    assert!(vm.send(&asking).await.rebuild.is_some());
    assert_eq!(pool.denied().await, DenyReason::Rebuilding);
    let answer = vm.renew().await;
    assert_eq!((answer.verdict, answer.rebuild), (Verdict::Kept, None));
    pool.admit().await;
}

/// It may have been on its way since before the loss.
#[tokio::test]
pub(crate) async fn a_beat_that_has_not_heard_of_the_rebuild_is_no_report() {
    let pool = settled().await;
    let mut vm = Vm::new(&pool, 7);
    let late = vm.next();
    vm.admit().await;
    pool.wipe().await;
    vm.presence(Sign::Opened, 2).await;
    assert!(vm.send(&late).await.rebuild.is_some());
    pass(&pool, REBUILD_MS * 2.0).await;
    assert_eq!(pool.denied().await, DenyReason::Rebuilding);
}

#[tokio::test]
async fn a_rebuild_ends_although_clients_keep_asking() {
    let pool = settled().await;
    let mut vm = Vm::new(&pool, 7);
    restart(&pool).await;
    vm.presence(Sign::Opened, 1).await;
    pass(&pool, REBUILD_MS * 2.0).await;
    let mut asking = vm.next();
    asking.asking = vec![vm.mint()];
    let rebuild = vm.send(&asking).await.rebuild;
    // What is asked for now was asked for since.
    let mut told = vm.next();
    (told.asking, told.rebuild) = (vec![vm.mint()], rebuild);
    assert_eq!(vm.send(&told).await.rebuild, None);
    pool.admit().await;
}

#[tokio::test]
async fn what_was_lost_is_told_before_anything_is_admitted() {
    let pool = settled().await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    vm.admit().await;
    pool.wipe().await;
    pool.register("w1", "a").await;
    vm.presence(Sign::Opened, 2).await;
    pass(&pool, REBUILD_MS).await;
    let answer = vm.renew().await;
    assert_eq!(
        (answer.verdict, answer.rebuild.is_some()),
        (Verdict::List, true)
    );
    assert_eq!(pool.denied().await, DenyReason::Rebuilding);
    let answer = vm.list().await;
    assert_eq!(
        (answer.verdict, answer.rebuild.is_some()),
        (Verdict::Kept, false)
    );
    assert_eq!(pool.denied().await, DenyReason::PoolFull);
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn nobody_is_waited_for_longer_than_a_holder_is_believed() {
    let pool = settled().await;
    restart(&pool).await;
    let vm = Vm::new(&pool, 7);
    vm.presence(Sign::Opened, 1).await;
    pass(&pool, TTL_MS - 1_000.0).await;
    assert_eq!(pool.denied().await, DenyReason::Rebuilding);
    vm.presence(Sign::Vouched, 1).await;
    pass(&pool, 1_000.0).await;
    pool.admit().await;
}

#[tokio::test]
async fn whoever_has_told_already_is_not_waited_for_again() {
    let pool = settled().await;
    restart(&pool).await;
    let mut vm = Vm::new(&pool, 7);
    vm.renew().await;
    vm.renew().await;
    let standing = vm.presence(Sign::Opened, 1).await;
    assert_eq!(standing, Standing::Present { rebuild: None });
    pass(&pool, REBUILD_MS).await;
    pool.admit().await;
}

#[tokio::test]
async fn whoever_is_gone_is_not_waited_for() {
    let pool = settled().await;
    restart(&pool).await;
    let vm = Vm::new(&pool, 7);
    vm.presence(Sign::Opened, 1).await;
    vm.presence(Sign::Ended, 1).await;
    pass(&pool, REBUILD_MS).await;
    pool.admit().await;
}

#[tokio::test]
pub(crate) async fn what_spoke_against_an_end_may_have_been_lost() {
    let pool = settled().await;
    let mut vm = Vm::new(&pool, 7);
    vm.presence(Sign::Opened, 1).await;
    vm.admit().await;
    vm.presence(Sign::Ended, 1).await;
    pool.clock().await.advance(1_400.0).await;
    restart(&pool).await;
    // The end is old enough by now, the rebuild is not.
    pool.reap().await;
    pass(&pool, 500.0).await;
    assert_eq!(pool.view().await.head.active, 1);
    pass(&pool, 1_500.0).await;
    assert_eq!(pool.view().await.head.active, 0);
}

#[tokio::test]
async fn applying_a_policy_does_not_end_a_rebuild() {
    let pool = new_pool().await;
    let mut policy = pool.view().await.policy;
    for max_concurrent in [2, 3] {
        policy.max_concurrent = max_concurrent;
        let applied = pool.store.apply_seeded(&pool.name, &policy, SEED).await;
        applied.unwrap();
        assert_eq!(pool.denied().await, DenyReason::Rebuilding);
    }
    assert_eq!(pool.repairs("rebuilds").await, 1);
}
