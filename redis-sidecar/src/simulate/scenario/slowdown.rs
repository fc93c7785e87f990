//! One worker slows down: does its traffic leave it?

use super::timeline;
use crate::simulate::report::{Cell, NamedChart, Report, Table};
use crate::simulate::workload::{Arrivals, Change, HEARTBEAT_MS, Plan, Queueing, WorkerPlan};
use crate::simulate::{Setup, SimulateError, compare, restless, restless_note};

const MEAN_MS: f64 = 20.0;
const SLOW_MS: f64 = 200.0;
const CLIENTS: u32 = 16;
const SECONDS: f64 = 60.0;

pub(super) fn run(setup: &Setup) -> Result<Report, SimulateError> {
    let plan = plan(setup);
    let runs = compare(setup, &plan)?;
    let columns = [
        "strategy",
        "before %",
        "first s after %",
        "after %",
        "mean ms before",
        "mean ms after",
    ];
    let mut table = Table::new(
        "The share of the worker that slows down from 20 to 200 ms, and the mean latency of all; \
         16 clients. The source: traffic leaves it.",
        &columns,
    );
    for (name, run) in &runs {
        let half_us = run.length_us / 2;
        let cell = |figure: Option<f64>| figure.map_or(Cell::Nothing, Cell::tenths);
        let share = |during| cell(run.shares(during).first().copied());
        table.rows.push(vec![
            Cell::text(name.as_str()),
            share(0..half_us),
            share(half_us..half_us + 1_000_000),
            share(half_us..run.length_us),
            cell(run.mean_ms(0..half_us)),
            cell(run.mean_ms(half_us..run.length_us)),
        ]);
    }
    let chart = timeline::chart("One of four workers slows down from 20 to 200 ms", &runs, 0);
    Ok(Report {
        tables: vec![table],
        notes: vec![restless_note()],
        charts: vec![NamedChart { name: "", chart }],
    })
}

fn plan(setup: &Setup) -> Plan {
    let seconds = setup.seconds.unwrap_or(SECONDS);
    let mut workers = [MEAN_MS; 4].map(WorkerPlan::constant);
    workers[0].change = Some(Change {
        at_ms: seconds * 1000.0 / 2.0,
        mean_ms: SLOW_MS,
    });
    Plan {
        policy: restless(),
        workers: workers.to_vec(),
        queueing: Queueing::Delay,
        arrivals: Arrivals::Closed { clients: CLIENTS },
        seconds,
        seed: setup.seed,
        heartbeat_ms: HEARTBEAT_MS,
        restart_ms: 0.0,
    }
}
