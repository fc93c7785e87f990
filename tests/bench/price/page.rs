//! docs/benchmarks.md and its plots, from what the parts have kept.

#[path = "page/charts.rs"]
mod charts;
#[path = "page/sections.rs"]
mod sections;
#[path = "page/table.rs"]
mod table;

use crate::claims::{Claim, Verdict};
use crate::machine::{self, Machine};
use harness::http::Failure;
use harness::paths;
use serde_json::Value;
use table::{Table, grouped};

/// What the page tells of, in its order.
const PARTS: [&str; 4] = ["proxy", "sidecar", "websocket", "scale"];

/// What the parts have kept.
struct Kept {
    proxy: Value,
    sidecar: Value,
    websocket: Value,
    scale: Value,
}

pub(crate) fn write() -> Result<Verdict, Failure> {
    let [proxy, sidecar, websocket, scale] = PARTS.map(machine::kept);
    let kept = Kept {
        proxy: proxy?,
        sidecar: sidecar?,
        websocket: websocket?,
        scale: scale?,
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
    ];
    std::fs::write(paths::top().join("docs/benchmarks.md"), page.join("\n"))?;
    Ok(Verdict::Met)
}

const INTRODUCTION: &str = "# What exactness costs

`make bench` writes this page; do not edit it. Every figure stands beside its peer: the same work done by what
would be used instead, measured in the same run, in turns, on the same machine. The machine's speed means nothing;
the ratios do. Where several processes share few cores, CPU time says more than the clock: it is read from
`/proc/PID/stat` of each process, and whoever asks is counted apart.

`make bench-choose` and `make bench-sewt` measure strategies; their figures are in
[architecture.md](architecture.md) and [choosing-a-strategy.md](choosing-a-strategy.md).
";

fn machine_of(kept: &Kept) -> Result<String, Failure> {
    let machine: Machine = serde_json::from_value(kept.proxy["machine"].clone())?;
    let mut commands = Table::new(&["command", "writes", "load before it began"]);
    let parts = [&kept.proxy, &kept.sidecar, &kept.websocket, &kept.scale];
    for (part, kept) in PARTS.into_iter().zip(parts) {
        let load = kept["machine"]["load_before"].as_f64().unwrap_or(f64::NAN);
        commands.row([
            format!("`make bench-{part}`"),
            format!("`target/bench/{part}.json`"),
            format!("{load:.1}"),
        ]);
    }
    Ok(format!(
        "## The machine\n\n{} with {} cores, {} GiB of memory, Linux {}; Envoy {}, Redis {}, {}, release builds, a \
         filter of {} bytes. Everything ran on it: the processes that are measured, and those that asked them. Where the load \
         was above one before a part began, others used the machine too, and rates and times are worse than they need \
         be.\n\n{commands}",
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
        "## What is asked, and what was measured\n\n{table}"
    ))
}
