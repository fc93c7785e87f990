use crate::support::{Pool, Vm, id};
use admission::id::Incarnation;
use admission::message::{DenyReason, HeartbeatRequest, Verdict};
use redis_sidecar::store::{Sign, Standing};

const TTL_MS: f64 = 15_000.0;
const GRACE_MS: f64 = 1_500.0;

async fn one_worker() -> Pool {
    let pool = Pool::with(|policy| {
        policy.max_concurrent = 1_000;
        policy.max_lifetime = 1_000_000;
        // Hundreds of admits may take a busy machine longer than a heartbeat lasts.
        policy.heartbeat_ttl_ms = 3_600_000;
    })
    .await;
    pool.register("w1", "a").await;
    pool
}

async fn pass(pool: &Pool, ms: f64) {
    pool.clock().await.advance(ms).await;
    pool.look_after().await;
}

async fn active(pool: &Pool) -> u64 {
    pool.assert_no_drift().await;
    pool.view().await.head.active
}

async fn sessions(pool: &Pool, sessions: u64) {
    let request = HeartbeatRequest {
        incarnation: Incarnation::parse("a").unwrap(),
        sessions: Some(sessions),
        report: None,
    };
    let answer = pool.store.heartbeat(&pool.name, &id("w1"), &request).await;
    answer.unwrap();
}

#[tokio::test]
pub(crate) async fn a_holder_without_a_beat_is_reclaimed_after_its_time() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    vm.renew().await;
    vm.admit().await;
    pass(&pool, TTL_MS - 2_000.0).await;
    assert_eq!(active(&pool).await, 2);
    pass(&pool, 2_000.0).await;
    assert_eq!(active(&pool).await, 0);
    assert_eq!(pool.view().await.head.holders, 0);
    assert_eq!(pool.repairs("reclaimed_ttl").await, 2);
}

#[tokio::test]
async fn an_admit_does_not_prolong_a_holders_life() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    for _ in 0..4 {
        vm.admit().await;
        pass(&pool, TTL_MS / 4.0).await;
    }
    assert_eq!(active(&pool).await, 0);
}

#[tokio::test]
async fn whoever_is_first_heard_of_by_its_end_is_gone() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    let late = vm.mint();
    assert_eq!(vm.presence(Sign::Ended, 1).await, Standing::Noted);
    pass(&pool, 1_500.0).await;
    assert_eq!(vm.denied(late).await, DenyReason::Cancelled);
    assert_eq!(pool.view().await.head.holders, 0);
}

#[tokio::test]
pub(crate) async fn a_reclaimed_holder_gets_nothing_until_it_beats_and_hears_that_it_lost() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    let number = vm.admit().await;
    pass(&pool, TTL_MS).await;
    let next = vm.mint();
    assert_eq!(vm.denied(next).await, DenyReason::Cancelled);
    assert_eq!(vm.denied(number).await, DenyReason::Cancelled);
    assert_eq!(vm.presence(Sign::Opened, 1).await, Standing::Reclaimed);
    let late = ["0", "77", "1", "w1", "a", "10.0.0.1:80", ""];
    assert_eq!(pool.call("reassert", &vm.holder, &late).await, ["stale"]);
    let answer = vm.list().await;
    assert_eq!((answer.verdict, answer.lost), (Verdict::List, true));
    assert_eq!(active(&pool).await, 0, "it may want to close them first");
    let answer = vm.list().await;
    assert_eq!((answer.verdict, answer.lost), (Verdict::Kept, false));
    assert_eq!(active(&pool).await, 1);
    vm.admit().await;
    assert!(!vm.renew().await.lost);
}

#[tokio::test]
pub(crate) async fn a_holder_whose_presence_ended_has_a_moment_to_say_that_it_lives() {
    let pool = one_worker().await;
    for saves in ["a beat", "an opening", "nothing"] {
        let mut vm = Vm::new(&pool, saves.len() as u8);
        vm.admit().await;
        vm.presence(Sign::Opened, 1).await;
        assert_eq!(vm.presence(Sign::Ended, 1).await, Standing::Noted);
        pass(&pool, 1_200.0).await;
        // Even if it is looked at for another reason.
        pool.call("reclaim", &vm.holder, &["0"]).await;
        assert_eq!(active(&pool).await, 1, "{saves}");
        match saves {
            "a beat" => drop(vm.renew().await),
            "an opening" => drop(vm.presence(Sign::Opened, 2).await),
            _ => {}
        }
        pass(&pool, 1_200.0).await;
        let expected = u64::from(saves != "nothing");
        assert_eq!(active(&pool).await, expected, "{saves}");
        for number in vm.held.keys().copied().collect::<Vec<_>>() {
            vm.release(number).await;
        }
    }
    assert_eq!(pool.repairs("reclaimed_presence").await, 1);
}

