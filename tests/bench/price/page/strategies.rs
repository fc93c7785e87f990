//! What `make bench-choose` and `make bench-sewt` have kept: lists of rows, each with its strategy.

use super::table::{Table, grouped};
use super::{charts, of};
use serde_json::Value;

/// What reads every worker on every decision.
const SCAN: &str = "source_scan";
const SIZES: [f64; 4] = [10.0, 100.0, 1_000.0, 10_000.0];
const CLIENTS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

/// A row's figure, by two of its others.
fn figure(rows: &Value, strategy: &str, by: (&str, f64), name: &str) -> f64 {
    let (what, value) = by;
    let rows = rows.as_array().into_iter().flatten();
    let mut rows = rows.filter(|row| row["strategy"] == strategy && of(row, what) == value);
    rows.next().map_or(f64::NAN, |row| of(row, name))
}

pub(super) fn choose(rows: &Value) -> String {
    let rate = |strategy: &str, workers| figure(rows, strategy, ("workers", workers), "per_second");
    let mut table = Table::new(&[
        "workers",
        "10",
        "100",
        "1,000",
        "10,000",
        "10,000 to 10",
        "1,000 to the scan",
    ]);
    for strategy in charts::strategies(rows) {
        let mut cells = vec![format!("`{strategy}`")];
        cells.extend(SIZES.map(|workers| grouped(rate(&strategy, workers))));
        let flat = figure(rows, &strategy, ("workers", 10.0), "largest_to_smallest");
        cells.push(format!("{flat:.2}"));
        let compared = rate(&strategy, 1_000.0) / rate(SCAN, 1_000.0);
        cells.push(format!("{compared:.1}"));
        table.row(cells);
    }
    let bursts = (charts::strategies(rows).into_iter())
        .map(|strategy| figure(rows, &strategy, ("workers", 10.0), "bursts"));
    let most = bursts.clone().fold(f64::NAN, f64::max);
    let fewest = bursts.fold(f64::NAN, f64::min);
    format!(
        "## Choosing\n\n\
         Choices per second of one Redis, asked by redis-benchmark over 16 connections in pipelines of 16: a worker is chosen \
         and ranked anew, without a lease; medians of {fewest} to {most} bursts, sizes side by side, in as many rounds as \
         three minutes allow (most where a strategy seemed below what is asked); 10,000 to 10 is the median of what each two bursts say. `{SCAN}` reads every \
         worker on every decision, as a selector without an index does; `+ shadow …` is `round_robin` with another strategy in \
         its shadow; `sewt_by_size` tells three sizes of requests apart.\n\n{table}\n\
         ![What a choice costs](plots/bench-choose.svg)\n\n\
         What it means to an operator: a choice costs as good as the same however many workers there are, so a pool may be as \
         large as you like. It is a part of an admission: how many of those there are is told above. A strategy in the shadow costs half of the choices per second or more: try one where there \
         is room. `make bench-choose` fails below 0.8 in the last column but one, and below 60 in the last (30 for `score` and \
         `sewt_by_size`, which rank a worker in three indexes; nothing is promised of shadows).\n"
    )
}

pub(super) fn sewt(rows: &Value) -> String {
    let contenders = [
        "round_robin",
        "least_connections",
        "sewt",
        "envoy_least_request",
    ];
    let mut head = vec!["clients"];
    head.extend(contenders);
    let mut table = Table::new(&head);
    for clients in CLIENTS {
        let mut cells = vec![grouped(clients)];
        cells.extend(contenders.map(|contender| {
            let of = |name| figure(rows, contender, ("clients", clients), name);
            format!("{}, {}", grouped(of("mean_ms")), grouped(of("throughput")))
        }));
        table.row(cells);
    }
    let delays = rows[0]["delays_ms"].as_array().into_iter().flatten();
    let delays: Vec<String> = delays.map(Value::to_string).collect();
    format!(
        "## Unlike backends\n\n\
         Four backends that answer after {} ms behind two Envoys, clients that ask again as soon as they are answered; Berth's \
         strategies in turns with Envoy's own LEAST_REQUEST on the same backends; medians of three rounds. Mean in ms, and \
         requests per second:\n\n{table}\n\
         ![Mean latency](plots/bench-sewt.svg)\n\n\
         What it means to an operator: where backends differ in speed, the strategy is worth more than all that admission \
         costs. [choosing-a-strategy.md](choosing-a-strategy.md) says which to take, with shares, p99 and what was \
         claimed.\n",
        delays.join(", ")
    )
}
