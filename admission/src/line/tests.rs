use super::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn up(token: u32) -> Line<char> {
    let mut line = Line::default();
    line.opening(token, 0);
    line.ready(token, 0);
    line
}

/// Calls, and is patient until then.
fn call(line: &mut Line<char>, call: char, until_us: u64) -> u64 {
    let number = line.next_number();
    line.sent(number, call, until_us);
    number
}

#[test]
fn answers_find_who_called_in_any_order() {
    let mut line = up(7);
    let [a, b, c] = ['a', 'b', 'c'].map(|name| call(&mut line, name, 1));
    assert_eq!(line.answered(7, b), Some('b'));
    assert_eq!(line.answered(7, b), None);
    assert_eq!(line.answered(7, c), Some('c'));
    assert!(line.is_busy());
    assert_eq!(line.answered(7, a), Some('a'));
    assert!(!line.is_busy());
}

#[test]
fn a_line_that_ends_leaves_those_without_an_answer() {
    let mut line = up(7);
    let a = call(&mut line, 'a', 1);
    call(&mut line, 'b', 1);
    line.answered(7, a);
    assert_eq!(line.ended(Some(7), 0), ['b']);
    assert_eq!(line.up(), None);
}

#[test]
fn late_news_of_another_line_changes_nothing() {
    let mut line = up(7);
    let a = call(&mut line, 'a', 1);
    line.ended(Some(7), 0);
    line.opening(8, 0);
    line.ready(8, 0);
    let b = call(&mut line, 'b', 1);
    assert_ne!(a, b);
    assert_eq!(line.answered(7, b), None);
    line.leave(7, Why::Time);
    assert!(line.ended(Some(7), 0).is_empty());
    assert_eq!(line.up(), Some(8));
}

#[test]
fn a_line_is_up_when_a_sidecar_says_so_and_is_not_waited_for_for_ever() {
    let mut line: Line<char> = Line::default();
    line.opening(7, 1000);
    assert!(!line.may_open(u64::MAX));
    line.ready(6, 0);
    let over_us = 1000 + OPENING_US_MAX;
    assert_eq!((line.up(), line.end(over_us - 1)), (None, None));
    assert_eq!(line.end(over_us), Some(End::HangUp(7)));
    line.ready(7, 0);
    assert_eq!((line.up(), line.end(u64::MAX)), (Some(7), None));
}

#[test]
fn a_line_that_breaks_again_and_again_is_tried_less_and_less() {
    let mut line = Line::default();
    let mut now_us = 0;
    for pause_us in [1_000_000, 2_000_000, 4_000_000] {
        assert!(line.may_open(now_us));
        line.ended(None, now_us);
        assert!(!line.may_open(now_us + pause_us - 1));
        now_us += pause_us;
    }
    for _ in 0..20 {
        line.ended(None, now_us);
    }
    assert!(line.may_open(now_us + PAUSE_US_MAX));
    // An answer makes up for all of it.
    line.opening(1, now_us);
    line.ready(1, now_us);
    let number = call(&mut line, 'a', u64::MAX);
    line.answered(1, number);
    line.ended(Some(1), now_us);
    assert!(line.may_open(now_us + PAUSE_US));
}

#[test]
fn who_waits_for_too_long_is_given_up_and_others_are_still_waited_for() {
    let mut line = up(7);
    let late = call(&mut line, 'a', 1000);
    let young = call(&mut line, 'b', 2000);
    assert!(line.give_up(999).is_empty());
    assert_eq!(line.up(), Some(7));
    assert_eq!(line.give_up(1000), ['a']);
    assert_eq!((line.up(), line.end(1000)), (None, None));
    assert_eq!(line.answered(7, late), None);
    assert_eq!(line.answered(7, young), Some('b'));
    assert_eq!(line.end(1000), Some(End::TakeLeave(7)));
    line.ended(Some(7), 1000);
    assert!(!line.may_open(1000), "it was in trouble");
}