#[tokio::test]
pub(crate) async fn the_end_of_an_earlier_presence_does_not_count() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    vm.presence(Sign::Opened, 1).await;
    vm.presence(Sign::Opened, 2).await;
    assert_eq!(vm.presence(Sign::Ended, 1).await, Standing::Superseded);
    assert_eq!(vm.presence(Sign::Vouched, 1).await, Standing::Superseded);
    pass(&pool, 5_000.0).await;
    assert_eq!(active(&pool).await, 1);
}

#[tokio::test]
pub(crate) async fn late_words_of_a_presence_that_ended_do_not_revive_it() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    // Its opening comes after its end.
    vm.presence(Sign::Ended, 1).await;
    for sign in [Sign::Opened, Sign::Vouched] {
        assert_eq!(vm.presence(sign, 1).await, Standing::Superseded);
    }
    pass(&pool, 1_000.0).await;
    // The end told again does not begin the wait anew.
    assert_eq!(vm.presence(Sign::Ended, 1).await, Standing::Noted);
    pass(&pool, 600.0).await;
    assert_eq!(active(&pool).await, 0);
}

#[tokio::test]
async fn an_end_told_again_after_a_beat_does_not_count_again() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    vm.presence(Sign::Opened, 1).await;
    vm.presence(Sign::Ended, 1).await;
    vm.renew().await;
    vm.presence(Sign::Ended, 1).await;
    pass(&pool, 5_000.0).await;
    assert_eq!(active(&pool).await, 1);
}

#[tokio::test]
pub(crate) async fn a_holder_that_is_present_but_silent_keeps_its_leases_and_is_told_of() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    vm.presence(Sign::Opened, 1).await;
    for _ in 0..5 {
        pass(&pool, TTL_MS / 2.0).await;
        vm.presence(Sign::Vouched, 1).await;
    }
    assert_eq!(active(&pool).await, 1);
    assert_eq!(pool.view().await.head.quarantined_holders, 1);
    assert_eq!(pool.repairs("quarantined").await, 1);
    vm.renew().await;
    assert_eq!(pool.view().await.head.quarantined_holders, 0);
    pass(&pool, TTL_MS / 2.0).await;
    assert_eq!(active(&pool).await, 1);
}

#[tokio::test]
async fn a_quarantined_holder_is_reclaimed_a_moment_after_its_presence_ended() {
    let pool = one_worker().await;
    let vm = quarantined(&pool).await;
    vm.presence(Sign::Ended, 1).await;
    pool.look_after().await;
    assert_eq!(active(&pool).await, 3);
    pass(&pool, GRACE_MS).await;
    assert_eq!(active(&pool).await, 0);
    assert_eq!(pool.view().await.head.quarantined_holders, 0);
    assert_eq!(pool.repairs("reclaimed_presence").await, 3);
}

#[tokio::test]
async fn a_quarantined_holder_that_speaks_after_its_presence_ended_keeps_its_leases() {
    let pool = one_worker().await;
    let mut vm = quarantined(&pool).await;
    vm.presence(Sign::Ended, 1).await;
    pool.look_after().await;
    vm.renew().await;
    pass(&pool, GRACE_MS).await;
    assert_eq!(active(&pool).await, 3);
}

/// Which of its leases its worker's figure has freed, was a guess.
#[tokio::test]
pub(crate) async fn what_a_quarantined_holder_releases_waits_for_its_beat() {
    let pool = one_worker().await;
    let mut vm = quarantined(&pool).await;
    let ended = *vm.held.keys().next().expect("three leases");
    vm.release(ended).await;
    assert_eq!(active(&pool).await, 3);
    vm.list().await;
    assert_eq!(active(&pool).await, 2);
    assert_eq!(pool.repairs("renounced").await, 1);
}

#[tokio::test]
async fn a_quarantined_holder_that_nobody_vouches_for_any_more_is_reclaimed() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    vm.presence(Sign::Opened, 1).await;
    pool.clock().await.advance(TTL_MS).await;
    vm.presence(Sign::Vouched, 1).await;
    pool.look_after().await;
    pass(&pool, TTL_MS).await;
    assert_eq!(active(&pool).await, 0);
}

/// A quarantined holder with three leases, on a worker that sent two heartbeats since.
async fn quarantined(pool: &Pool) -> Vm<'_> {
    let mut vm = Vm::new(pool, 7);
    for _ in 0..3 {
        vm.admit().await;
    }
    vm.renew().await;
    vm.presence(Sign::Opened, 1).await;
    pool.clock().await.advance(TTL_MS).await;
    vm.presence(Sign::Vouched, 1).await;
    pool.look_after().await;
    assert_eq!(pool.view().await.head.quarantined_holders, 1);
    vm
}

#[tokio::test]
async fn quarantined_leases_are_freed_above_what_the_worker_serves() {
    let pool = one_worker().await;
    let _vm = quarantined(&pool).await;
    sessions(&pool, 3).await;
    pass(&pool, 1_000.0).await;
    assert_eq!(active(&pool).await, 3);
    sessions(&pool, 1).await;
    pass(&pool, 1_000.0).await;
    assert_eq!(active(&pool).await, 1);
    pass(&pool, 2_000.0).await;
    assert_eq!(active(&pool).await, 1);
    assert_eq!(pool.repairs("freed_by_sessions").await, 2);
}

