use crate::support::{Pool, Vm, registration};
use admission::message::{AdmitAnswer, DenyReason, Held, Verdict};
use admission::policy::Strategy;

/// A pool with one worker that has room for all.
async fn roomy() -> Pool {
    let pool = Pool::with(|policy| {
        policy.strategy = Strategy::LeastConnections;
        policy.max_concurrent = 100_000;
        policy.max_lifetime = 0;
    })
    .await;
    pool.register("w1", "a").await;
    pool
}

#[tokio::test]
async fn a_holder_that_holds_what_the_store_has_is_kept() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    // Numbers of every length: the digest is the same on both sides.
    for beat in [0, 1, 255, 256, 1 << 20, (1 << 29) - 9] {
        vm.beat = beat;
        for _ in 0..5 {
            vm.admit().await;
        }
        let answer = vm.renew().await;
        assert_eq!((answer.verdict, answer.lost), (Verdict::Kept, false));
        assert_eq!(answer.lease_ttl_ms, 15_000);
    }
    let number = *vm.held.keys().next().unwrap();
    vm.release(number).await;
    assert_eq!(vm.renew().await.verdict, Verdict::Kept);
    pool.assert_no_drift().await;
}

#[tokio::test]
pub(crate) async fn a_beat_that_is_not_above_the_last_changes_nothing() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    vm.beat = 4;
    vm.renew().await;
    let late = vm.mint();
    let mut stale = vm.next();
    stale.beat = 5;
    stale.asking = vec![late];
    for beat in [5, 4] {
        stale.beat = beat;
        assert_eq!(vm.send(&stale).await.verdict, Verdict::Stale);
    }
    vm.renew().await;
    // What the stale ones asked for was not noted.
    assert_eq!(vm.denied(late).await, DenyReason::Cancelled);
}

#[tokio::test]
pub(crate) async fn an_admit_that_arrives_after_a_beat_without_it_is_cancelled() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    let late = vm.mint();
    vm.renew().await;
    assert_eq!(vm.denied(late).await, DenyReason::Cancelled);
}

#[tokio::test]
pub(crate) async fn an_admit_that_the_last_beat_asked_for_is_given() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    let (late, other) = (vm.mint(), vm.mint());
    let mut request = vm.next();
    request.asking = vec![late];
    vm.send(&request).await;
    assert!(matches!(vm.ask(late).await, AdmitAnswer::Admitted(_)));
    assert_eq!(vm.denied(other).await, DenyReason::Cancelled);
    assert_eq!(vm.renew().await.verdict, Verdict::Kept);
    pool.assert_no_drift().await;
}

#[tokio::test]
pub(crate) async fn what_is_on_its_way_is_left_out_of_the_comparison() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    let (asked, ended, held) = (vm.admit().await, vm.admit().await, vm.admit().await);
    vm.held.retain(|number, _| *number == held);
    let mut request = vm.next();
    (request.asking, request.ended) = (vec![asked], vec![ended, ended]);
    assert_eq!(vm.send(&request).await.verdict, Verdict::Kept);
    // Minted after the beat: none of its business.
    let young = vm.admit().await;
    vm.held.remove(&young);
    let mut request = vm.next();
    (request.beat, request.ended) = (vm.beat, vec![asked, ended, young]);
    assert_eq!(vm.send(&request).await.verdict, Verdict::Kept);
    let mut request = vm.next();
    request.held = None;
    assert_eq!(vm.send(&request).await.verdict, Verdict::Kept);
}

