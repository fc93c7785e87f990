//! The lease protocol (docs/leases.md) in a world where everything goes wrong, by seed: real holders and
//! streams, a model of the store, and between them messages that are late, lost and doubled.
//!
//!   BERTH_SEEDS=100000   how many worlds
//!   BERTH_SEED=17        only this one, with its whole history
//!   BERTH_GUARD=grace    without this guard only
#![cfg(not(target_arch = "wasm32"))]

mod call;
mod chance;
mod comparison;
mod event;
mod history;
mod judge;
mod network;
mod presence;
mod schedule;
mod sidecar;
mod store;
mod stream;
mod vm;
mod words;
mod worker;
mod world;

use admission::model::ledger::Guards;
use history::History;
use judge::Violation;
use std::time::Instant;
use world::World;

const SEEDS: u64 = 2_000;
/// Enough for each guard to be missed, with room to spare: most are within 300.
const MUTANT_SEEDS: u64 = 12_000;
/// The last lines before a violation say most.
const LINES: usize = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn run(seed: u64, guards: Guards) -> Result<(), Violation> {
    World::new(seed, guards, History::new(false)).run()
}

/// Runs the seed once more, and says what happened.
#[allow(clippy::print_stdout)]
fn replay(seed: u64, lines: usize) -> Result<(), Violation> {
    let mut world = World::new(seed, Guards::ALL, History::new(true));
    let result = world.run();
    let history = world.history.lines();
    for line in &history[history.len().saturating_sub(lines)..] {
        println!("{line}");
    }
    if let Err(Violation { rule, what }) = &result {
        println!("\nseed {seed} violates \"{rule}\": {what}");
        println!(
            "replay: BERTH_SEED={seed} cargo test -p admission --release --test simulation -- --nocapture leases"
        );
    }
    result
}

/// The first seed that violates a rule.
fn first_violation(guards: Guards, seeds: u64) -> Option<(u64, Violation)> {
    (1..=seeds).find_map(|seed| run(seed, guards).err().map(|violation| (seed, violation)))
}

/// A judge that never finds anything judges nothing.
#[test]
#[allow(clippy::print_stdout)]
fn every_guard_is_missed_when_it_is_gone() {
    let seeds = number("BERTH_MUTANT_SEEDS").unwrap_or(MUTANT_SEEDS);
    let mut unnoticed = Vec::new();
    let only = std::env::var("BERTH_GUARD").ok();
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
    for (name, guards) in (Guards::each_off().into_iter()).filter(|(name, _)| wanted(name)) {
        match first_violation(guards, seeds) {
            Some((seed, violation)) => println!("{name}: seed {seed}, {}", violation.rule),
            None => unnoticed.push(name),
        }
    }
    assert!(unnoticed.is_empty(), "nobody misses {unnoticed:?}");
}

#[test]
#[allow(clippy::print_stdout)]
fn leases_survive_every_fault() {
    if let Some(seed) = number("BERTH_SEED") {
        assert!(replay(seed, usize::MAX).is_ok());
        return;
    }
    let first = number("BERTH_FIRST_SEED").unwrap_or(1);
    let seeds = number("BERTH_SEEDS").unwrap_or(SEEDS);
    let began = Instant::now();
    for seed in first..first + seeds {
        if run(seed, Guards::ALL).is_err() {
            replay(seed, LINES).ok();
            panic!("seed {seed}");
        }
        let done = seed - first + 1;
        if done.is_multiple_of((seeds / 10).max(1)) {
            let rate = done as f64 / began.elapsed().as_secs_f64();
            println!("{done} seeds of {seeds}, {rate:.0} per second");
        }
    }
}
