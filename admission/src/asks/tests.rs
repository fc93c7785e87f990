use super::*;
use crate::message::KEY_BYTES_MAX as KEY_MAX;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn ask(number: u64) -> Ask {
    Ask {
        stream: u32::try_from(number).unwrap(),
        question: Question {
            number,
            bytes: None,
            operation: None,
            client: None,
            affinity: None,
        },
        traced: false,
    }
}

fn of(numbers: impl IntoIterator<Item = u64>) -> Asks {
    let mut asks = Asks::default();
    for number in numbers {
        asks.add(ask(number), 0);
    }
    asks
}

/// The numbers of the next call.
fn next(asks: &mut Asks, now_us: u64) -> Option<(u64, Vec<u64>)> {
    let group = asks.take(now_us)?;
    let numbers = group.asks.iter().map(|ask| ask.question.number);
    Some((group.call, numbers.collect()))
}

#[test]
fn a_lone_question_waits_for_nobody() {
    let mut asks = of([1]);
    assert!(asks.is_due(0));
    assert_eq!(next(&mut asks, 0), Some((1, vec![1])));
    assert_eq!(next(&mut asks, 0), None);
}

#[test]
fn those_that_come_while_calls_are_under_way_go_together() {
    let mut asks = of([1]);
    next(&mut asks, 0);
    for number in 2..5 {
        asks.add(ask(number), 0);
    }
    assert_eq!(next(&mut asks, 0), None);
    asks.ended(1);
    assert_eq!(next(&mut asks, 0), Some((2, vec![2, 3, 4])));
    assert!(asks.is_empty());
}

#[test]
fn many_wait_for_nobody_while_there_are_few_calls() {
    let mut asks = of([1]);
    next(&mut asks, 0);
    let many = u64::try_from(WORTH_A_CALL).unwrap();
    for call in 2..=u64::try_from(CALLS_MAX).unwrap() {
        for number in 0..many {
            asks.add(ask(call * 100 + number), 0);
        }
        assert_eq!(next(&mut asks, 0).unwrap().1.len(), WORTH_A_CALL);
    }
    for number in 0..many {
        asks.add(ask(number), 0);
    }
    assert_eq!(next(&mut asks, 0), None);
}

#[test]
fn nobody_waits_for_company_that_does_not_come() {
    let mut asks = of([1]);
    next(&mut asks, 0);
    asks.add(ask(2), 1000);
    assert_eq!(next(&mut asks, PATIENCE_US), None);
    assert_eq!(next(&mut asks, PATIENCE_US + 1000), Some((2, vec![2])));
}

#[test]
fn a_call_has_no_more_than_it_may_have() {
    let mut asks = of(1..=50);
    assert_eq!(next(&mut asks, 0).unwrap().1.len(), GROUP_MAX);
    assert_eq!(next(&mut asks, 0).unwrap().1.len(), 50 - GROUP_MAX);
}

#[test]
fn long_keys_go_in_small_groups() {
    let mut asks = Asks::default();
    for number in 1..=3 {
        let mut long = ask(number);
        long.question.client = Some("k".repeat(KEY_MAX));
        long.question.affinity = Some(crate::message::AffinityRequest {
            key: "k".repeat(KEY_MAX),
            bind: false,
        });
        asks.add(long, 0);
    }
    assert_eq!(next(&mut asks, 0), Some((1, vec![1])));
    asks.ended(1);
    assert_eq!(next(&mut asks, 0), Some((2, vec![2])));
}

#[test]
fn a_traced_request_is_asked_for_alone_and_at_once() {
    let mut asks = of([1]);
    next(&mut asks, 0);
    let traced = Ask {
        traced: true,
        ..ask(3)
    };
    asks.add(traced.clone(), 0);
    asks.add(ask(4), 0);
    assert_eq!(next(&mut asks, 0), Some((2, vec![3])));
    assert_eq!(next(&mut asks, 0), None);
    asks.ended(1);
    asks.add(traced, 0);
    asks.add(ask(5), 0);
    assert_eq!(next(&mut asks, 0), Some((3, vec![4])));
    assert_eq!(next(&mut asks, 0), Some((4, vec![3])));
}

#[test]
fn whoever_is_gone_is_not_asked_for() {
    let mut asks = of([1, 2, 3]);
    asks.forget(2);
    assert_eq!(next(&mut asks, 0), Some((1, vec![1, 3])));
}
