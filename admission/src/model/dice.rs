use super::Worker;

/// Chance by exponential clocks, with the same numbers that the scripts draw (`lua/lib/dice.lua`).
#[derive(Debug)]
pub(super) struct Dice {
    state: u64,
    /// When the last clock rang.
    rang: f64,
}

impl Dice {
    const FACTOR: u64 = 48_271;
    const MODULUS: u64 = 2_147_483_647;

    pub(super) fn new(seed: u32) -> Self {
        Self {
            state: u64::from(seed),
            rang: 0.0,
        }
    }

    fn wait(&mut self, weight: f64) -> f64 {
        self.state = self.state * Self::FACTOR % Self::MODULUS;
        let roll = self.state as f64 / Self::MODULUS as f64;
        -roll.ln() / weight
    }

    pub(super) fn enter(&mut self, worker: &mut Worker) {
        worker.clock = self.rang + self.wait(worker.weight);
    }

    pub(super) fn ring(&mut self, worker: &mut Worker) {
        self.rang = worker.clock;
        worker.clock += self.wait(worker.weight);
    }

    pub(super) fn reweigh(&self, worker: &mut Worker, weight: f64) {
        worker.clock = self.rang + (worker.clock - self.rang) * worker.weight / weight;
        worker.weight = weight;
    }
}
