use super::*;
use crate::outcome::Outcome;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// A holder with so many sessions on one worker, heard at 0, whose next question found nobody.
fn cut_off(sessions: usize) -> (Holder, Vec<LeaseId>) {
    let mut holder = holder_in(OnLeaseLost::Keep, OnOutage::LocalShare);
    let leases = (0..sessions).map(|_| admit(&mut holder)).collect();
    holder.due(0);
    holder.beat_answered(1, answer(Verdict::Kept), 1000);
    let number = holder.mint();
    assert_eq!(holder.ask_failed(2000), None);
    holder.ended(Release::unused(number), 2000);
    (holder, leases)
}

fn end_with(holder: &mut Holder, lease: &LeaseId, outcome: Outcome, now_us: u64) {
    let release = Release {
        outcome,
        ..Release::unused(lease.clone())
    };
    holder.ended(release, now_us);
}

fn end(holder: &mut Holder, lease: &LeaseId, now_us: u64) {
    end_with(holder, lease, Outcome::Success, now_us);
}

/// What is told to have ended.
fn ended(holder: &mut Holder) -> Vec<u64> {
    let (pool, id) = (holder.pool().clone(), holder.id().clone());
    holder.inventory().beat(&pool, &id, false).ended
}

fn news(errands: Vec<Errand>) -> Vec<News> {
    let told = errands.into_iter().filter_map(|errand| match errand {
        Errand::Tell(news) => Some(news),
        Errand::BePresent { .. } | Errand::Beat(_) | Errand::Deliver(_) | Errand::Close(_) => None,
    });
    told.collect()
}

#[test]
fn a_place_that_is_left_in_an_outage_is_taken_again_with_the_same_lease() {
    let (mut holder, leases) = cut_off(2);
    end(&mut holder, &leases[1], 3000);
    assert!(!ended(&mut holder).contains(&leases[1].seq));
    let again = holder.reuse(4000).unwrap();
    assert_eq!(again.lease, leases[1]);
    assert_eq!(again.worker.as_str(), "w1");
    assert_eq!(holder.reuse(4000), None, "once");
    holder.inventory().admitted(&again, 0);
    let (pool, id) = (holder.pool().clone(), holder.id().clone());
    let held = holder.inventory().beat(&pool, &id, false).held.unwrap();
    assert_eq!(held.count, 2);
}

#[test]
fn without_an_outage_or_without_leave_no_place_is_kept() {
    let (mut other, leases) = cut_off(2);
    other.on_outage = OnOutage::Deny;
    end(&mut other, &leases[1], 3000);
    assert_eq!(other.reuse(3000), None);
    let mut well = holder_in(OnLeaseLost::Keep, OnOutage::LocalShare);
    let leases = [admit(&mut well), admit(&mut well)];
    well.due(0);
    well.beat_answered(1, answer(Verdict::Kept), 1000);
    end(&mut well, &leases[1], 3000);
    assert_eq!(ended(&mut well), [leases[1].seq]);
    assert_eq!(well.ask_failed(3000), None, "its release may be on its way");
}

#[test]
fn a_worker_that_failed_a_session_is_not_given_another() {
    for (outcome, kept) in [
        (Outcome::Warning, true),
        (Outcome::Unknown, true),
        (Outcome::ConnectFailed, false),
        (Outcome::ResetBeforeHeaders, false),
        (Outcome::Reset, true),
        (Outcome::Timeout, false),
    ] {
        let (mut holder, leases) = cut_off(2);
        end_with(&mut holder, &leases[1], outcome, 3000);
        assert_eq!(holder.reuse(3000).is_some(), kept, "{outcome:?}");
    }
}

#[test]
fn places_are_taken_again_only_while_the_holder_is_surely_believed() {
    let until_us = TTL_MS * 1000 - SILENCE_MARGIN_US;
    let (mut holder, leases) = cut_off(3);
    end(&mut holder, &leases[1], 3000);
    end(&mut holder, &leases[2], 3000);
    assert!(holder.reuse(until_us - 1).is_some());
    assert_eq!(holder.reuse(until_us), None);
    holder.due(until_us);
    assert!(
        ended(&mut holder).contains(&leases[1].seq),
        "nobody will need it"
    );
    end(&mut holder, &leases[2], until_us);
    assert!(ended(&mut holder).contains(&leases[2].seq));
}

