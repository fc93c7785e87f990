//! One worker's share as time goes by.

use crate::plot::{Chart, Scale, Series};
use crate::simulate::run::Run;

/// The share of a worker in each of so many equal parts of the run, at the middle of each.
pub(super) fn shares(run: &Run, worker: usize, parts: u64) -> Vec<(f64, f64)> {
    let part_us = run.length_us / parts;
    (0..parts)
        .map(|part| {
            let from_us = part * part_us;
            let middle_s = (from_us + part_us / 2) as f64 / 1e6;
            let shares = run.shares(from_us..from_us + part_us);
            (middle_s, shares.get(worker).copied().unwrap_or(0.0))
        })
        .collect()
}

pub(super) fn chart(title: &str, runs: &[(String, Run)], worker: usize) -> Chart {
    const PARTS: u64 = 60;
    Chart {
        title: title.into(),
        x_label: "s".into(),
        y_label: "its share, %".into(),
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        series: runs
            .iter()
            .map(|(name, run)| Series {
                name: name.clone(),
                points: shares(run, worker, PARTS),
            })
            .collect(),
    }
}
