//! What is simulated: workers with their speed, and who asks.

use admission::policy::Policy;
use fastrand::Rng;

/// One run of one strategy.
#[derive(Debug, Clone)]
pub struct Plan {
    pub policy: Policy,
    pub workers: Vec<WorkerPlan>,
    pub queueing: Queueing,
    pub arrivals: Arrivals,
    pub seconds: f64,
    pub seed: u64,
    /// A worker learns only from its heartbeat's answer that it must restart.
    pub heartbeat_ms: f64,
    /// From the end of a worker's last session to its new registration.
    pub restart_ms: f64,
}

/// How often the documents tell workers to send heartbeats.
pub const HEARTBEAT_MS: f64 = 5_000.0;

#[derive(Debug, Clone, Copy)]
pub struct WorkerPlan {
    pub mean_ms: f64,
    pub spread: Spread,
    pub joins_ms: f64,
    pub change: Option<Change>,
}

/// From then on a worker takes another time.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    pub at_ms: f64,
    pub mean_ms: f64,
}

impl WorkerPlan {
    pub fn constant(mean_ms: f64) -> Self {
        Self {
            mean_ms,
            spread: Spread::Constant,
            joins_ms: 0.0,
            change: None,
        }
    }

    /// The work in one request that comes at this time.
    pub(super) fn draw_us(&self, now_us: u64, dice: &mut Rng) -> u64 {
        let changed = self.change.filter(|change| us(change.at_ms) <= now_us);
        let mean_ms = changed.map_or(self.mean_ms, |change| change.mean_ms);
        let factor = match self.spread {
            Spread::Constant => 1.0,
            Spread::Exponential => exponential(dice),
            Spread::Uniform { percent } => 1.0 + (2.0 * dice.f64() - 1.0) * percent / 100.0,
        };
        us(mean_ms * factor).max(1)
    }
}

/// How the requests on one worker differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spread {
    Constant,
    Exponential,
    /// Evenly within so many percent of the mean.
    Uniform {
        percent: f64,
    },
}

/// What a worker's load does to its latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Queueing {
    /// Nothing: every request takes its service time
    Delay,
    /// Requests queue for one server
    Fifo,
    /// All requests share one server and slow one another down
    Shared,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Each client asks again as soon as it is answered.
    Closed { clients: u32 },
    /// So many requests per second, independent of one another.
    Poisson { per_s: f64 },
    /// The same, evenly spaced.
    Paced { per_s: f64 },
}

impl Arrivals {
    /// The time to the next request, where requests do not wait for answers.
    pub(super) fn gap_us(&self, dice: &mut Rng) -> Option<u64> {
        match self {
            Self::Closed { .. } => None,
            Self::Poisson { per_s } => Some(us(1000.0 / per_s * exponential(dice))),
            Self::Paced { per_s } => Some(us(1000.0 / per_s)),
        }
    }
}

/// Of mean 1.
fn exponential(dice: &mut Rng) -> f64 {
    -(1.0 - dice.f64()).ln()
}

/// Simulated time is counted in whole microseconds, so that equal times are equal.
pub(super) fn us(ms: f64) -> u64 {
    (ms * 1000.0).round() as u64
}
