//! Workers that must restart after 20 sessions: do their restarts keep apart?

use crate::plot::{Chart, Scale, Series};
use crate::simulate::report::{Cell, NamedChart, Report, Table};
use crate::simulate::run::{Run, seconds};
use crate::simulate::workload::{Arrivals, HEARTBEAT_MS, Plan, Queueing, WorkerPlan};
use crate::simulate::{Setup, SimulateError, compare, unlimited};
use admission::policy::Policy;

const WORKERS: usize = 4;
const MAX_LIFETIME: u32 = 20;

struct Case {
    name: &'static str,
    words: &'static str,
    session_ms: f64,
    arrivals: Arrivals,
    heartbeat_ms: f64,
    restart_ms: f64,
    seconds: f64,
    drawn_s: f64,
}

/// Restarts keep apart while heartbeat, drain and restart take less time than the margin's
/// admissions. Of 4 workers with 20 sessions each the margin is 5.
const CASES: [Case; 3] = [
    // 1 + 0.5 + 0.2 s is less than the 2.5 s that 5 admissions take, always.
    Case {
        name: "fast",
        words: "2 sessions per s, evenly spaced, heartbeats every 1 s, restart in 0.2 s",
        session_ms: 500.0,
        arrivals: Arrivals::Paced { per_s: 2.0 },
        heartbeat_ms: 1_000.0,
        restart_ms: 200.0,
        seconds: 300.0,
        drawn_s: 120.0,
    },
    // Up to 5.7 s is more than that, and chance brings some sessions close together.
    Case {
        name: "usual",
        words: "2 sessions per s at random, heartbeats every 5 s, restart in 0.2 s",
        session_ms: 500.0,
        arrivals: Arrivals::Poisson { per_s: 2.0 },
        heartbeat_ms: HEARTBEAT_MS,
        restart_ms: 200.0,
        seconds: 300.0,
        drawn_s: 120.0,
    },
    // 5 admissions take 0.1 s.
    Case {
        name: "slow",
        words: "50 sessions per s at random, heartbeats every 1 s, restart in 2 s",
        session_ms: 500.0,
        arrivals: Arrivals::Poisson { per_s: 50.0 },
        heartbeat_ms: 1_000.0,
        restart_ms: 2_000.0,
        seconds: 60.0,
        drawn_s: 15.0,
    },
];

pub(super) fn run(setup: &Setup) -> Result<Report, SimulateError> {
    let mut report = Report::default();
    for case in &CASES {
        let runs = compare(setup, &case.plan(setup))?;
        let title = format!(
            "Four workers, 20 sessions each; {}. The source, of lifetime_first: one restarts at a \
             time.",
            case.words
        );
        report.tables.push(table(title, &runs));
        if let Some((_, run)) = runs.iter().find(|(name, _)| name == "lifetime_first") {
            report.charts.push(NamedChart {
                name: case.name,
                chart: chart(case, run),
            });
        }
    }
    Ok(report)
}

fn table(title: String, runs: &[(String, Run)]) -> Table {
    let columns = [
        "strategy",
        "at limit at once",
        "recycles",
        "denied",
        "per s",
    ];
    let mut table = Table::new(title, &columns);
    for (name, run) in runs {
        table.rows.push(vec![
            Cell::text(name.as_str()),
            Cell::whole(run.at_limit_max as f64),
            Cell::whole(run.recycles as f64),
            Cell::whole(run.denied as f64),
            Cell::tenths(run.per_s()),
        ]);
    }
    table
}

impl Case {
    fn plan(&self, setup: &Setup) -> Plan {
        Plan {
            policy: Policy {
                max_lifetime: MAX_LIFETIME,
                ..unlimited()
            },
            workers: [WorkerPlan::constant(self.session_ms); WORKERS].to_vec(),
            queueing: Queueing::Delay,
            arrivals: self.arrivals,
            seconds: setup.seconds.unwrap_or(self.seconds),
            seed: setup.seed,
            heartbeat_ms: self.heartbeat_ms,
            restart_ms: self.restart_ms,
        }
    }
}

fn chart(case: &Case, run: &Run) -> Chart {
    Chart {
        title: format!("lifetime_first, {}", case.name),
        x_label: "s".into(),
        y_label: "lifetime".into(),
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        series: (0..WORKERS)
            .map(|worker| lifetimes(case, run, worker))
            .collect(),
    }
}

/// Steps: a lifetime stays what it was until it changes.
fn lifetimes(case: &Case, run: &Run, worker: usize) -> Series {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for change in run
        .lifetimes
        .iter()
        .filter(|change| change.worker == worker)
    {
        let at_s = seconds(change.at_us);
        if at_s > case.drawn_s {
            break;
        }
        points.extend(points.last().map(|(_, lifetime)| (at_s, *lifetime)));
        points.push((at_s, change.lifetime as f64));
    }
    Series {
        name: format!("w{}", worker + 1),
        points,
    }
}
