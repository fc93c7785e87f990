//! A worker joins: how soon has it its share, and is it overrun?

use super::timeline;
use crate::simulate::report::{Cell, NamedChart, Report, Table};
use crate::simulate::workload::{Arrivals, HEARTBEAT_MS, Plan, Queueing, WorkerPlan};
use crate::simulate::{Setup, SimulateError, compare, restless, restless_note};

const MEAN_MS: f64 = 20.0;
const CLIENTS: u32 = 16;
const SECONDS: f64 = 60.0;
const NEWCOMER: usize = 4;

pub(super) fn run(setup: &Setup) -> Result<Report, SimulateError> {
    let mut report = Report::default();
    for (queueing, name, words) in [
        (Queueing::Delay, "delay", "latency does not depend on load"),
        (Queueing::Fifo, "fifo", "requests queue for one server each"),
    ] {
        let runs = compare(setup, &plan(setup, queueing))?;
        let title = format!(
            "The share of a fifth worker of 20 ms; 16 clients, {words}. The source: it is taken in."
        );
        let columns = [
            "strategy",
            "first 0.1 s %",
            "first s %",
            "to the end %",
            "most at once",
        ];
        let mut table = Table::new(title, &columns);
        for (name, run) in &runs {
            let half_us = run.length_us / 2;
            let share = |for_us| {
                let shares = run.shares(half_us..half_us + for_us);
                shares
                    .get(NEWCOMER)
                    .copied()
                    .map_or(Cell::Nothing, Cell::tenths)
            };
            table.rows.push(vec![
                Cell::text(name.as_str()),
                share(100_000),
                share(1_000_000),
                share(half_us),
                Cell::whole(run.most_at_once(NEWCOMER) as f64),
            ]);
        }
        report.tables.push(table);
        let title = format!("A fifth worker of 20 ms joins four; {words}");
        let chart = timeline::chart(&title, &runs, NEWCOMER);
        report.charts.push(NamedChart { name, chart });
    }
    report.notes.push(restless_note());
    Ok(report)
}

fn plan(setup: &Setup, queueing: Queueing) -> Plan {
    let seconds = setup.seconds.unwrap_or(SECONDS);
    let mut workers = [MEAN_MS; NEWCOMER + 1].map(WorkerPlan::constant);
    workers[NEWCOMER].joins_ms = seconds * 1000.0 / 2.0;
    Plan {
        policy: restless(),
        workers: workers.to_vec(),
        queueing,
        arrivals: Arrivals::Closed { clients: CLIENTS },
        seconds,
        seed: setup.seed,
        heartbeat_ms: HEARTBEAT_MS,
        restart_ms: 0.0,
    }
}
