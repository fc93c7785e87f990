//! The plots of the page.

use super::Kept;
use redis_sidecar::plot::{Chart, Scale, Series};
use serde_json::Value;

/// Each with the name of its file.
pub(super) fn all(kept: &Kept) -> Vec<(&'static str, Chart)> {
    vec![
        ("bench-proxy", proxy(&kept.proxy)),
        ("bench-sidecar", sidecar(&kept.sidecar)),
        ("bench-scale", scale(&kept.scale)),
        ("bench-leases", leases(&kept.scale)),
        ("bench-choose", choose(&kept.choose)),
        ("bench-sewt", sewt(&kept.sewt)),
    ]
}

/// Those that a list tells of, each once, in its order.
pub(super) fn strategies(rows: &Value) -> Vec<String> {
    let rows = rows.as_array().into_iter().flatten();
    let mut names: Vec<String> = rows
        .filter_map(|row| row["strategy"].as_str().map(str::to_owned))
        .collect();
    names.dedup();
    names
}

/// A line for each strategy of a list.
fn by_strategy(rows: &Value, x: &str, y: &str) -> Vec<Series> {
    let all = rows.as_array().cloned().unwrap_or_default();
    let of = |name: String| {
        let mine = all.iter().filter(|row| row["strategy"] == name.as_str());
        line(&name, &mine.cloned().collect(), x, y)
    };
    strategies(rows).into_iter().map(of).collect()
}

/// Of many that lie on one another, those that stand for the others; and the scan, which does not.
const CHOOSING_DRAWN: [&str; 6] = [
    "round_robin",
    "random",
    "sewt",
    "score",
    "+ shadow random",
    "source_scan",
];

fn choose(rows: &Value) -> Chart {
    let mut series = by_strategy(rows, "workers", "per_second");
    series.retain(|line| CHOOSING_DRAWN.contains(&&*line.name));
    Chart {
        title: "What a choice costs".into(),
        x_label: "workers".into(),
        y_label: "choices per second".into(),
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        series,
    }
}

fn sewt(rows: &Value) -> Chart {
    Chart {
        title: "Mean latency on backends of unlike speed".into(),
        x_label: "closed-loop clients".into(),
        y_label: "mean, ms".into(),
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
        series: by_strategy(rows, "clients", "mean_ms"),
    }
}

/// The doors of `make bench-proxy`, as its JSON names them.
pub(super) const DOORS: [&str; 9] = [
    "plain",
    "ext_authz_trivial",
    "ext_authz",
    "lua_admit_only",
    "lua",
    "berth",
    "berth_unix_socket",
    "plain_connection_each",
    "berth_as_shipped",
];

fn proxy(figures: &Value) -> Chart {
    // As good as `berth`, and there are eight colours.
    let drawn = DOORS.into_iter().filter(|it| *it != "berth_unix_socket");
    let series = drawn.map(|door| {
        let rounds = figures[door]["envoy_cpu_s_per_1000_by_round"].as_array();
        let rounds = rounds.into_iter().flatten().filter_map(Value::as_f64);
        Series {
            name: door.to_owned(),
            points: (1..)
                .zip(rounds)
                .map(|(round, seconds)| (f64::from(round), seconds * 1000.0))
                .collect(),
        }
    });
    Chart {
        title: "Envoy's CPU for a request".into(),
        x_label: "round".into(),
        y_label: "µs".into(),
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        series: series.collect(),
    }
}

fn sidecar(figures: &Value) -> Chart {
    let lines = [
        ("script that does nothing", "redis_benchmark_nothing_per_s"),
        ("redis-benchmark", "redis_benchmark_admissions_per_s"),
        ("sidecar, in groups", "sidecar_admissions_per_s"),
        (
            "sidecar, asked together",
            "sidecar_together_admissions_per_s",
        ),
        ("sidecar, with releases", "sidecar_pairs_per_s"),
    ];
    Chart {
        title: "Admissions per second".into(),
        x_label: "questions at once".into(),
        y_label: "per second".into(),
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        series: lines
            .map(|(name, figure)| line(name, &figures["concurrencies"], "concurrency", figure))
            .into(),
    }
}

fn scale(figures: &Value) -> Chart {
    Chart {
        title: "Redis' CPU for a decision, three shards".into(),
        x_label: "workers of a pool, or pools of 100 workers".into(),
        y_label: "µs".into(),
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
        series: vec![
            line("workers", &figures["workers"], "count", "us"),
            line("pools", &figures["pools"], "count", "us"),
        ],
    }
}

fn leases(figures: &Value) -> Chart {
    Chart {
        title: "Decisions for a second of Redis' CPU".into(),
        x_label: "leases that are there".into(),
        y_label: "admissions with their releases".into(),
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
        series: vec![line("decisions", &figures["leases"], "leases", "per_cpu_s")],
    }
}

fn line(name: &str, rows: &Value, x: &str, y: &str) -> Series {
    let rows = rows.as_array().into_iter().flatten();
    Series {
        name: name.to_owned(),
        points: rows
            .filter_map(|row| Some((row[x].as_f64()?, row[y].as_f64()?)))
            .collect(),
    }
}
