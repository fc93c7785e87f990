//! Figures of one measurement, and what all of them say.

use crate::claims;
use crate::clients::Answer;
use crate::{CLIENTS, Contender, DELAYS_MS, SATURATED};
use harness::http::Failure;
use harness::paths;
use redis_sidecar::plot::{Chart, Scale, Series};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where the ratios are judged.
pub(crate) const JUDGED_CLIENTS: usize = 16;
/// What sewt's mean may be of another's.
const RATIOS_MAX: [(Contender, f64); 2] = [
    (Contender::LeastConnections, 0.70),
    (Contender::EnvoyLeastRequest, 0.60),
];

pub(crate) struct Figures {
    mean_ms: f64,
    p99_ms: f64,
    throughput: f64,
    pub(crate) cpu_busy: f64,
    served: BTreeMap<String, usize>,
    refusals: usize,
}

impl Figures {
    pub(crate) fn of(answers: &[Answer], window: Duration, cpu_busy: f64) -> Self {
        let mut times: Vec<f64> = (answers.iter())
            .map(|answer| answer.took.as_secs_f64() * 1000.0)
            .collect();
        times.sort_by(f64::total_cmp);
        let mut served = BTreeMap::new();
        for answer in answers {
            *served.entry(answer.worker.clone()).or_default() += 1;
        }
        let rank = (times.len() * 99).div_ceil(100).saturating_sub(1);
        Self {
            mean_ms: times.iter().sum::<f64>() / times.len() as f64,
            p99_ms: times.get(rank).copied().unwrap_or(f64::NAN),
            throughput: times.len() as f64 / window.as_secs_f64(),
            cpu_busy,
            served,
            refusals: answers.iter().map(|answer| answer.refusals).sum(),
        }
    }
}

pub(crate) enum Verdict {
    Met,
    Missed,
}

/// A line of sewt.json.
#[derive(Serialize)]
pub(crate) struct Row {
    strategy: Contender,
    clients: usize,
    pub(crate) mean_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) throughput: f64,
    /// Of all requests, by backend in the order of `delays_ms`.
    share: Vec<f64>,
    delays_ms: [u64; 4],
    cpu_busy: f64,
    refusals: usize,
}

impl Row {
    pub(crate) fn to_the_fast(&self) -> f64 {
        self.share.iter().take(2).sum()
    }
}

/// What the backends were.
pub(crate) struct Backends {
    pub(crate) workers: Vec<String>,
    pub(crate) scale: u64,
    /// Why the delays are not the source's: so busy was the CPU with those.
    pub(crate) saturated: Option<f64>,
}

impl Backends {
    fn delays_ms(&self) -> [u64; 4] {
        DELAYS_MS.map(|delay| delay * self.scale)
    }

    fn describe(&self) -> String {
        let delays = self.delays_ms().map(|delay| delay.to_string()).join(", ");
        match (self.scale, self.saturated) {
            (1, _) => format!("backends of {delays} ms"),
            (scale, None) => format!("backends of {delays} ms: all delays times {scale}"),
            (scale, Some(busy)) => format!(
                "backends of {delays} ms: all delays times {scale}, because the CPU was {:.0} % busy with the source's",
                busy * 100.0
            ),
        }
    }
}

pub(crate) fn report(
    results: &BTreeMap<(Contender, usize), Vec<Figures>>,
    backends: &Backends,
) -> Result<Verdict, Failure> {
    let rows: Vec<Row> = (results.iter())
        .map(|(&(strategy, clients), rounds)| Row {
            strategy,
            clients,
            mean_ms: median(rounds, |round| round.mean_ms),
            p99_ms: median(rounds, |round| round.p99_ms),
            throughput: median(rounds, |round| round.throughput),
            share: shares(rounds, &backends.workers),
            delays_ms: backends.delays_ms(),
            cpu_busy: median(rounds, |round| round.cpu_busy),
            refusals: rounds.iter().map(|round| round.refusals).sum(),
        })
        .collect();
    let directory = paths::top().join("target/bench");
    std::fs::create_dir_all(&directory)?;
    let list = serde_json::to_string_pretty(&rows)?;
    std::fs::write(directory.join("sewt.json"), list)?;
    chart(&rows, backends).write_svg(&directory.join("sewt.svg"))?;
    Ok(print(&rows, backends))
}

