use super::{Guards, Ledger, Presence, Settings};
use crate::id::{Address, Epoch, HolderId, Incarnation, LeaseId, PoolName, ProxyId, WorkerId};
use crate::message::{
    AdmitAnswer, AdmitRequest, DenyReason, Held, RegisterRequest, Release, ReleaseRequest,
    RenewAnswer, RenewRequest, Verdict,
};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn pool() -> PoolName {
    PoolName::parse("pool").unwrap()
}

fn holder() -> HolderId {
    HolderId {
        proxy: ProxyId::parse("envoy").unwrap(),
        epoch: Epoch::from_random([7; 16]),
    }
}

fn lease(seq: u64) -> LeaseId {
    LeaseId {
        epoch: holder().epoch,
        seq,
    }
}

/// A pool with one worker and room for two, past its first rebuild.
fn ledger() -> Ledger {
    ledger_with(Settings {
        max_concurrent: 2,
        ..Settings::default()
    })
}

fn ledger_with(settings: Settings) -> Ledger {
    let mut ledger = Ledger::new(settings, Guards::ALL);
    ledger.at(1_000_000);
    ledger.register(
        &WorkerId::parse("w").unwrap(),
        &RegisterRequest {
            address: Address::parse("10.0.0.1:80").unwrap(),
            incarnation: Incarnation::parse("i").unwrap(),
            max_concurrent: None,
            weight: 1.0,
            lifetime: None,
            origin: None,
        },
    );
    pass(&mut ledger, 1_000_000, 2_000);
    ledger
}

/// Time passes, and someone looks every 500 ms.
fn pass(ledger: &mut Ledger, from_ms: u64, ms: u64) {
    for at in (from_ms..=from_ms + ms).step_by(500) {
        ledger.at(at);
    }
}

fn admit(ledger: &mut Ledger, seq: u64) -> Option<DenyReason> {
    match ledger.admit(&AdmitRequest::new(pool(), holder(), lease(seq))) {
        AdmitAnswer::Admitted(_) | AdmitAnswer::Redirected(_) => None,
        AdmitAnswer::Denied(denied) => Some(denied.reason),
    }
}

fn release(ledger: &mut Ledger, seq: u64) {
    ledger.release(&ReleaseRequest {
        pool: pool(),
        holder: holder(),
        releases: vec![Release::unused(lease(seq))],
    });
}

fn beat(ledger: &mut Ledger, beat: u64, numbers: &[u64]) -> Verdict {
    beat_in(ledger, beat, numbers, None).verdict
}

/// A beat that has heard of this rebuild.
fn beat_in(ledger: &mut Ledger, beat: u64, numbers: &[u64], rebuild: Option<u64>) -> RenewAnswer {
    let mut held = Held::default();
    numbers.iter().for_each(|number| held.add(*number));
    let request = RenewRequest {
        pool: pool(),
        holder: holder(),
        beat,
        rebuild,
        asking: Vec::new(),
        ended: Vec::new(),
        held: Some(held),
        leases: None,
    };
    ledger.renew(&request)
}

#[test]
fn what_was_released_before_its_admit_is_cancelled() {
    let mut ledger = ledger();
    release(&mut ledger, 1);
    assert_eq!(admit(&mut ledger, 1), Some(DenyReason::Cancelled));
    assert_eq!(admit(&mut ledger, 2), None);
    assert_eq!(ledger.check(), Ok(()));
}

#[test]
fn a_beat_ends_what_it_does_not_ask_for() {
    let mut ledger = ledger();
    assert_eq!(admit(&mut ledger, 1), None);
    assert_eq!(beat(&mut ledger, 1, &[1]), Verdict::Kept);
    assert_eq!(admit(&mut ledger, 2), Some(DenyReason::Cancelled));
    assert_eq!(beat(&mut ledger, 1, &[]), Verdict::Stale);
    assert_eq!(beat(&mut ledger, 2, &[]), Verdict::List);
    assert_eq!(ledger.listed(&holder(), 2), Some(vec![1]));
    assert!(ledger.renounce(&holder(), 2, &[1]));
    assert_eq!(ledger.leases().count(), 0);
}

