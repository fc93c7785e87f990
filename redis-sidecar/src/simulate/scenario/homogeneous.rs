//! Workers of nearly the same speed: the source sees little use for `sewt` here. Its "±15 %" can
//! be read in two ways, so both are tried.

use crate::plot::{Chart, Scale, Series};
use crate::simulate::report::{Cell, NamedChart, Report, Table};
use crate::simulate::run::Run;
use crate::simulate::workload::{Arrivals, HEARTBEAT_MS, Plan, Queueing, Spread, WorkerPlan};
use crate::simulate::{Setup, SimulateError, compare, restless, restless_note};

const MEAN_MS: f64 = 20.0;
const CLIENTS: [u32; 6] = [1, 2, 4, 8, 16, 32];
const CLIENTS_OF_CLAIMS: u32 = 16;
const SECONDS: f64 = 30.0;

#[derive(Debug, Clone, Copy)]
enum Differing {
    /// Four means, evenly spread between the two ends.
    Workers,
    /// Equal workers; each request is drawn between the two ends.
    Requests,
}

impl Differing {
    fn words(self) -> &'static str {
        match self {
            Self::Workers => "workers differ",
            Self::Requests => "requests differ",
        }
    }

    fn workers(self, percent: f64) -> [WorkerPlan; 4] {
        match self {
            Self::Workers => [-1.0, -1.0 / 3.0, 1.0 / 3.0, 1.0]
                .map(|end| WorkerPlan::constant(MEAN_MS * (1.0 + end * percent / 100.0))),
            Self::Requests => {
                let spread = Spread::Uniform { percent };
                let mean = WorkerPlan::constant(MEAN_MS);
                [WorkerPlan { spread, ..mean }; 4]
            }
        }
    }
}

type Runs = Vec<(String, Run)>;

pub(super) fn run(setup: &Setup, percent: f64) -> Result<Report, SimulateError> {
    let mut report = Report::default();
    let mut cases = Vec::new();
    for (differing, name) in [
        (Differing::Workers, "workers"),
        (Differing::Requests, "requests"),
    ] {
        let plan = |clients, queueing| plan(setup, differing.workers(percent), clients, queueing);
        let mut by_clients = Vec::new();
        for clients in CLIENTS {
            let runs = compare(setup, &plan(clients, Queueing::Delay))?;
            by_clients.push((clients, runs));
        }
        let words = format!("{} by ±{percent} %", differing.words());
        report.tables.push(unevenness(&words, &by_clients));
        let chart = chart(&words, &by_clients);
        report.charts.push(NamedChart { name, chart });
        for (queueing, of) in [(Queueing::Delay, "delay"), (Queueing::Fifo, "fifo")] {
            let runs = compare(setup, &plan(CLIENTS_OF_CLAIMS, queueing))?;
            cases.push((format!("{}, {of}", differing.words()), runs));
        }
    }
    report.tables.extend(p99(percent, &cases));
    report.notes.push(restless_note());
    Ok(report)
}

fn plan(setup: &Setup, workers: [WorkerPlan; 4], clients: u32, queueing: Queueing) -> Plan {
    Plan {
        policy: restless(),
        workers: workers.to_vec(),
        queueing,
        arrivals: Arrivals::Closed { clients },
        seconds: setup.seconds.unwrap_or(SECONDS),
        seed: setup.seed,
        heartbeat_ms: HEARTBEAT_MS,
        restart_ms: 0.0,
    }
}

pub(in crate::simulate) fn between_ends(run: &Run) -> f64 {
    let shares = run.all_shares();
    let largest = shares.iter().copied().fold(0.0, f64::max);
    let smallest = shares.iter().copied().fold(100.0, f64::min);
    largest - smallest
}

fn unevenness(words: &str, by_clients: &[(u32, Runs)]) -> Table {
    let title = format!(
        "The largest share less the smallest, in %, by clients; {words}. The source: near-uniform."
    );
    let mut table = Table::new(title, &["strategy"]);
    for (clients, runs) in by_clients {
        table.columns.push(clients.to_string());
        extend(&mut table, runs, between_ends);
    }
    table
}

/// A column with one figure of each run.
fn extend(table: &mut Table, runs: &Runs, figure: fn(&Run) -> f64) {
    for (number, (name, run)) in runs.iter().enumerate() {
        if table.rows.len() == number {
            table.rows.push(vec![Cell::text(name.as_str())]);
        }
        table.rows[number].push(Cell::tenths(figure(run)));
    }
}

/// The p99 of each strategy, and how much lower that of `sewt` is.
fn p99(percent: f64, cases: &[(String, Runs)]) -> [Table; 2] {
    let title = format!("±{percent} %: p99 in ms, {CLIENTS_OF_CLAIMS} clients.");
    let mut figures = Table::new(title, &["strategy"]);
    let title = format!("±{percent} %: by how many percent sewt lowers that p99.");
    let mut claims = Table::new(title, &["against", "source"]);
    claims.rows = [("least_connections", "0–5"), ("round_robin", "10–15")]
        .map(|(other, claim)| vec![Cell::text(other), Cell::text(claim)])
        .to_vec();
    for (words, runs) in cases {
        figures.columns.push(words.clone());
        claims.columns.push(words.clone());
        extend(&mut figures, runs, p99_ms);
        for (row, other) in claims
            .rows
            .iter_mut()
            .zip(["least_connections", "round_robin"])
        {
            row.push(lowered(runs, other).map_or(Cell::Nothing, Cell::tenths));
        }
    }
    [figures, claims]
}

fn p99_ms(run: &Run) -> f64 {
    run.latency().map_or(0.0, |latency| latency.p99_ms)
}

fn lowered(runs: &Runs, other: &str) -> Option<f64> {
    let p99_of = |strategy: &str| {
        let (_, run) = runs.iter().find(|(name, _)| name == strategy)?;
        Some(p99_ms(run))
    };
    Some((1.0 - p99_of("sewt")? / p99_of(other)?) * 100.0)
}

fn chart(words: &str, by_clients: &[(u32, Runs)]) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    for (clients, runs) in by_clients {
        for (name, run) in runs {
            let point = (f64::from(*clients), between_ends(run));
            Series::add(&mut series, name, point);
        }
    }
    Chart {
        title: format!("Four workers of 20 ms; {words}"),
        x_label: "clients".into(),
        y_label: "largest less smallest share, %".into(),
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
        series,
    }
}