#[tokio::test]
async fn what_the_holder_does_not_list_is_renounced() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    for _ in 0..300 {
        vm.admit().await;
    }
    vm.held.retain(|number, _| number % 2 == 0);
    assert_eq!(vm.renew().await.verdict, Verdict::List);
    assert_eq!(vm.list().await.verdict, Verdict::Kept);
    assert_eq!(pool.worker("w1").await.active, 150);
    assert_eq!(pool.worker("w1").await.lifetime, 300);
    assert_eq!(pool.repairs("renounced").await, 150);
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn what_the_store_lost_is_reasserted() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    for _ in 0..300 {
        vm.admit().await;
    }
    let first = *vm.held.keys().next().unwrap();
    vm.release(first).await;
    pool.wipe().await;
    assert_eq!(vm.renew().await.verdict, Verdict::List);
    assert_eq!(vm.list().await.verdict, Verdict::Kept);
    let worker = pool.worker("w1").await;
    assert_eq!((worker.active, worker.lifetime), (299, 300));
    assert_eq!(pool.repairs("reasserted").await, 299);
    pool.assert_no_drift().await;
    // It serves again once it registers, and has not forgotten anything.
    assert_eq!(pool.denied().await, DenyReason::NoWorker);
    let answer = pool.register("w1", "a").await;
    assert_eq!((answer.active, answer.lifetime), (299, 300));
    vm.admit().await;
    for number in vm.held.keys().copied().collect::<Vec<_>>() {
        vm.release(number).await;
    }
    assert_eq!(pool.worker("w1").await.active, 0);
    pool.assert_no_drift().await;
}

#[tokio::test]
pub(crate) async fn an_ended_lease_is_not_reasserted() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    let (ended, held) = (vm.admit().await, vm.admit().await);
    let admitted = vm.held[&ended].clone();
    vm.release(ended).await;
    vm.held.insert(ended, admitted);
    vm.list().await;
    assert_eq!(pool.worker("w1").await.active, 1);
    vm.held.remove(&ended);
    assert_eq!(vm.renew().await.verdict, Verdict::Kept, "{held}");
}

#[tokio::test]
pub(crate) async fn a_list_counts_only_while_its_beat_is_the_last() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    let kept = vm.admit().await.to_string();
    vm.renew().await;
    vm.renew().await;
    for old in ["1", "3"] {
        let lost = [old, "77", "1", "w1", "a", "10.0.0.1:80", ""];
        assert_eq!(pool.call("reassert", &vm.holder, &lost).await, ["stale"]);
        let extra = [old, kept.as_str()];
        assert_eq!(pool.call("renounce", &vm.holder, &extra).await, ["stale"]);
    }
    let young = vm.admit().await.to_string();
    let reply = pool.call("renounce", &vm.holder, &["2", &young]).await;
    assert_eq!(reply, ["renounced", "0"]);
}

#[tokio::test]
pub(crate) async fn who_was_forgotten_is_told_to_beat_before_it_gets_anything_new() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    vm.renew().await;
    vm.renew().await;
    pool.wipe().await;
    pool.register("w1", "a").await;
    let number = vm.mint();
    assert_eq!(vm.denied(number).await, DenyReason::Rebuilding);
    // Its presence alone tells nothing of what it holds.
    vm.presence(redis_sidecar::store::Sign::Opened, 1).await;
    assert_eq!(vm.denied(number).await, DenyReason::Rebuilding);
    vm.renew().await;
    vm.admit().await;
}

#[tokio::test]
async fn what_was_asked_after_the_first_beat_may_overtake_it() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    vm.next();
    vm.admit().await;
}

#[tokio::test]
async fn a_worker_known_by_its_leases_alone_is_told_to_register() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    pool.wipe().await;
    vm.renew().await;
    vm.list().await;
    assert_eq!(pool.view().await.head.active, 1);
    let told = pool.heartbeat("w1", "a").await;
    assert_eq!(told.advice, admission::message::Advice::Register);
    assert_eq!(pool.view().await.head.open, 0);
    pool.register("w1", "a").await;
    assert_eq!(pool.view().await.head.open, 1);
}

