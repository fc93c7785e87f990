//! Workers of very different speed: what `sewt` is for.

use crate::plot::{Chart, Scale, Series};
use crate::simulate::report::{Cell, NamedChart, Report, Table};
use crate::simulate::run::Run;
use crate::simulate::workload::{Arrivals, HEARTBEAT_MS, Plan, Queueing, WorkerPlan};
use crate::simulate::{Setup, SimulateError, compare, restless, restless_note};

const WORKERS_MS: [f64; 4] = [5.0, 10.0, 50.0, 100.0];
const CLIENTS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// The source does not say how many clients it means.
const CLIENTS_OF_CLAIMS: u32 = 16;
const SECONDS: f64 = 30.0;

/// The figures of one strategy, for each number of clients.
struct Line {
    strategy: String,
    figures: Vec<Figures>,
}

struct Figures {
    clients: u32,
    mean_ms: f64,
    p99_ms: f64,
    per_s: f64,
    fast_percent: f64,
}

struct Figure {
    name: &'static str,
    of: fn(&Figures) -> f64,
}

const MEAN: Figure = Figure {
    name: "mean ms",
    of: |figures| figures.mean_ms,
};
const P99: Figure = Figure {
    name: "p99 ms",
    of: |figures| figures.p99_ms,
};
const PER_S: Figure = Figure {
    name: "requests per s",
    of: |figures| figures.per_s,
};
const FAST: Figure = Figure {
    name: "% to the two fast",
    of: |figures| figures.fast_percent,
};

struct Claim {
    figure: Figure,
    strategy: &'static str,
    text: &'static str,
    low: f64,
    high: f64,
}

const fn claim(
    figure: Figure,
    strategy: &'static str,
    text: &'static str,
    low: f64,
    high: f64,
) -> Claim {
    Claim {
        figure,
        strategy,
        text,
        low,
        high,
    }
}

/// The source's own ranges where it gives them, else 10 % around its figure.
const CLAIMS: [Claim; 12] = [
    claim(MEAN, "round_robin", "41.25", 41.0, 41.5),
    claim(MEAN, "least_connections", "30 (25–35)", 25.0, 35.0),
    claim(MEAN, "sewt", "10 (8–12)", 8.0, 12.0),
    claim(P99, "round_robin", "100 or more", 100.0, f64::MAX),
    claim(P99, "least_connections", "85 (80–90)", 80.0, 90.0),
    claim(P99, "sewt", "25 (20–30)", 20.0, 30.0),
    claim(PER_S, "round_robin", "48", 43.0, 53.0),
    claim(PER_S, "least_connections", "60", 54.0, 66.0),
    claim(PER_S, "sewt", "90", 81.0, 99.0),
    claim(FAST, "round_robin", "25", 22.5, 27.5),
    claim(FAST, "least_connections", "40–50", 40.0, 50.0),
    claim(FAST, "sewt", "70–80", 70.0, 80.0),
];

pub(super) fn run(setup: &Setup) -> Result<Report, SimulateError> {
    let mut report = Report::default();
    for (queueing, name, words) in [
        (Queueing::Delay, "delay", "latency does not depend on load"),
        (Queueing::Fifo, "fifo", "requests queue for one server each"),
    ] {
        let lines = lines(setup, queueing)?;
        for figure in [MEAN, P99, PER_S, FAST] {
            report.tables.push(by_clients(&figure, words, &lines));
        }
        report.tables.push(claims(words, &lines));
        report.charts.push(NamedChart {
            name,
            chart: chart(words, &lines),
        });
    }
    report.notes.push(restless_note());
    Ok(report)
}

fn plan(setup: &Setup, queueing: Queueing, clients: u32) -> Plan {
    Plan {
        policy: restless(),
        workers: WORKERS_MS.map(WorkerPlan::constant).to_vec(),
        queueing,
        arrivals: Arrivals::Closed { clients },
        seconds: setup.seconds.unwrap_or(SECONDS),
        seed: setup.seed,
        heartbeat_ms: HEARTBEAT_MS,
        restart_ms: 0.0,
    }
}

fn lines(setup: &Setup, queueing: Queueing) -> Result<Vec<Line>, SimulateError> {
    let mut lines: Vec<Line> = Vec::new();
    for clients in CLIENTS {
        for (strategy, run) in compare(setup, &plan(setup, queueing, clients))? {
            let figures = figures(clients, &run);
            match lines.iter_mut().find(|line| line.strategy == strategy) {
                Some(line) => line.figures.extend(figures),
                None => lines.push(Line {
                    strategy,
                    figures: figures.into_iter().collect(),
                }),
            }
        }
    }
    Ok(lines)
}

fn figures(clients: u32, run: &Run) -> Option<Figures> {
    let latency = run.latency()?;
    Some(Figures {
        clients,
        mean_ms: latency.mean_ms,
        p99_ms: latency.p99_ms,
        per_s: run.per_s(),
        fast_percent: run.all_shares().iter().take(2).sum(),
    })
}

fn by_clients(figure: &Figure, words: &str, lines: &[Line]) -> Table {
    let title = format!("{} by clients, {words}.", capital(figure.name));
    let mut table = Table::new(title, &["strategy"]);
    table
        .columns
        .extend(CLIENTS.map(|clients| clients.to_string()));
    for line in lines {
        let mut row = vec![Cell::text(line.strategy.as_str())];
        row.extend(
            line.figures
                .iter()
                .map(|figures| Cell::tenths((figure.of)(figures))),
        );
        table.rows.push(row);
    }
    table
}

fn claims(words: &str, lines: &[Line]) -> Table {
    let title = format!("The source's claims, {words}.");
    let ours = format!("{CLIENTS_OF_CLAIMS} clients");
    let mut table = Table::new(
        title,
        &["figure", "strategy", "source", &ours, "holds for clients"],
    );
    for claim in &CLAIMS {
        let Some(line) = lines.iter().find(|line| line.strategy == claim.strategy) else {
            continue;
        };
        let of = claim.figure.of;
        let ours = line
            .figures
            .iter()
            .find(|figures| figures.clients == CLIENTS_OF_CLAIMS);
        let holds = |figures: &&Figures| (claim.low..=claim.high).contains(&of(figures));
        let holding = line.figures.iter().filter(holds);
        let holding: Vec<String> = holding.map(|figures| figures.clients.to_string()).collect();
        table.rows.push(vec![
            Cell::text(claim.figure.name),
            Cell::text(claim.strategy),
            Cell::text(claim.text),
            ours.map_or(Cell::Nothing, |figures| Cell::tenths(of(figures))),
            Cell::text(if holding.is_empty() {
                "none".into()
            } else {
                holding.join(", ")
            }),
        ]);
    }
    table
}

fn chart(words: &str, lines: &[Line]) -> Chart {
    let series = |line: &Line| Series {
        name: line.strategy.clone(),
        points: (line.figures.iter())
            .map(|figures| (f64::from(figures.clients), figures.mean_ms))
            .collect(),
    };
    Chart {
        title: format!("Workers of 5, 10, 50, 100 ms; {words}"),
        x_label: "clients".into(),
        y_label: "mean latency, ms".into(),
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        series: lines.iter().map(series).collect(),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
