//! `berth simulate`: strategies side by side, on workers that exist only here.
//!
//! `workload` says who asks whom, `engine` lets it happen to a pool of the models
//! (`admission::model`), `run` is what was seen, `report` prints it. The same seed gives the same
//! output. What is left out: the network, Envoy, the sidecar and Redis take no time here.

mod engine;
mod options;
pub mod report;
pub mod run;
mod scenario;
mod server;
#[cfg(test)]
mod tests;
pub mod workload;

pub use engine::run;
pub use options::Options;

use crate::plot::{Chart, PlotError, Scale, Series};
use admission::policy::{Karma, MAX_CONCURRENT_MAX, Policy, PolicyError, Strategy};
use report::{NamedChart, Report, Table};
use run::Run;
use std::path::{Path, PathBuf};
use workload::Plan;

#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    #[error("--scenario {0}: there is none of that name; --list shows them")]
    Scenario(String),
    #[error("--strategies {strategy}: {error}; leave it out, or give --workers and --max-lifetime")]
    Policy {
        strategy: &'static str,
        error: PolicyError,
    },
    #[error(
        "that would be about {requests:.0} million requests for each strategy: lower --seconds, \
         --clients or --rate, or give slower --workers"
    )]
    TooLong { requests: f64 },
    #[error("--svg: {0}")]
    Plot(#[from] PlotError),
}

/// What every scenario is told.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// None: all that the policy allows.
    pub strategies: Option<Vec<Strategy>>,
    pub seed: u64,
    /// None: as long as the scenario needs.
    pub seconds: Option<f64>,
}

/// Does what the command line asks for; the text is what to print.
pub fn simulate(options: &Options) -> Result<String, SimulateError> {
    if options.list {
        return Ok(scenario::list());
    }
    let report = match &options.scenario {
        Some(name) => scenario::find(name)?(&options.setup())?,
        None => own_figures(options)?,
    };
    if let Some(path) = &options.svg {
        write_charts(&report.charts, path)?;
    }
    Ok(if options.json {
        format!("{:#}\n", report.to_json())
    } else {
        report.to_string()
    })
}

fn own_figures(options: &Options) -> Result<Report, SimulateError> {
    let setup = options.setup();
    let plan = options.plan()?;
    let runs = compare(&setup, &plan)?;
    let mut notes = Vec::new();
    if setup.strategies.is_none() && plan.policy.max_lifetime == 0 {
        notes.push("lifetime_first is left out: it needs --max-lifetime.".into());
    }
    let chart = Chart {
        title: "Requests answered within a time".into(),
        x_label: "ms".into(),
        y_label: "% of the requests".into(),
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
        series: runs.iter().map(answered_within).collect(),
    };
    Ok(Report {
        tables: vec![Table::of_runs(options.describe(), &runs)],
        notes,
        charts: vec![NamedChart { name: "", chart }],
    })
}

fn answered_within((name, run): &(String, Run)) -> Series {
    let percents: Vec<f64> = (1..=50).map(|n| f64::from(n) * 2.0).collect();
    let ms = run.percentiles_ms(&percents);
    Series {
        name: name.clone(),
        points: ms.into_iter().zip(percents).collect(),
    }
}

/// Nothing but its own speed limits a worker.
fn unlimited() -> Policy {
    Policy {
        max_concurrent: MAX_CONCURRENT_MAX,
        ..Policy::default()
    }
}

/// The same, with periods of karma so short that a run of half a minute has many.
fn restless() -> Policy {
    Policy {
        karma: Karma {
            period_ms: RESTLESS_MS,
            ..Karma::default()
        },
        ..unlimited()
    }
}

const RESTLESS_MS: u64 = 2_000;

fn restless_note() -> String {
    let seconds = RESTLESS_MS / 1000;
    format!("nodeads and noerrors: with a period of {seconds} s instead of 60.")
}

/// Runs the plan once for each strategy.
fn compare(setup: &Setup, plan: &Plan) -> Result<Vec<(String, Run)>, SimulateError> {
    let mut runs = Vec::new();
    for strategy in setup.strategies.as_deref().unwrap_or(&Strategy::ALL) {
        let policy = Policy {
            strategy: *strategy,
            ..plan.policy.clone()
        };
        match policy.validate() {
            Ok(()) => {
                let plan = Plan {
                    policy,
                    ..plan.clone()
                };
                runs.push((strategy.as_str().to_owned(), run(&plan)));
            }
            Err(error) if setup.strategies.is_some() => {
                let strategy = strategy.as_str();
                return Err(SimulateError::Policy { strategy, error });
            }
            // Not asked for by name: it needs a limit that this plan does not have.
            Err(_) => {}
        }
    }
    Ok(runs)
}

/// One chart goes to the file itself; several add their names: `plot.svg`, `plot-fifo.svg`.
fn write_charts(charts: &[NamedChart], path: &Path) -> Result<(), PlotError> {
    for named in charts {
        named.chart.write_svg(&chart_path(path, named.name))?;
    }
    Ok(())
}

fn chart_path(path: &Path, name: &str) -> PathBuf {
    if name.is_empty() {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{name}.{extension}"))
}
