mod outage;

use super::*;
use crate::id::{Epoch, ProxyId};
use crate::message::{Admitted, BATCH_MAX, Release};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const TTL_MS: u64 = 15_000;

fn holder(on_lease_lost: OnLeaseLost) -> Holder {
    holder_in(on_lease_lost, OnOutage::Deny)
}

fn holder_in(on_lease_lost: OnLeaseLost, on_outage: OnOutage) -> Holder {
    holder_with(Settings {
        backlog_max: 100,
        delivery_delay_ms: 0,
        delivery_retry_ms: 350,
        on_lease_lost,
        on_outage,
    })
}

fn holder_with(settings: Settings) -> Holder {
    let id = HolderId {
        proxy: ProxyId::lossy(b"envoy"),
        epoch: Epoch::from_random([1; 16]),
    };
    Holder::new(PoolName::parse("pool").unwrap(), id, settings)
}

fn answer(verdict: Verdict) -> Option<RenewAnswer> {
    Some(RenewAnswer {
        verdict,
        lost: false,
        rebuild: None,
        lease_ttl_ms: TTL_MS,
    })
}

fn admit(holder: &mut Holder) -> LeaseId {
    let lease = holder.mint();
    holder.inventory().admitted(
        &Admitted {
            worker: "w1".parse().unwrap(),
            incarnation: "a".parse().unwrap(),
            address: "10.0.0.1:80".parse().unwrap(),
            lease: lease.clone(),
            active: 1,
            lifetime: 1,
            probe: false,
            client: None,
            affinity: None,
        },
        0,
    );
    lease
}

fn beat_in(errands: Vec<Errand>) -> Option<RenewRequest> {
    errands.into_iter().find_map(|errand| match errand {
        Errand::Beat(request) => Some(*request),
        Errand::BePresent { .. } | Errand::Deliver(_) | Errand::Close(_) | Errand::Tell(_) => None,
    })
}

/// The time of the next beat, looking every millisecond.
fn next_beat_us(holder: &mut Holder, from_us: u64) -> u64 {
    let mut times = (from_us..from_us + 10_000_000).step_by(1000);
    times
        .find(|&now_us| beat_in(holder.due(now_us)).is_some())
        .unwrap()
}

#[test]
fn the_first_look_opens_a_presence_and_beats() {
    let mut holder = holder(OnLeaseLost::Keep);
    let errands = holder.due(0);
    assert_eq!(errands[0], Errand::BePresent { number: 1 });
    assert_eq!(beat_in(errands).unwrap().beat, 1);
    assert_eq!(holder.due(1), []);
}

#[test]
fn an_answered_beat_is_followed_by_the_next_after_three_seconds_or_so() {
    let mut holder = holder(OnLeaseLost::Keep);
    let mut now_us = 0;
    for beat in 1..100 {
        let sent_us = next_beat_us(&mut holder, now_us);
        assert!(beat == 1 || (2_400_000..=3_602_000).contains(&(sent_us - now_us)));
        holder.beat_answered(beat, answer(Verdict::Kept), sent_us);
        now_us = sent_us;
    }
}

#[test]
fn a_failed_beat_is_followed_by_another_number() {
    let mut holder = holder(OnLeaseLost::Keep);
    let first = beat_in(holder.due(0)).unwrap();
    holder.beat_answered(first.beat, None, 300_000);
    assert_eq!(beat_in(holder.due(340_000)), None);
    assert_eq!(beat_in(holder.due(350_000)).unwrap().beat, first.beat + 1);
}

#[test]
fn the_answer_to_an_earlier_beat_is_no_answer() {
    let mut holder = holder(OnLeaseLost::Keep);
    holder.due(0);
    holder.beat_answered(1, None, 300_000);
    assert_eq!(beat_in(holder.due(350_000)).unwrap().beat, 2);
    holder.beat_answered(1, answer(Verdict::List), 360_000);
    holder.beat_answered(2, None, 650_000);
    assert_eq!(beat_in(holder.due(700_000)).unwrap().leases, None);
}

#[test]
fn a_list_is_sent_at_once_when_asked_for_and_only_then() {
    let mut holder = holder(OnLeaseLost::Keep);
    let lease = admit(&mut holder);
    assert_eq!(beat_in(holder.due(0)).unwrap().leases, None);
    holder.beat_answered(1, answer(Verdict::List), 1000);
    let places = beat_in(holder.due(1000)).unwrap().leases.unwrap();
    assert_eq!(places[0].leases, [(lease.seq, 1)]);
    holder.beat_answered(2, answer(Verdict::List), 2000);
    assert_eq!(
        beat_in(holder.due(3000)),
        None,
        "no quarrel without a pause"
    );
    assert!(beat_in(holder.due(352_000)).unwrap().leases.is_some());
    holder.beat_answered(3, answer(Verdict::Kept), 353_000);
    assert_eq!(beat_in(holder.due(4_000_000)).unwrap().leases, None);
}

