//! Hostile requests and arguments, against the real scripts in a real Redis. Whatever comes, a call has
//! an answer, and everything that is kept still agrees with the leases.
//!
//! `BERTH_FUZZ_SECONDS` says for how long, `BERTH_FUZZ_SEED` with which seed; a failing run prints both
//! seed and calls.

mod policies;
mod routes;
mod scripts;
mod words;

use crate::support::Pool;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Calls between two audits: few enough to read when one fails.
const BATCH: usize = 48;

/// The last calls, to be shown when something is wrong.
struct Story {
    seed: u64,
    calls: VecDeque<String>,
}

impl Story {
    fn add(&mut self, call: String) {
        if self.calls.len() == 2 * BATCH {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
    }

    fn fail(&self, what: &str) -> ! {
        let calls = self.calls.iter().map(String::as_str);
        let calls: Vec<&str> = calls.collect();
        panic!("seed {}: {what}, after\n{}", self.seed, calls.join("\n"));
    }
}

/// How long a fuzzer may go on, and where it starts.
struct Run {
    dice: fastrand::Rng,
    end: Instant,
    story: Story,
    executions: u64,
}

impl Run {
    fn new() -> Self {
        let variable = |name| std::env::var(name).ok();
        let seconds = variable("BERTH_FUZZ_SECONDS").map_or(2.0, |text| {
            text.parse().expect("BERTH_FUZZ_SECONDS is a number")
        });
        let seed = variable("BERTH_FUZZ_SEED").map_or(20_261_116, |text| {
            text.parse().expect("BERTH_FUZZ_SEED is a number")
        });
        Self {
            dice: fastrand::Rng::with_seed(seed),
            end: Instant::now() + Duration::from_secs_f64(seconds),
            story: Story {
                seed,
                calls: VecDeque::new(),
            },
            executions: 0,
        }
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.end
    }

    fn tell(&self, name: &str) {
        eprintln!(
            "{name}: {} executions, seed {}",
            self.executions, self.story.seed
        );
    }

    /// Figures that are off are a finding.
    async fn audit(&self, pool: &Pool) {
        match pool.store.audit(&pool.name).await {
            Ok(found) if found.total() == 0 => {}
            Ok(found) => self.story.fail(&format!("{found:?}")),
            Err(error) => self.story.fail(&error.to_string()),
        }
    }

    /// So is a pool that cannot be read any more.
    async fn read(&self, pool: &Pool) {
        for read in [
            pool.store.view(&pool.name).await.map(|_| ()),
            pool.store.leases(&pool.name).await.map(|_| ()),
            pool.store.reap(&pool.name).await.map(|_| ()),
        ] {
            if let Err(error) = read {
                self.story.fail(&error.to_string());
            }
        }
    }
}
