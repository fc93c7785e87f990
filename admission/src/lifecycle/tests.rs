use super::*;
use crate::id::{Address, Epoch, WorkerId};
use crate::message::{Denied, DenyReason, Redirected};
use crate::outcome::Outcome;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const CLEAN: ResponseFlags = ResponseFlags(0);
const REFUSED: ResponseFlags = ResponseFlags(1 << 5);

fn over() -> Event {
    Event::Ended {
        flags: CLEAN,
        traffic: Traffic::default(),
        now_us: 1,
    }
}

fn lease(seq: u64) -> LeaseId {
    let epoch = Epoch::from_random([7; 16]);
    LeaseId { epoch, seq }
}

fn admitted(probe: bool) -> Admitted {
    Admitted {
        worker: WorkerId::parse("w1").unwrap(),
        incarnation: "a".parse().unwrap(),
        address: Address::parse("10.0.0.1:80").unwrap(),
        lease: lease(1),
        active: 1,
        lifetime: 1,
        probe,
        client: None,
        affinity: None,
    }
}

fn asking(demand: Demand) -> Lifecycle {
    let mut stream = Lifecycle::new();
    let wanted = Event::Wanted {
        lease: lease(1),
        demand,
    };
    assert_eq!(stream.handle(wanted), [Effect::Ask(lease(1))]);
    stream
}

fn holding_with(demand: Demand, admitted: Admitted) -> Lifecycle {
    let mut stream = asking(demand);
    let effects = stream.handle(Event::Answered {
        answer: AdmitAnswer::Admitted(admitted.clone()),
        now_us: 1000,
    });
    assert_eq!(effects, [Effect::Route(admitted)]);
    stream
}

fn holding(demand: Demand) -> Lifecycle {
    holding_with(demand, admitted(false))
}

fn respond(stream: &mut Lifecycle, status: u16, author: Author) -> Vec<Effect> {
    stream.handle(Event::Responding {
        status,
        author,
        now_us: 3000,
        affinity: AffinityNews::default(),
    })
}

fn end(stream: &mut Lifecycle, flags: ResponseFlags) -> Release {
    let ended = Event::Ended {
        flags,
        traffic: Traffic::default(),
        now_us: 9000,
    };
    match stream.handle(ended).as_slice() {
        [Effect::Release(release)] => release.clone(),
        other => panic!("expected one release, got {other:?}"),
    }
}

#[test]
fn a_request_without_demand_passes_and_owes_nothing() {
    let mut stream = Lifecycle::new();
    assert_eq!(stream.handle(Event::Passed), [Effect::Pass]);
    assert_eq!(respond(&mut stream, 200, Author::Worker), []);
    assert_eq!(stream.handle(over()), []);
}

