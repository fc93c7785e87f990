//! What `nodeads` and `noerrors` know of a worker: karma, failures in a row, and its outcomes.

use super::Pool;
use crate::id::WorkerId;
use crate::outcome::Outcome;
use crate::policy::{KarmaRule, Policy, Strategy};

/// More failures in a row than this say nothing new.
const ROW_MAX: u8 = 64;
/// A longer time is a mistake.
const DAY_US: f64 = 86_400_000_000.0;
/// The level of workers without a success: above any other.
const NO_SUCCESS: f64 = f64::INFINITY;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Good,
    Warning,
    Hard,
    /// A heartbeat.
    Ping,
}

#[derive(Debug, Clone)]
pub(super) struct Conduct {
    /// A share times the number of workers: 1 is an equal share.
    pub(super) karma: f64,
    /// Period and time of what it served since its last step.
    times: Vec<(u64, f64)>,
    row: u8,
    /// Every sign it gave, with its half period.
    signs: Vec<(u64, Sign)>,
    /// By which it is ranked: the lowest is chosen from.
    pub(super) level: (f64, f64),
}

impl Default for Conduct {
    fn default() -> Self {
        Self {
            karma: 1.0,
            times: Vec::new(),
            row: 0,
            signs: Vec::new(),
            level: (0.0, 0.0),
        }
    }
}

/// The sums of the last period in which anyone was timed.
#[derive(Debug, Clone, Copy)]
struct Frozen {
    period: u64,
    /// Sum of karma over time.
    speed: f64,
    /// What the timed workers divide among them.
    karma: f64,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    period: u64,
    frozen: Option<Frozen>,
}

/// Whose clock rings first among the lowest level.
pub(super) fn choose(pool: &Pool) -> Option<WorkerId> {
    pool.lowest(|worker| {
        let (level, second) = worker.conduct.level;
        Some((level, second, worker.clock))
    })
}

impl Conduct {
    /// How fast the worker's clock runs, apart from its weight.
    pub(super) fn pace(&self) -> f64 {
        if self.level.0 == NO_SUCCESS {
            1.0
        } else {
            self.karma
        }
    }

    pub(super) fn ping(&mut self, policy: &Policy, now_ms: f64) {
        self.row = self.row.min(policy.nodeads.dead_after);
        self.signs.push((half(policy, now_ms), Sign::Ping));
    }

    pub(super) fn judge(&mut self, policy: &Policy, now_ms: f64, outcome: Outcome) {
        let sign = match outcome {
            Outcome::Success => Sign::Good,
            Outcome::Warning => Sign::Warning,
            Outcome::ConnectFailed
            | Outcome::ResetBeforeHeaders
            | Outcome::Reset
            | Outcome::Timeout => Sign::Hard,
            Outcome::Unknown => return,
        };
        self.row = match sign {
            Sign::Good => 0,
            Sign::Warning | Sign::Hard | Sign::Ping => (self.row + 1).min(ROW_MAX),
        };
        self.signs.push((half(policy, now_ms), sign));
    }

    pub(super) fn time(&mut self, policy: &Policy, now_ms: f64, us: f64) {
        self.times
            .push((period(policy, now_ms), us.clamp(1.0, DAY_US)));
    }

    fn timed_in(&self, period: u64) -> bool {
        self.times.iter().any(|(timed, _)| *timed == period)
    }

    /// What its new karma is proportional to.
    fn speed(&self, policy: &Policy) -> f64 {
        let total: f64 = self.times.iter().map(|(_, us)| us).sum();
        let karma = match policy.karma.rule {
            KarmaRule::Cumulative => self.karma,
            KarmaRule::Memoryless => 1.0,
        };
        karma * self.times.len() as f64 / total
    }

    fn level(&mut self, policy: &Policy, now_ms: f64) -> (f64, f64) {
        let half = half(policy, now_ms);
        self.signs.retain(|(seen, _)| half <= seen + 1);
        let count = |wanted: Sign| {
            let wanted = |(_, sign): &&(u64, Sign)| *sign == wanted;
            self.signs.iter().filter(wanted).count() as f64
        };
        if policy.strategy == Strategy::Nodeads {
            let dead = self.row > policy.nodeads.dead_after;
            return (if dead { f64::from(self.row) } else { 0.0 }, 0.0);
        }
        let (good, warnings, hard) = (count(Sign::Good), count(Sign::Warning), count(Sign::Hard));
        if good + count(Sign::Ping) == 0.0 {
            return (NO_SUCCESS, 0.0);
        }
        let ratio = |part: f64| {
            let ratio = part / (good + warnings + hard);
            if ratio > policy.noerrors.tolerance {
                ratio
            } else {
                0.0
            }
        };
        (ratio(hard), ratio(hard + warnings))
    }
}

/// An event of this worker: the period may have ended, and its outcomes have aged.
pub(super) fn settle(pool: &mut Pool, id: &WorkerId) {
    step(pool, id);
    let Pool {
        policy,
        now_ms,
        workers,
        dice,
        ..
    } = pool;
    if let Some(worker) = workers.get_mut(id) {
        let level = worker.conduct.level(policy, *now_ms);
        if level != worker.conduct.level {
            worker.conduct.level = level;
            if worker.listed {
                dice.wind(worker);
            }
        }
    }
}

/// Freezes the sums when the period has ended, and gives the worker its new karma.
pub(super) fn step(pool: &mut Pool, id: &WorkerId) {
    let now = period(&pool.policy, pool.now_ms);
    freeze(pool, now);
    let Pool {
        policy,
        ledger,
        workers,
        dice,
        ..
    } = pool;
    let Some(worker) = workers.get_mut(id) else {
        return;
    };
    if worker.conduct.times.is_empty() || worker.conduct.timed_in(now) {
        return;
    }
    if let Some(frozen) = ledger.frozen
        && worker.conduct.timed_in(frozen.period)
    {
        let share = frozen.karma * worker.conduct.speed(policy) / frozen.speed;
        let pace = worker.conduct.pace();
        worker.conduct.karma = share.max(policy.karma.floor);
        dice.repace(worker, pace * worker.weight);
    }
    worker.conduct.times.clear();
}

fn freeze(pool: &mut Pool, now: u64) {
    let ended = pool.ledger.period;
    if now == ended {
        return;
    }
    pool.ledger.period = now;
    let conducts = || pool.workers.values().map(|worker| &worker.conduct);
    let timed = || conducts().filter(|conduct| conduct.timed_in(ended));
    if timed().next().is_none() {
        return;
    }
    let kept: f64 = conducts()
        .filter(|conduct| !conduct.timed_in(ended))
        .map(|conduct| conduct.karma)
        .sum();
    pool.ledger.frozen = Some(Frozen {
        period: ended,
        speed: timed().map(|conduct| conduct.speed(&pool.policy)).sum(),
        karma: pool.workers.len() as f64 - kept,
    });
}

fn period(policy: &Policy, now_ms: f64) -> u64 {
    (now_ms / policy.karma.period_ms as f64).floor() as u64
}

fn half(policy: &Policy, now_ms: f64) -> u64 {
    (now_ms / (policy.karma.period_ms as f64 / 2.0)).floor() as u64
}
