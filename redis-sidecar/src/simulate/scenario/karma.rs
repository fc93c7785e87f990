//! Shares that follow latency once per period: where do they end?

use crate::plot::{Chart, Scale, Series};
use crate::simulate::report::{Cell, NamedChart, Report, Table};
use crate::simulate::run::Run;
use crate::simulate::workload::{Arrivals, HEARTBEAT_MS, Plan, Queueing, WorkerPlan};
use crate::simulate::{Setup, SimulateError, compare, unlimited};
use admission::policy::{Karma, Policy, Strategy};

const WORKERS_MS: [f64; 4] = [10.0, 5.0, 30.0, 3.0];
const PERIOD_S: u64 = 60;
const PERIODS: u64 = 11;
/// What the source calculates for the second period.
const CLAIM: [f64; 4] = [15.0, 30.0, 5.0, 50.0];

struct Case {
    name: &'static str,
    words: &'static str,
    queueing: Queueing,
    arrivals: Arrivals,
}

/// At 200 requests per second the fastest worker alone is half busy; 16 clients keep it full.
const CASES: [Case; 4] = [
    Case {
        name: "delay",
        words: "latency does not depend on load, 200 requests per s",
        queueing: Queueing::Delay,
        arrivals: Arrivals::Poisson { per_s: 200.0 },
    },
    Case {
        name: "fifo",
        words: "requests queue for one server each, 200 requests per s",
        queueing: Queueing::Fifo,
        arrivals: Arrivals::Poisson { per_s: 200.0 },
    },
    Case {
        name: "shared",
        words: "requests share one server each, 200 requests per s",
        queueing: Queueing::Shared,
        arrivals: Arrivals::Poisson { per_s: 200.0 },
    },
    Case {
        name: "full",
        words: "requests share one server each, 16 clients",
        queueing: Queueing::Shared,
        arrivals: Arrivals::Closed { clients: 16 },
    },
];

pub(super) fn run(setup: &Setup) -> Result<Report, SimulateError> {
    let strategies = setup.strategies.clone();
    let setup = Setup {
        strategies: strategies.or_else(|| Some(vec![Strategy::Nodeads])),
        ..setup.clone()
    };
    let mut report = Report::default();
    for case in &CASES {
        for (strategy, run) in compare(&setup, &case.plan(&setup))? {
            report.tables.push(table(case, &strategy, &run));
            report.charts.push(NamedChart {
                name: case.name,
                chart: chart(case, &strategy, &run),
            });
        }
    }
    Ok(report)
}

impl Case {
    fn plan(&self, setup: &Setup) -> Plan {
        Plan {
            policy: Policy {
                karma: Karma {
                    period_ms: PERIOD_S * 1000,
                    ..Karma::default()
                },
                ..unlimited()
            },
            workers: WORKERS_MS.map(WorkerPlan::constant).to_vec(),
            queueing: self.queueing,
            arrivals: self.arrivals,
            seconds: setup.seconds.unwrap_or((PERIOD_S * PERIODS) as f64),
            seed: setup.seed,
            heartbeat_ms: HEARTBEAT_MS,
            restart_ms: 0.0,
        }
    }
}

fn periods(run: &Run) -> impl Iterator<Item = (u64, std::ops::Range<u64>)> {
    let period_us = PERIOD_S * 1_000_000;
    (0..run.length_us / period_us)
        .map(move |period| (period + 1, period * period_us..(period + 1) * period_us))
}

fn table(case: &Case, strategy: &str, run: &Run) -> Table {
    let title = format!(
        "Shares and mean latencies by period, {strategy}; {}.",
        case.words
    );
    let mut table = Table::new(title, &["period"]);
    for ms in WORKERS_MS {
        table.columns.push(format!("{ms} ms: %"));
    }
    for ms in WORKERS_MS {
        table.columns.push(format!("{ms} ms: mean ms"));
    }
    for (period, during) in periods(run) {
        // The source calculates with latencies that do not change.
        if period == 2 && case.queueing == Queueing::Delay {
            let claim = CLAIM.map(Cell::tenths);
            let mut row = vec![Cell::text("2, the source")];
            row.extend(claim);
            row.extend(WORKERS_MS.map(|_| Cell::Nothing));
            table.rows.push(row);
        }
        let mut row = vec![Cell::text(period.to_string())];
        row.extend(run.shares(during.clone()).into_iter().map(Cell::tenths));
        for worker in 0..run.workers {
            let mean = run.worker_mean_ms(worker, during.clone());
            row.push(mean.map_or(Cell::Nothing, Cell::tenths));
        }
        table.rows.push(row);
    }
    table
}

fn chart(case: &Case, strategy: &str, run: &Run) -> Chart {
    let series = WORKERS_MS.iter().enumerate().map(|(worker, ms)| Series {
        name: format!("{ms} ms"),
        points: periods(run)
            .map(|(period, during)| (period as f64, run.shares(during)[worker]))
            .collect(),
    });
    Chart {
        title: format!("{strategy}: {}", case.words),
        x_label: "period".into(),
        y_label: "share, %".into(),
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        series: series.collect(),
    }
}