#[test]
fn a_rebuilding_store_is_told_again_soon() {
    let mut holder = holder(OnLeaseLost::Keep);
    holder.due(0);
    holder.beat_answered(1, rebuilding(7), 0);
    assert!(beat_in(holder.due(350_000)).is_some());
}

fn rebuilding(number: u64) -> Option<RenewAnswer> {
    Some(RenewAnswer {
        rebuild: Some(number),
        ..answer(Verdict::Kept).unwrap()
    })
}

#[test]
fn a_rebuild_is_told_when_all_that_was_asked_before_is_answered() {
    let mut holder = holder(OnLeaseLost::Keep);
    let before = holder.mint();
    assert_eq!(beat_in(holder.due(0)).unwrap().rebuild, None);
    holder.beat_answered(1, rebuilding(7), 0);
    holder.mint();
    assert_eq!(beat_in(holder.due(350_000)).unwrap().rebuild, None);
    holder.beat_answered(2, rebuilding(7), 350_000);
    holder.denied(before.seq, DenyReason::Rebuilding, 360_000);
    assert_eq!(beat_in(holder.due(700_000)).unwrap().rebuild, Some(7));
    // Another begins: what was asked in the first may have been given before it.
    holder.beat_answered(3, rebuilding(8), 700_000);
    assert_eq!(beat_in(holder.due(1_050_000)).unwrap().rebuild, None);
}

#[test]
fn a_denial_that_shows_a_forgetful_store_hurries_the_beat() {
    for (reason, hurried) in [
        (DenyReason::Rebuilding, true),
        (DenyReason::Cancelled, true),
        (DenyReason::PoolFull, false),
    ] {
        let mut holder = holder(OnLeaseLost::Keep);
        holder.due(0);
        holder.beat_answered(1, answer(Verdict::Kept), 1000);
        let number = holder.mint().seq;
        holder.denied(number, reason, 500_000);
        assert_eq!(
            beat_in(holder.due(500_000)).is_some(),
            hurried,
            "{reason:?}"
        );
    }
}

#[test]
fn a_presence_that_ends_is_opened_again_and_its_holder_beats() {
    let mut holder = holder(OnLeaseLost::Keep);
    holder.due(0);
    holder.beat_answered(1, answer(Verdict::Kept), 1000);
    holder.presence_ended(1, false, 1_000_000);
    assert_eq!(holder.due(1_349_000), []);
    let errands = holder.due(1_350_000);
    assert_eq!(errands[0], Errand::BePresent { number: 2 });
    assert_eq!(beat_in(errands).unwrap().beat, 2);
    holder.presence_ended(1, false, 1_400_000);
    assert_eq!(holder.due(2_000_000), [], "the second is open");
    holder.presence_ended(2, true, 2_000_000);
    assert_eq!(holder.due(2_000_000)[0], Errand::BePresent { number: 3 });
}

#[test]
fn sessions_are_closed_in_time_when_nobody_answers() {
    let mut holder = holder(OnLeaseLost::Close);
    let lease = admit(&mut holder);
    holder.due(0);
    holder.beat_answered(1, answer(Verdict::Kept), 1000);
    let fence_us = TTL_MS * 1000 - FENCE_US;
    let closes = |errands: Vec<Errand>| errands.contains(&Errand::Close(vec![lease.seq]));
    assert!(!closes(holder.due(fence_us - 1)));
    assert!(closes(holder.due(fence_us)));
    assert!(!closes(holder.due(fence_us + 1_000_000)), "once");
}

#[test]
fn lost_sessions_are_closed_or_kept_as_configured() {
    for (on_lease_lost, closed) in [(OnLeaseLost::Close, true), (OnLeaseLost::Keep, false)] {
        let mut holder = holder(on_lease_lost);
        let lease = admit(&mut holder);
        holder.due(0);
        let lost = RenewAnswer {
            lost: true,
            ..answer(Verdict::List).unwrap()
        };
        holder.beat_answered(1, Some(lost), 1000);
        let errands = holder.due(1000);
        assert_eq!(errands.contains(&Errand::Close(vec![lease.seq])), closed);
    }
}

