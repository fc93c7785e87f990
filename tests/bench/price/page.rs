//! docs/benchmarks.md and its plots, from what the parts have kept.

#[path = "page/charts.rs"]
mod charts;
#[path = "page/sections.rs"]
mod sections;
#[path = "page/strategies.rs"]
mod strategies;
#[path = "page/table.rs"]
mod table;

use crate::claims::{Claim, Verdict};
use crate::machine::{self, Machine};
use harness::http::Failure;
use harness::paths;
use serde_json::Value;
use table::{Table, grouped};

/// What the page tells of, in its order.
const PARTS: [&str; 6] = ["proxy", "sidecar", "websocket", "scale", "choose", "sewt"];

/// What the parts have kept. The last two are plain lists, without a machine and without claims.
struct Kept {
    proxy: Value,
    sidecar: Value,
    websocket: Value,
    scale: Value,
    choose: Value,
    sewt: Value,
}

fn of(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or(f64::NAN)
}

pub(crate) fn write() -> Result<Verdict, Failure> {
    let [proxy, sidecar, websocket, scale, choose, sewt] = PARTS.map(machine::kept);
    let kept = Kept {
        proxy: proxy?,
        sidecar: sidecar?,
        websocket: websocket?,
        scale: scale?,
        choose: choose?,
        sewt: sewt?,
    };
    let plots = paths::top().join("docs/plots");
    for (name, chart) in charts::all(&kept) {
        chart.write_svg(&plots.join(format!("{name}.svg")))?;
    }
    let page = [
        INTRODUCTION.to_owned(),
        machine_of(&kept)?,
        verdicts(&kept)?,
        sections::proxy(&kept.proxy),
        sections::sidecar(&kept.sidecar),
        sections::websocket(&kept.websocket),
        sections::scale(&kept.scale),
        strategies::choose(&kept.choose),
        strategies::sewt(&kept.sewt),
    ];
    std::fs::write(paths::top().join("docs/benchmarks.md"), page.join("\n"))?;
    Ok(Verdict::Met)
}

const INTRODUCTION: &str = "# What exactness costs

`make bench` writes this page; do not edit it. Every figure stands beside its peer: the same work done by what
would be used instead, measured in the same run, in turns, on the same machine. The machine's speed means nothing;
the ratios do. Where several processes share few cores, CPU time says more than the clock: it is what
each process's own CPU clock says, and whoever asks is counted apart.
";

fn machine_of(kept: &Kept) -> Result<String, Failure> {
    let machine: Machine = serde_json::from_value(kept.proxy["machine"].clone())?;
    let mut commands = Table::new(&["command", "writes", "load before it began"]);
    let parts = [
        &kept.proxy,
        &kept.sidecar,
        &kept.websocket,
        &kept.scale,
        &kept.choose,
        &kept.sewt,
    ];
    for (part, kept) in PARTS.into_iter().zip(parts) {
        let load = match kept["machine"]["load_before"].as_f64() {
            Some(load) => format!("{load:.1}"),
            None => "not kept".into(),
        };
        commands.row([
            format!("`make bench-{part}`"),
            format!("`target/bench/{part}.json`"),
            load,
        ]);
    }
    Ok(format!(
        "## The machine\n\n{} with {} cores, {} GiB of memory, Linux {}; Envoy {}, Redis {}, {}, release builds, a \
         filter of {} bytes. Everything ran on it: the processes that are measured, and those that asked them. The load \
         is that of the minute before a part began: one that follows another at once shows that one's. Where it is well above two, others used \
         the machine too, and rates and times are worse than they need be.\n\n{commands}",
        machine.cpu,
        machine.cores,
        machine.memory_gib,
        machine.kernel,
        machine.envoy,
        machine.redis,
        machine.berth,
        grouped(machine.filter_bytes as f64),
    ))
}

fn verdicts(kept: &Kept) -> Result<String, Failure> {
    let mut table = Table::new(&["what is asked", "asked", "measured", ""]);
    for kept in [&kept.proxy, &kept.sidecar, &kept.websocket, &kept.scale] {
        let claims: Vec<Claim> = serde_json::from_value(kept["claims"].clone())?;
        for claim in claims {
            table.row([
                claim.what.clone(),
                claim.asked(),
                grouped(claim.measured),
                claim.verdict().to_owned(),
            ]);
        }
    }
    Ok(format!(
        "## What is asked, and what was measured\n\nBerth is `berth` of the table of proxies, before a cluster like its peers'; what is told of few \
         clients, of `berth_as_shipped`, of the sidecar at 1 and 4 at once and of many pools is not judged.\n\n{table}"
    ))
}