fn median(rounds: &[Figures], figure: impl Fn(&Figures) -> f64) -> f64 {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    rounded(figures[figures.len() / 2])
}

fn shares(rounds: &[Figures], workers: &[String]) -> Vec<f64> {
    let served = |worker: &String| -> usize {
        let rounds = rounds.iter();
        rounds.filter_map(|round| round.served.get(worker)).sum()
    };
    let total: usize = workers.iter().map(served).sum();
    let share = |worker| rounded(served(worker) as f64 / total as f64);
    workers.iter().map(share).collect()
}

/// What lies beyond is noise.
fn rounded(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

fn chart(rows: &[Row], backends: &Backends) -> Chart {
    let series = |strategy: Contender| Series {
        name: strategy.name().into(),
        points: (rows.iter().filter(|row| row.strategy == strategy))
            .map(|row| (row.clients as f64, row.mean_ms))
            .collect(),
    };
    let delays = backends.delays_ms().map(|delay| delay.to_string());
    Chart {
        title: format!("Mean latency on backends of {} ms", delays.join(", ")),
        x_label: "closed-loop clients".into(),
        y_label: "mean, ms".into(),
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
        series: Contender::ALL.map(series).into(),
    }
}

/// A figure as the tables show it.
type Show = fn(&Row) -> String;

#[expect(clippy::print_stdout, reason = "the tables are what was asked for")]
fn print(rows: &[Row], backends: &Backends) -> Verdict {
    println!("{}", backends.describe());
    let sections: [(&str, Show); 5] = [
        ("mean, ms", |row| format!("{:.1}", row.mean_ms)),
        ("p99, ms", |row| format!("{:.1}", row.p99_ms)),
        ("requests per second", |row| {
            format!("{:.0}", row.throughput)
        }),
        ("% of requests by backend, the fastest first", |row| {
            let shares = row.share.iter().copied();
            shares.map(percent).collect::<Vec<_>>().join("/")
        }),
        ("% of the CPU that was busy", |row| percent(row.cpu_busy)),
    ];
    for (title, figure) in sections {
        println!("\n{title}\n{}", table(rows, figure));
    }
    println!("\n{}", claims::beside(rows, backends.scale));
    let busiest = rows.iter().map(|row| row.cpu_busy).fold(0.0, f64::max);
    if busiest > SATURATED {
        println!(
            "\nThe CPU was up to {} % busy, with this and whatever else ran: such means are too high.",
            percent(busiest)
        );
    }
    let refusals: usize = rows.iter().map(|row| row.refusals).sum();
    if refusals > 0 {
        println!("\n{refusals} times a client was refused and asked again; the means contain it.");
    }
    let (text, verdict) = judge(rows);
    println!("\n{text}");
    verdict
}

fn percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

/// One row for each number of clients, one column for each contender.
fn table(rows: &[Row], figure: Show) -> String {
    let mut lines = vec![format!("{:>8}", "clients")];
    lines.extend(CLIENTS.map(|clients| format!("{clients:>8}")));
    for contender in Contender::ALL {
        lines[0].push_str(&format!(" {:>19}", contender.name()));
        for (line, clients) in lines.iter_mut().skip(1).zip(CLIENTS) {
            let figure = row(rows, contender, clients).map(figure);
            line.push_str(&format!(" {:>19}", figure.unwrap_or_default()));
        }
    }
    lines.join("\n")
}

pub(crate) fn row(rows: &[Row], contender: Contender, clients: usize) -> Option<&Row> {
    let wanted = |row: &&Row| row.strategy == contender && row.clients == clients;
    rows.iter().find(wanted)
}

fn judge(rows: &[Row]) -> (String, Verdict) {
    let mean = |contender| row(rows, contender, JUDGED_CLIENTS).map_or(f64::NAN, |row| row.mean_ms);
    let (mut lines, mut verdict) = (Vec::new(), Verdict::Met);
    for (contender, ratio_max) in RATIOS_MAX {
        let ratio = mean(Contender::Sewt) / mean(contender);
        let word = if ratio <= ratio_max {
            "met"
        } else {
            verdict = Verdict::Missed;
            "MISSED"
        };
        lines.push(format!(
            "sewt's mean to {}'s at {JUDGED_CLIENTS} clients: {ratio:.2}, at most {ratio_max:.2}: {word}",
            contender.name()
        ));
    }
    (lines.join("\n"), verdict)
}