#[test]
fn a_presence_that_broke_leaves_no_doubt_for_a_second_only() {
    let (mut holder, leases) = cut_off(2);
    end(&mut holder, &leases[1], 3000);
    holder.presence_ended(1, false, 10_000);
    assert_eq!(
        holder.due(360_000).first(),
        Some(&Errand::BePresent { number: 2 })
    );
    // Opened again, and nobody knows whether anyone heard of it.
    assert!(holder.shares(1_009_999));
    assert!(!holder.shares(1_010_000));
    holder.presence_ended(2, false, 1_020_000);
    assert!(!holder.shares(1_030_000), "the doubt began with the first");
}

#[test]
fn a_beat_after_the_reopening_ends_the_doubt() {
    let mut holder = holder_in(OnLeaseLost::Keep, OnOutage::LocalShare);
    holder.due(0);
    holder.presence_ended(1, false, 10_000);
    holder.beat_answered(1, answer(Verdict::Kept), 20_000);
    holder.ask_failed(30_000);
    assert!(!holder.shares(1_010_000), "it was sent before");
    let beat = beat_in(holder.due(360_000)).unwrap().beat;
    holder.beat_answered(beat, answer(Verdict::Kept), 370_000);
    holder.ask_failed(380_000);
    assert!(holder.shares(1_010_000));
}

#[test]
fn when_the_outage_is_over_what_is_not_in_use_ends() {
    let (mut holder, leases) = cut_off(3);
    end(&mut holder, &leases[1], 3000);
    end(&mut holder, &leases[2], 3000);
    let again = holder.reuse(4000).unwrap();
    holder.inventory().admitted(&again, 0);
    let beat = beat_in(holder.due(400_000)).unwrap().beat;
    holder.beat_answered(beat, answer(Verdict::Kept), 401_000);
    let ended = ended(&mut holder);
    assert!(ended.contains(&leases[1].seq) && !ended.contains(&again.lease.seq));
    assert_eq!(holder.reuse(402_000), None);
}

#[test]
fn an_answer_to_an_earlier_beat_does_not_end_an_outage_and_hurries_the_next() {
    let mut holder = holder_in(OnLeaseLost::Keep, OnOutage::LocalShare);
    holder.due(0);
    holder.ask_failed(1000);
    holder.beat_answered(1, answer(Verdict::Kept), 2000);
    assert!(holder.shares(3000));
    let second = beat_in(holder.due(350_000)).unwrap().beat;
    holder.beat_answered(second, answer(Verdict::Kept), 351_000);
    assert!(!holder.shares(352_000));
}

#[test]
fn an_outage_is_told_when_it_begins_and_when_it_is_over() {
    let (mut holder, leases) = cut_off(2);
    end(&mut holder, &leases[1], 3000);
    holder.reuse(4000).unwrap();
    let mut now_us = 352_000;
    let mut told = Vec::new();
    for beat in 2..5 {
        told.extend(news(holder.due(now_us)));
        holder.beat_answered(beat, None, now_us);
        now_us += 352_000;
    }
    told.extend(news(holder.due(now_us)));
    assert_eq!(told, [News::Begun]);
    holder.beat_answered(5, answer(Verdict::Kept), now_us);
    let toll = Toll {
        lasted_ms: (now_us - 2000) / 1000,
        unanswered: 1,
        reused: 1,
    };
    assert_eq!(news(holder.due(now_us)), [News::Over(toll)]);
}

#[test]
fn one_question_without_an_answer_is_not_worth_a_word() {
    let (mut holder, _) = cut_off(1);
    let beat = beat_in(holder.due(352_000)).unwrap().beat;
    holder.beat_answered(beat, answer(Verdict::Kept), 353_000);
    assert_eq!(news(holder.due(354_000)), []);
}

#[test]
fn spare_places_are_nothing_to_close() {
    let (mut holder, leases) = cut_off(2);
    holder.on_lease_lost = OnLeaseLost::Close;
    end(&mut holder, &leases[1], 3000);
    let beat = beat_in(holder.due(352_000)).unwrap().beat;
    let lost = RenewAnswer {
        lost: true,
        ..answer(Verdict::List).unwrap()
    };
    holder.beat_answered(beat, Some(lost), 353_000);
    let errands = holder.due(353_000);
    assert!(errands.contains(&Errand::Close(vec![leases[0].seq])));
}