#[test]
fn a_holder_that_left_is_reclaimed_after_its_grace() {
    let mut ledger = ledger();
    admit(&mut ledger, 1);
    ledger.presence(&holder(), 1, Presence::Opened);
    ledger.presence(&holder(), 1, Presence::Ended);
    pass(&mut ledger, 1_002_000, 1_000);
    assert!(ledger.reap().due.is_empty());
    pass(&mut ledger, 1_003_000, 1_000);
    assert_eq!(ledger.reap().due, [holder()]);
    assert!(!ledger.reclaim(&holder()));
    assert_eq!(ledger.leases().count(), 0);
    assert_eq!(admit(&mut ledger, 2), Some(DenyReason::Cancelled));
}

#[test]
fn an_admit_makes_a_holder_known_and_does_not_prolong_its_life() {
    let mut ledger = ledger();
    admit(&mut ledger, 1);
    pass(&mut ledger, 1_002_000, 14_500);
    assert!(ledger.reap().due.is_empty());
    admit(&mut ledger, 2);
    pass(&mut ledger, 1_017_000, 0);
    assert_eq!(ledger.reap().due, [holder()]);
}

#[test]
fn whoever_is_first_heard_of_by_its_end_is_gone() {
    let mut ledger = ledger();
    ledger.presence(&holder(), 1, Presence::Ended);
    pass(&mut ledger, 1_002_000, 1_500);
    assert_eq!(ledger.reap().due, [holder()]);
    assert!(!ledger.reclaim(&holder()));
    assert_eq!(admit(&mut ledger, 1), Some(DenyReason::Cancelled));
}

#[test]
fn what_is_being_taken_is_not_given_again() {
    let settings = Settings {
        max_concurrent: 2,
        reclaim_max: 1,
        ..Settings::default()
    };
    let mut ledger = ledger_with(settings);
    admit(&mut ledger, 1);
    admit(&mut ledger, 2);
    pass(&mut ledger, 1_002_000, 15_000);
    assert!(ledger.reclaim(&holder()), "one is left");
    assert_eq!(admit(&mut ledger, 2), Some(DenyReason::Cancelled));
}

#[test]
fn what_a_quarantined_holder_releases_waits_for_its_beat() {
    let mut ledger = ledger();
    assert_eq!(admit(&mut ledger, 1), None);
    ledger.presence(&holder(), 1, Presence::Opened);
    pass(&mut ledger, 1_002_000, 15_000);
    ledger.presence(&holder(), 1, Presence::Vouched);
    ledger.reclaim(&holder());
    assert_eq!(ledger.repairs().quarantined, 1);
    release(&mut ledger, 1);
    assert_eq!(ledger.leases().count(), 1);
    assert_eq!(beat(&mut ledger, 1, &[]), Verdict::List);
    assert!(ledger.renounce(&holder(), 1, &[1]));
    assert_eq!(ledger.leases().count(), 0);
}

#[test]
fn a_jump_of_the_clock_ends_nothing() {
    let mut ledger = ledger();
    admit(&mut ledger, 1);
    ledger.at(9_000_000);
    ledger.at(1_000);
    assert!(ledger.reap().due.is_empty());
}

#[test]
fn a_rebuild_waits_for_whoever_is_seen() {
    let mut ledger = ledger();
    ledger.wipe();
    ledger.at(1_000);
    ledger.presence(&holder(), 1, Presence::Vouched);
    for seconds in 2..6 {
        ledger.at(seconds * 1_000);
    }
    assert!(ledger.is_rebuilding());
    let answer = beat_in(&mut ledger, 1, &[], None);
    ledger.at(6_000);
    assert!(ledger.is_rebuilding(), "it may be older than the loss");
    assert!(answer.rebuild.is_some());
    let answer = beat_in(&mut ledger, 2, &[], answer.rebuild);
    assert_eq!(answer.verdict, Verdict::Kept);
    ledger.at(7_000);
    assert!(!ledger.is_rebuilding());
}