#[test]
fn news_that_failed_waits_a_while_and_goes_out_again() {
    let mut holder = holder(OnLeaseLost::Keep);
    holder.due(0);
    let lease = admit(&mut holder);
    holder.inventory().ended(Release::unused(lease));
    let errands = holder.due(1000);
    let [Errand::Deliver(delivery)] = errands.as_slice() else {
        panic!("{errands:?}");
    };
    holder.undelivered(delivery.clone(), 2000);
    assert_eq!(holder.due(3000), []);
    assert_eq!(holder.due(352_000), [Errand::Deliver(delivery.clone())]);
}

#[test]
fn a_beat_between_the_end_and_the_reopening_does_not_count_for_it() {
    let mut holder = holder(OnLeaseLost::Keep);
    holder.due(0);
    holder.presence_ended(1, false, 100_000);
    holder.beat_answered(1, None, 100_000);
    assert_eq!(beat_in(holder.due(350_000)).unwrap().beat, 2);
    holder.beat_answered(2, answer(Verdict::Kept), 360_000);
    assert_eq!(holder.due(450_000)[0], Errand::BePresent { number: 2 });
    assert_eq!(beat_in(holder.due(700_000)).unwrap().beat, 3);
}

#[test]
fn an_answer_that_is_heard_late_does_not_put_the_next_beat_off() {
    let mut holder = holder(OnLeaseLost::Keep);
    holder.due(0);
    holder.beat_answered(1, answer(Verdict::Kept), 4_000_000);
    assert_eq!(beat_in(holder.due(4_000_000)).unwrap().beat, 2);
}

#[test]
fn whoever_is_believed_for_less_beats_more_often() {
    let mut holder = holder(OnLeaseLost::Close);
    let lease = admit(&mut holder);
    holder.due(0);
    let brief = RenewAnswer {
        lease_ttl_ms: 2_000,
        ..answer(Verdict::Kept).unwrap()
    };
    holder.beat_answered(1, Some(brief), 0);
    assert_eq!(beat_in(holder.due(390_000)), None);
    assert!(beat_in(holder.due(610_000)).is_some());
    let closes = |errands: Vec<Errand>| errands.contains(&Errand::Close(vec![lease.seq]));
    assert!(!closes(holder.due(1_499_000)));
    assert!(closes(holder.due(1_500_000)));
}

/// A holder that lets news wait for 10 ms, present and heard.
fn patient_holder() -> Holder {
    let mut holder = holder_with(Settings {
        backlog_max: 1000,
        delivery_delay_ms: 10,
        delivery_retry_ms: 350,
        on_lease_lost: OnLeaseLost::Keep,
        on_outage: OnOutage::Deny,
    });
    holder.due(0);
    holder.beat_answered(1, answer(Verdict::Kept), 0);
    holder
}

fn end_one(holder: &mut Holder, now_us: u64) {
    let lease = admit(holder);
    holder.ended(Release::unused(lease), now_us);
    holder.gathers_for_us(now_us);
}

/// How many releases each delivery has that is due now.
fn delivered(holder: &mut Holder, now_us: u64) -> Vec<usize> {
    let errands = holder.due(now_us).into_iter();
    let sizes = errands.filter_map(|errand| match errand {
        Errand::Deliver(delivery) => Some(delivery.len()),
        Errand::Beat(_) | Errand::BePresent { .. } | Errand::Close(_) | Errand::Tell(_) => None,
    });
    sizes.collect()
}

#[test]
fn news_waits_for_company_from_its_oldest_on() {
    let mut holder = patient_holder();
    end_one(&mut holder, 1_000);
    end_one(&mut holder, 6_000);
    assert_eq!(holder.gathers_for_us(6_000), Some(5_000));
    assert!(delivered(&mut holder, 6_000).is_empty());
    // A timer may be early by a millisecond.
    assert_eq!(delivered(&mut holder, 10_500), [2]);
    assert_eq!(holder.gathers_for_us(10_500), None);
    // The next one waits for its own time, not for that of those before it.
    end_one(&mut holder, 12_000);
    assert!(delivered(&mut holder, 12_000).is_empty());
    assert_eq!(delivered(&mut holder, 22_000), [1]);
}

#[test]
fn a_full_batch_waits_for_nobody_and_leaves_the_rest_to_its_time() {
    let mut holder = patient_holder();
    for _ in 0..BATCH_MAX + 3 {
        end_one(&mut holder, 1_000);
    }
    assert_eq!(delivered(&mut holder, 2_000), [BATCH_MAX]);
    assert_eq!(delivered(&mut holder, 11_000), [3]);
}