#[test]
fn a_line_on_which_nobody_is_heard_is_hung_up() {
    let mut line = up(7);
    call(&mut line, 'a', 1000);
    call(&mut line, 'b', 2000);
    line.give_up(1000);
    assert_eq!(line.give_up(2000), ['b']);
    assert_eq!(line.end(2000), Some(End::HangUp(7)));
    line.ended(Some(7), 2000);
    assert_eq!(line.end(u64::MAX), None);
    // The next one begins anew.
    line.opening(8, 0);
    line.ready(8, 0);
    line.leave(8, Why::Time);
    assert_eq!(line.end(0), Some(End::TakeLeave(8)));
}

#[test]
fn a_late_answer_is_none_but_its_sidecar_is_heard() {
    let mut line = up(7);
    let late = call(&mut line, 'a', 1000);
    line.give_up(1000);
    assert_eq!(line.answered(7, late), None);
    assert_eq!(line.end(1000), Some(End::TakeLeave(7)));
}

#[test]
fn no_more_is_asked_than_the_sidecar_reads() {
    let mut line = up(7);
    let first = call(&mut line, 'a', 1);
    for _ in 1..LINE_CALLS_MAX {
        assert_eq!(line.up(), Some(7));
        call(&mut line, 'b', 1);
    }
    assert_eq!(line.up(), None);
    line.answered(7, first);
    assert_eq!(line.up(), Some(7));
}

#[test]
fn trouble_is_not_forgotten_because_the_sidecar_leaves_too() {
    let mut line = up(7);
    line.leave(7, Why::Trouble);
    line.leave(7, Why::Time);
    line.ended(Some(7), 0);
    assert!(!line.may_open(0));
}

#[test]
fn a_sidecar_that_leaves_answers_first_and_the_next_line_waits_for_nothing() {
    let mut line = up(7);
    let a = call(&mut line, 'a', 1);
    line.leave(7, Why::Time);
    assert_eq!((line.up(), line.end(0)), (None, None));
    assert_eq!(line.answered(7, a), Some('a'));
    assert_eq!(line.end(0), Some(End::TakeLeave(7)));
    assert!(line.ended(Some(7), 5).is_empty());
    assert!(line.may_open(5));
}

#[test]
fn an_old_line_is_left_for_another() {
    let mut line = up(7);
    let a = call(&mut line, 'a', u64::MAX);
    line.age(AGE_US_MAX - 1);
    assert_eq!(line.up(), Some(7));
    line.age(AGE_US_MAX);
    assert_eq!((line.up(), line.end(0)), (None, None));
    assert_eq!(line.answered(7, a), Some('a'));
    assert_eq!(line.end(0), Some(End::TakeLeave(7)));
    line.ended(Some(7), AGE_US_MAX);
    assert!(line.may_open(AGE_US_MAX));
}

#[test]
fn lines_that_are_left_for_their_age_are_no_trouble() {
    let mut line: Line<char> = Line::default();
    let mut now_us = 0;
    for token in 1..=20 {
        line.opening(token, now_us);
        line.ready(token, now_us);
        now_us += AGE_US_MAX;
        line.age(now_us);
        assert_eq!(line.end(now_us), Some(End::TakeLeave(token)));
        line.ended(Some(token), now_us);
        assert!(line.may_open(now_us));
    }
    line.opening(21, now_us);
    line.ended(Some(21), now_us);
    assert!(line.may_open(now_us + PAUSE_US));
}

#[test]
fn a_sidecar_that_cannot_answer_is_given_time() {
    let mut line = up(7);
    let a = call(&mut line, 'a', u64::MAX);
    line.answered(7, a);
    line.leave(7, Why::Trouble);
    assert_eq!(line.end(0), Some(End::TakeLeave(7)));
    line.ended(Some(7), 0);
    assert!(!line.may_open(PAUSE_US - 1));
    assert!(line.may_open(PAUSE_US));
}

#[test]
fn a_line_that_breaks_while_it_is_left_is_given_time() {
    let mut line = up(7);
    call(&mut line, 'a', 1000);
    line.leave(7, Why::Time);
    assert_eq!(line.ended(Some(7), 1000), ['a']);
    assert!(!line.may_open(1000));
}

#[test]
fn a_line_that_is_left_is_not_up_again() {
    let mut line = up(7);
    line.leave(7, Why::Time);
    line.ready(7, 0);
    assert_eq!(line.up(), None);
}
