//! Each target for a short time, without guidance; `make fuzz` goes on where this ends.

use fuzz::{Mutator, Target};
use std::panic::catch_unwind;
use std::time::{Duration, Instant};

const SEED: u64 = 20_261_116;

/// `BERTH_FUZZ_SECONDS`, for each target.
fn time() -> Duration {
    let told = std::env::var("BERTH_FUZZ_SECONDS").ok();
    let seconds = told.map_or(2.0, |text| {
        text.parse().expect("BERTH_FUZZ_SECONDS is a number")
    });
    Duration::from_secs_f64(seconds)
}

fn try_out(name: &str) {
    let target = Target::named(name).expect("a target");
    let corpus = target.corpus();
    assert!(!corpus.is_empty(), "fuzz/corpus/{name} has no files");
    for input in &corpus {
        run(&target, input);
    }
    let (end, mut mutator) = (Instant::now() + time(), Mutator::new(corpus, SEED));
    let mut executions = 0_u64;
    while Instant::now() < end {
        run(&target, &mutator.draw());
        executions += 1;
    }
    eprintln!("{name}: {executions} executions");
}

fn run(target: &Target, input: &[u8]) {
    if catch_unwind(|| (target.run)(input)).is_err() {
        let (name, shown) = (target.name, input.escape_ascii());
        panic!("fuzz/corpus/{name} gets a file with this: {shown}");
    }
}

#[test]
fn headers_of_clients_harm_nothing() {
    try_out("headers");
}

#[test]
fn messages_of_anyone_harm_nothing() {
    try_out("messages");
}

#[test]
fn ids_of_anyone_have_one_spelling() {
    try_out("ids");
}

#[test]
fn configurations_are_of_use_or_refused() {
    try_out("config");
}

#[test]
fn settings_are_of_use_or_refused() {
    try_out("settings");
}

#[test]
fn every_target_is_tried() {
    let source = include_str!("short.rs");
    for target in fuzz::TARGETS {
        assert!(
            source.contains(&format!("try_out({:?})", target.name)),
            "{}",
            target.name
        );
    }
}
