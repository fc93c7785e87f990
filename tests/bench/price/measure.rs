//! CPU time of processes, and figures of several rounds.

use harness::process::{Process, own_cpu};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Whoever asks: its CPU time is told apart.
pub(crate) const LOAD: &str = "load";

/// The processes that take part, by what they are.
#[derive(Default)]
pub(crate) struct Meter<'a> {
    processes: Vec<(&'static str, &'a Process)>,
}

/// CPU time by what had it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spent(BTreeMap<&'static str, Duration>);

impl<'a> Meter<'a> {
    pub(crate) fn of(processes: impl IntoIterator<Item = (&'static str, &'a Process)>) -> Self {
        Self {
            processes: processes.into_iter().collect(),
        }
    }

    pub(crate) fn read(&self) -> Spent {
        let mut spent = BTreeMap::from([(LOAD, own_cpu())]);
        for (name, process) in &self.processes {
            *spent.entry(*name).or_default() += process.cpu();
        }
        Spent(spent)
    }
}

impl Spent {
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let spent = self.0.iter().map(|(name, total)| {
            let before = earlier.0.get(name).copied().unwrap_or_default();
            (*name, total.saturating_sub(before))
        });
        Self(spent.collect())
    }

    pub(crate) fn seconds(&self, name: &str) -> f64 {
        self.0.get(name).map_or(0.0, Duration::as_secs_f64)
    }

    /// Microseconds for each of so many.
    pub(crate) fn us_each(&self, name: &str, count: usize) -> f64 {
        self.seconds(name) * 1e6 / count.max(1) as f64
    }
}

/// A figure of several rounds: the median, and from where to where it went.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Figure {
    pub(crate) fn of(rounds: impl IntoIterator<Item = f64>) -> Self {
        let mut rounds: Vec<f64> = rounds.into_iter().collect();
        rounds.sort_by(f64::total_cmp);
        let at = |place: usize| rounds.get(place).copied().map_or(f64::NAN, rounded);
        Self {
            median: at(rounds.len() / 2),
            min: at(0),
            max: at(rounds.len().saturating_sub(1)),
        }
    }
}

/// Four digits that count; what lies beyond is noise. What was counted stays as it is.
pub(crate) fn rounded(figure: f64) -> f64 {
    if figure.fract() == 0.0 || !figure.is_finite() {
        return figure;
    }
    let step = 10_f64.powf(figure.abs().log10().floor() - 3.0);
    if step >= 1.0 {
        (figure / step).round() * step
    } else {
        let per_unit = (1.0 / step).round();
        (figure * per_unit).round() / per_unit
    }
}