#[test]
fn a_session_is_used_and_timed() {
    let mut stream = holding(Demand::Upgrade);
    let effects = respond(&mut stream, 101, Author::Worker);
    assert!(matches!(&effects[..], [Effect::Observe(seen)] if seen.handshake_us == Some(2000)));
    let release = end(&mut stream, CLEAN);
    assert_eq!(
        (release.r#use, release.outcome),
        (Use::Used, Outcome::Success)
    );
    assert_eq!(
        (release.handshake_us, release.session_us),
        (None, Some(8000)),
        "the handshake was told when it was made"
    );
}

#[test]
fn a_refused_upgrade_is_unused_though_the_worker_answered() {
    let mut stream = holding(Demand::Upgrade);
    respond(&mut stream, 403, Author::Worker);
    let release = end(&mut stream, CLEAN);
    assert_eq!((release.r#use, release.status), (Use::Unused, Some(403)));
    assert_eq!(release.outcome, Outcome::Success);
}

#[test]
fn any_answer_uses_up_a_plain_request() {
    let mut stream = holding(Demand::Request);
    assert_eq!(respond(&mut stream, 404, Author::Worker), []);
    let release = end(&mut stream, CLEAN);
    assert_eq!(
        (release.r#use, release.handshake_us),
        (Use::Used, Some(2000))
    );
}

#[test]
fn an_unreachable_worker_is_unused_and_told_apart_from_its_own_503() {
    let mut stream = holding(Demand::Request);
    respond(&mut stream, 503, Author::Envoy);
    let release = end(&mut stream, REFUSED);
    assert_eq!(
        (release.r#use, release.outcome),
        (Use::Unused, Outcome::ConnectFailed)
    );
    assert_eq!((release.status, release.handshake_us), (None, None));
}

#[test]
fn a_client_that_leaves_while_asking_releases_what_may_yet_be_granted() {
    let mut stream = asking(Demand::Upgrade);
    let release = end(&mut stream, CLEAN);
    assert_eq!((release.lease, release.r#use), (lease(1), Use::Unused));
}

#[test]
fn a_client_that_leaves_before_the_response_gives_the_lifetime_back() {
    let mut stream = holding(Demand::Upgrade);
    let release = end(&mut stream, CLEAN);
    assert_eq!(
        (release.r#use, release.outcome),
        (Use::Unused, Outcome::Unknown)
    );
}

#[test]
fn a_denial_is_told_and_owes_nothing() {
    let mut stream = asking(Demand::Upgrade);
    let denied = Denied {
        reason: DenyReason::PoolFull,
        retry_after_ms: 1000,
    };
    let refusal = Refusal::from(&denied);
    let answer = AdmitAnswer::Denied(denied);
    assert_eq!(
        stream.handle(Event::Answered { answer, now_us: 1 }),
        [Effect::Refuse(refusal)]
    );
    assert_eq!(respond(&mut stream, 503, Author::Worker), []);
    assert_eq!(stream.handle(over()), []);
}

#[test]
fn an_outage_refuses_and_releases() {
    for (event, refusal) in [
        (Event::Failed, Refusal::Outage),
        (Event::Overdue, Refusal::Overdue),
    ] {
        let mut stream = asking(Demand::Upgrade);
        let effects = stream.handle(event);
        assert_eq!(effects[0], Effect::Refuse(refusal));
        assert!(matches!(effects[1], Effect::Release(_)));
        assert_eq!(stream.handle(over()), []);
    }
}

#[test]
fn an_answer_after_the_watchdog_changes_nothing() {
    let mut stream = asking(Demand::Upgrade);
    stream.handle(Event::Overdue);
    let answer = AdmitAnswer::Admitted(admitted(false));
    assert_eq!(stream.handle(Event::Answered { answer, now_us: 1 }), []);
}

#[test]
fn the_watchdog_leaves_a_held_stream_alone() {
    let mut stream = holding(Demand::Upgrade);
    assert_eq!(stream.handle(Event::Overdue), []);
    assert!(stream.is_holding());
}

#[test]
fn an_answer_about_another_lease_is_an_outage() {
    let mut stream = asking(Demand::Upgrade);
    let other = Admitted {
        lease: lease(2),
        ..admitted(false)
    };
    let answer = AdmitAnswer::Admitted(other);
    let effects = stream.handle(Event::Answered { answer, now_us: 1 });
    assert_eq!(effects[0], Effect::Refuse(Refusal::Outage));
    assert!(matches!(&effects[1], Effect::Release(release) if release.lease == lease(1)));
}

#[test]
fn a_probe_reports_its_response_at_once() {
    let mut stream = holding_with(Demand::Upgrade, admitted(true));
    let observation = Observation {
        lease: lease(1),
        outcome: Outcome::Success,
        handshake_us: Some(2000),
    };
    assert_eq!(
        respond(&mut stream, 101, Author::Worker),
        [Effect::Observe(observation)]
    );
    assert_eq!(end(&mut stream, CLEAN).r#use, Use::Used);
}

#[test]
fn the_release_comes_once() {
    let mut stream = holding(Demand::Upgrade);
    end(&mut stream, CLEAN);
    assert_eq!(stream.handle(over()), []);
}

/// A worker's answer that says something about affinity.
fn answered_with(stream: &mut Lifecycle, status: u16, affinity: AffinityNews) -> Vec<Effect> {
    stream.handle(Event::Responding {
        status,
        author: Author::Worker,
        now_us: 2000,
        affinity,
    })
}

#[test]
fn an_answer_waits_until_its_key_is_bound() {
    let mut stream = holding(Demand::Request);
    let news = AffinityNews {
        bind: Some("tx".into()),
        unbind: false,
    };
    let effects = answered_with(&mut stream, 200, news);
    assert!(matches!(&effects[..], [Effect::Bind { key, .. }] if key == "tx"));
    assert!(stream.is_binding());
    assert_eq!(stream.handle(Event::Bound), [Effect::Answer]);
    assert!(!stream.is_binding());
    assert_eq!(stream.handle(Event::Bound), [], "once");
}

#[test]
fn an_answer_that_failed_binds_and_unbinds_nothing() {
    let key = KeyHash::from_bytes([1; 8]);
    for (status, unbound) in [(200, Some(key)), (500, None)] {
        let admitted = Admitted {
            affinity: Some(key),
            ..admitted(false)
        };
        let mut stream = holding_with(Demand::Request, admitted);
        let news = AffinityNews {
            bind: (status == 500).then(|| "tx".into()),
            unbind: true,
        };
        assert_eq!(answered_with(&mut stream, status, news), []);
        assert_eq!(end(&mut stream, CLEAN).unbind, unbound);
    }
}

#[test]
fn who_is_sent_elsewhere_owes_nothing() {
    let mut stream = asking(Demand::Request);
    let origin = Origin::parse("https://b.example.com").unwrap();
    let answer = AdmitAnswer::Redirected(Redirected {
        worker: WorkerId::parse("b").unwrap(),
        origin: origin.clone(),
    });
    let effects = stream.handle(Event::Answered { answer, now_us: 1 });
    assert_eq!(effects, [Effect::Redirect(origin)]);
    assert_eq!(stream.handle(over()), []);
}

#[test]
fn a_place_at_hand_is_taken_without_a_question() {
    let mut stream = Lifecycle::new();
    let placed = Event::Placed {
        admitted: admitted(false),
        demand: Demand::Upgrade,
        now_us: 1000,
    };
    assert_eq!(stream.handle(placed), [Effect::Route(admitted(false))]);
    respond(&mut stream, 101, Author::Worker);
    let release = end(&mut stream, CLEAN);
    assert_eq!((release.lease, release.r#use), (lease(1), Use::Used));
}

#[test]
fn whoever_asked_in_vain_takes_a_place_at_hand_and_releases_the_other() {
    let mut stream = asking(Demand::Upgrade);
    let place = Admitted {
        lease: lease(9),
        ..admitted(false)
    };
    let rescued = Event::Rescued {
        admitted: place.clone(),
        now_us: 1000,
    };
    let unused = Effect::Release(Release::unused(lease(1)));
    assert_eq!(stream.handle(rescued), [Effect::Route(place), unused]);
    assert_eq!(end(&mut stream, CLEAN).lease, lease(9));
}
