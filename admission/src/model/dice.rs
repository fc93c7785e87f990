use super::Worker;
use std::collections::HashMap;

/// More levels than this are not kept in mind.
const LEVELS_MAX: usize = 64;

/// Chance by exponential clocks, with the same numbers that the scripts draw (`lua/lib/dice.lua`).
#[derive(Debug)]
pub(super) struct Dice {
    state: u64,
    /// When the last clock rang, of each level.
    rang: HashMap<(u64, u64), f64>,
}

impl Dice {
    const FACTOR: u64 = 48_271;
    const MODULUS: u64 = 2_147_483_647;

    pub(super) fn new(seed: u32) -> Self {
        Self {
            state: u64::from(seed),
            rang: HashMap::new(),
        }
    }

    /// A number above 0 and below 1.
    pub(super) fn roll(&mut self) -> f64 {
        self.state = self.state * Self::FACTOR % Self::MODULUS;
        self.state as f64 / Self::MODULUS as f64
    }

    fn last_ring(&self, worker: &Worker) -> f64 {
        self.rang.get(&level(worker)).copied().unwrap_or(0.0)
    }

    pub(super) fn wind(&mut self, worker: &mut Worker) {
        let wait = -self.roll().ln() / worker.pace();
        worker.clock = self.last_ring(worker) + wait;
    }

    pub(super) fn ring(&mut self, worker: &mut Worker) {
        self.rang.insert(level(worker), worker.clock);
        // The usual level is always kept in mind, beside the others.
        let others = || self.rang.iter().filter(|(level, _)| **level != (0, 0));
        if others().count() > LEVELS_MAX {
            let youngest = others().min_by(|(_, a), (_, b)| a.total_cmp(b));
            if let Some(level) = youngest.map(|(level, _)| *level) {
                self.rang.remove(&level);
            }
        }
        self.wind(worker);
    }

    /// The time left changes with the pace.
    pub(super) fn repace(&self, worker: &mut Worker, former: f64) {
        let from = self.last_ring(worker);
        worker.clock = from + (worker.clock - from) * former / worker.pace();
    }
}

/// Levels are compared as they are; 0 and 0 is the usual one.
fn level(worker: &Worker) -> (u64, u64) {
    let (level, second) = worker.conduct.level;
    (level.to_bits(), second.to_bits())
}
