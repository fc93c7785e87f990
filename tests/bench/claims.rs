//! What was promised, beside what was measured.

use crate::Contender;
use crate::report::{JUDGED_CLIENTS, Row, row};

/// What the source promises for a strategy on these backends, and what follows from calculation for
/// sixteen clients and backends that do nothing but wait.
struct Claim {
    contender: Contender,
    mean_ms: &'static str,
    calculated_ms: &'static str,
    p99_ms: &'static str,
    throughput: &'static str,
    to_the_fast: &'static str,
}

const CLAIMS: [Claim; 4] = [
    Claim {
        contender: Contender::RoundRobin,
        mean_ms: "41",
        calculated_ms: "41",
        p99_ms: "100",
        throughput: "48",
        to_the_fast: "25",
    },
    Claim {
        contender: Contender::LeastConnections,
        mean_ms: "30",
        calculated_ms: "12",
        p99_ms: "85",
        throughput: "60",
        to_the_fast: "40-50",
    },
    Claim {
        contender: Contender::Sewt,
        mean_ms: "10",
        calculated_ms: "6.9",
        p99_ms: "25",
        throughput: "90",
        to_the_fast: "70-80",
    },
    Claim {
        contender: Contender::EnvoyLeastRequest,
        mean_ms: "-",
        calculated_ms: "-",
        p99_ms: "-",
        throughput: "-",
        to_the_fast: "-",
    },
];

pub(crate) fn beside(rows: &[Row], scale: u64) -> String {
    let scale = scale as f64;
    let brought_back = match scale {
        1.0 => String::new(),
        scale => format!(", times divided and rates multiplied by {scale}"),
    };
    let mut lines = vec![
        format!("at {JUDGED_CLIENTS} clients{brought_back}, beside what the source claims"),
        format!(
            "{:>19} {:>8} {:>7} {:>10} {:>8} {:>7} {:>8} {:>7} {:>10} {:>7}",
            "",
            "mean ms",
            "claimed",
            "calculated",
            "p99 ms",
            "claimed",
            "per s",
            "claimed",
            "% to fast",
            "claimed"
        ),
    ];
    for claim in CLAIMS {
        let Some(row) = row(rows, claim.contender, JUDGED_CLIENTS) else {
            continue;
        };
        lines.push(format!(
            "{:>19} {:>8.1} {:>7} {:>10} {:>8.1} {:>7} {:>8.0} {:>7} {:>10.0} {:>7}",
            claim.contender.name(),
            row.mean_ms / scale,
            claim.mean_ms,
            claim.calculated_ms,
            row.p99_ms / scale,
            claim.p99_ms,
            row.throughput * scale,
            claim.throughput,
            row.to_the_fast() * 100.0,
            claim.to_the_fast
        ));
    }
    lines.join("\n")
}