#[tokio::test]
async fn a_lease_on_a_former_life_is_reasserted_there() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    for _ in 0..3 {
        vm.admit().await;
    }
    pool.wipe().await;
    pool.register("w1", "b").await;
    assert_eq!(vm.list().await.verdict, Verdict::Kept);
    assert_eq!(pool.worker("w1").await.active, 0);
    pool.assert_no_drift().await;
    let back = pool.register("w1", "a").await;
    assert_eq!((back.active, back.lifetime), (3, 3));
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn above_the_limit_it_is_overcommitted_and_counted() {
    let pool = Pool::with(|policy| policy.max_concurrent = 2).await;
    pool.register("w1", "a").await;
    let (mut vm, mut other) = (Vm::new(&pool, 7), Vm::new(&pool, 8));
    vm.admit().await;
    vm.admit().await;
    pool.wipe().await;
    pool.register("w1", "a").await;
    other.admit().await;
    assert_eq!(vm.list().await.verdict, Verdict::Kept);
    assert_eq!(pool.worker("w1").await.active, 3);
    assert_eq!(pool.repairs("overcommitted").await, 1);
    assert_eq!(pool.denied().await, DenyReason::PoolFull);
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn a_lifetime_is_what_the_worker_or_its_leases_tell() {
    let pool = Pool::with(|policy| policy.max_lifetime = 5).await;
    pool.register("w1", "a").await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    vm.admit().await;
    pool.wipe().await;
    let mut request = registration("a", None, 1.0);
    request.lifetime = Some(1);
    assert_eq!(pool.register_as("w1", &request).await.lifetime, 1);
    vm.list().await;
    assert_eq!(pool.worker("w1").await.lifetime, 2);
    let beaten = pool.heartbeat("w1", "a").await;
    assert_eq!(beaten.advice, admission::message::Advice::Serve);
    request.lifetime = Some(5);
    let answer = pool.register_as("w1", &request).await;
    assert_eq!(answer.advice, admission::message::Advice::Recycle);
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn a_worker_whose_limit_its_leases_tell_of_is_told_to_recycle() {
    let pool = Pool::with(|policy| policy.max_lifetime = 2).await;
    pool.register("w1", "a").await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    vm.admit().await;
    pool.wipe().await;
    pool.register("w1", "a").await;
    vm.list().await;
    let beaten = pool.heartbeat("w1", "a").await;
    assert_eq!(beaten.advice, admission::message::Advice::Recycle);
    pool.assert_no_drift().await;
}

#[tokio::test]
async fn a_beat_costs_the_same_however_many_leases_there_are() {
    let pool = roomy().await;
    let (mut few, mut many) = (Vm::new(&pool, 7), Vm::new(&pool, 8));
    for _ in 0..10 {
        few.admit().await;
    }
    for _ in 0..10_000 {
        many.admit().await;
    }
    let mut calls = Vec::new();
    for vm in [&mut few, &mut many] {
        vm.renew().await;
        let beat = vm.next();
        let work = async { assert_eq!(vm.send(&beat).await.verdict, Verdict::Kept) };
        calls.push(pool.redis.count_calls(work).await);
    }
    assert_eq!(calls[0], calls[1]);
    assert!(calls[0] <= 10, "{calls:?}");
}

#[tokio::test]
async fn a_wrong_digest_is_noticed_and_a_wrong_count_too() {
    let pool = roomy().await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    for wrong in [
        Held {
            count: 1,
            digest: 1,
        },
        Held::default(),
    ] {
        let mut request = vm.next();
        request.held = Some(wrong);
        assert_eq!(vm.send(&request).await.verdict, Verdict::List);
    }
}

#[tokio::test]
async fn reasserted_leases_end_as_others_do_under_every_strategy() {
    for strategy in Strategy::ALL {
        let pool = Pool::with(|policy| {
            policy.strategy = strategy;
            policy.max_concurrent = 10;
        })
        .await;
        let arrive = async || {
            pool.register("w1", "a").await;
            pool.report("w1", "a", Some(crate::race::idle())).await;
        };
        arrive().await;
        let mut vm = Vm::new(&pool, 7);
        for _ in 0..3 {
            vm.admit().await;
        }
        pool.wipe().await;
        arrive().await;
        assert_eq!(vm.list().await.verdict, Verdict::Kept);
        vm.admit().await;
        pool.assert_no_drift().await;
        for number in vm.held.keys().copied().collect::<Vec<_>>() {
            vm.release(number).await;
        }
        assert_eq!(pool.worker("w1").await.active, 0, "{strategy:?}");
        pool.assert_no_drift().await;
        let explanation = pool.explain(&Default::default()).await;
        let unknown = explanation.workers[0].inputs.get("leases_since_report");
        assert!(unknown.is_none_or(|leases| *leases == 0.0), "{unknown:?}");
    }
}