#[tokio::test]
pub(crate) async fn leases_since_the_heartbeat_before_last_are_on_their_way() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    sessions(&pool, 0).await;
    vm.admit().await;
    vm.renew().await;
    vm.presence(Sign::Opened, 1).await;
    // The first heartbeat after the lease does not know of it yet.
    sessions(&pool, 0).await;
    pool.clock().await.advance(TTL_MS).await;
    vm.presence(Sign::Vouched, 1).await;
    pool.look_after().await;
    pass(&pool, 2_000.0).await;
    assert_eq!(active(&pool).await, 1);
    sessions(&pool, 0).await;
    pass(&pool, 2_000.0).await;
    assert_eq!(active(&pool).await, 0);
}

#[tokio::test]
async fn a_lease_on_its_way_is_not_taken_for_one_that_ended() {
    let pool = one_worker().await;
    let (mut vm, mut other) = (Vm::new(&pool, 7), Vm::new(&pool, 8));
    other.admit().await;
    vm.presence(Sign::Opened, 1).await;
    pool.clock().await.advance(TTL_MS - 1_000.0).await;
    other.renew().await;
    sessions(&pool, 1).await;
    vm.admit().await;
    pool.clock().await.advance(2_000.0).await;
    vm.presence(Sign::Vouched, 1).await;
    pool.look_after().await;
    assert_eq!(pool.view().await.head.quarantined_holders, 1);
    // The other's stream has ended and its release is lost; this one has not arrived yet.
    sessions(&pool, 0).await;
    pass(&pool, 2_000.0).await;
    assert_eq!(active(&pool).await, 2);
}

#[tokio::test]
async fn a_lease_that_is_served_is_not_taken_for_another_that_has_not_arrived() {
    let pool = one_worker().await;
    let _vm = quarantined(&pool).await;
    sessions(&pool, 3).await;
    let mut other = Vm::new(&pool, 8);
    other.admit().await;
    sessions(&pool, 3).await;
    pass(&pool, 2_000.0).await;
    assert_eq!(active(&pool).await, 4);
}

#[tokio::test]
async fn what_others_may_have_lost_is_not_taken_from_a_silent_holder() {
    let pool = one_worker().await;
    let _vm = quarantined(&pool).await;
    let mut other = Vm::new(&pool, 8);
    other.admit().await;
    sessions(&pool, 4).await;
    // The other's stream has ended, or its host is gone: nobody knows yet.
    sessions(&pool, 3).await;
    pass(&pool, 2_000.0).await;
    assert_eq!(active(&pool).await, 4);
    sessions(&pool, 2).await;
    pass(&pool, 2_000.0).await;
    assert_eq!(active(&pool).await, 3);
}

#[tokio::test]
async fn what_no_beat_has_told_of_may_be_on_its_way() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    vm.presence(Sign::Opened, 1).await;
    pool.clock().await.advance(TTL_MS).await;
    vm.presence(Sign::Vouched, 1).await;
    for _ in 0..3 {
        sessions(&pool, 0).await;
        pass(&pool, 2_000.0).await;
    }
    assert_eq!(active(&pool).await, 1);
}

#[tokio::test]
pub(crate) async fn nothing_expires_while_redis_stands_still() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    let mut clock = pool.clock().await;
    clock.stand_still(3_600_000.0).await;
    pool.look_after().await;
    assert_eq!(active(&pool).await, 1);
}

#[tokio::test]
async fn many_leases_are_taken_in_steps() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    pool.register("w2", "a").await;
    for _ in 0..700 {
        vm.admit().await;
    }
    pass(&pool, TTL_MS).await;
    assert_eq!(active(&pool).await, 0);
    assert_eq!(pool.repairs("reclaimed_ttl").await, 700);
}

#[tokio::test]
async fn whoever_stops_half_way_is_followed_by_the_next() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    for _ in 0..700 {
        vm.admit().await;
    }
    pool.clock().await.advance(TTL_MS).await;
    pool.reap().await;
    let reply = pool.call("reclaim", &vm.holder, &["0"]).await;
    assert_eq!(reply[0], "again");
    assert!(active(&pool).await > 0);
    pool.look_after().await;
    assert_eq!(active(&pool).await, 0);
}

#[tokio::test]
async fn a_reclaimed_holder_is_forgotten_after_a_day() {
    let pool = one_worker().await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    pass(&pool, TTL_MS).await;
    let key = format!("ws:{{demo}}:holder:{}", vm.holder.epoch);
    let exists = async || pool.redis.command(&["EXISTS", &key]).await;
    pass(&pool, 86_000_000.0).await;
    assert_eq!(exists().await, redis::Value::Int(1));
    pass(&pool, 400_000.0).await;
    assert_eq!(exists().await, redis::Value::Int(0));
}
