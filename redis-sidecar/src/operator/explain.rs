//! `berth explain`: who would be chosen now, and why not the others.

use super::{OperatorError, Sidecar};
use crate::explain::{ExplainRequest, Explanation};
use admission::id::{PoolName, WorkerId};
use admission::message::Operation;
use clap::Args;
use hyper::Method;
use std::fmt::Write as _;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Explain {
    /// Its name, as in [pools.NAME] of the sidecar's settings.
    pool: PoolName,
    /// What the request would do: query, execute or begin.
    #[arg(long, value_parser = parse_operation)]
    operation: Option<Operation>,
    /// How large the request would be.
    #[arg(long)]
    bytes: Option<u64>,
    /// The worker that the request would stand on.
    #[arg(long = "self", value_name = "WORKER")]
    own: Option<WorkerId>,
    /// Print the sidecar's answer as it is.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sidecar: Sidecar,
}

const EXAMPLES: &str = "\
Examples:
  berth explain demo
  berth explain databases --operation begin --self db-1
  berth explain uploads --bytes 200000000 --json";

fn parse_operation(text: &str) -> Result<Operation, String> {
    let known = Operation::ALL.into_iter();
    let mut known = known.filter(|operation| operation.as_str() == text);
    known
        .next()
        .ok_or_else(|| "an operation is query, execute or begin".into())
}

/// Returns what to print.
pub async fn run(explain: Explain) -> Result<String, OperatorError> {
    let request = ExplainRequest {
        bytes: explain.bytes,
        operation: explain.operation,
        own: explain.own.clone(),
    };
    let path = format!("/v1/pools/{}/explain", explain.pool);
    let client = explain.sidecar.client()?;
    let explanation: Explanation = client.send(Method::POST, &path, &request).await?;
    if explain.json {
        let text = serde_json::to_string_pretty(&explanation).unwrap_or_default();
        return Ok(text + "\n");
    }
    let mut text = tell(&explain.pool, &explanation);
    let known = |own: &WorkerId| explanation.workers.iter().any(|it| it.worker == *own);
    if let Some(own) = explain.own.filter(|own| !known(own)) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "--self {own} is no worker of this pool: the request is taken for one that stands on none"
        );
    }
    Ok(text)
}

fn tell(pool: &PoolName, explanation: &Explanation) -> String {
    let strategy = explanation.strategy.as_str();
    let chosen = match &explanation.chosen {
        Some(worker) => format!("{worker} would be chosen"),
        None => "nobody would be chosen".into(),
    };
    let mut text = format!(
        "pool {pool}, strategy {strategy}: {chosen}\n  {}\n",
        explanation.why
    );
    let rows: Vec<[String; 4]> = (explanation.workers.iter())
        .map(|worker| {
            let inputs: Vec<String> = (worker.inputs.iter())
                .map(|(name, value)| format!("{name}={}", short(*value)))
                .collect();
            [
                worker.worker.to_string(),
                worker.rank.map(short).unwrap_or_default(),
                worker.gates.join(","),
                inputs.join(" "),
            ]
        })
        .collect();
    let heading = ["worker", "rank, lowest first", "kept out by", "inputs"].map(str::to_owned);
    let width = |column: usize| {
        let cells = rows.iter().chain([&heading]);
        cells.map(|row| row[column].len()).max().unwrap_or(0)
    };
    let (first, second, third) = (width(0), width(1), width(2));
    for [worker, rank, gates, inputs] in [&heading].into_iter().chain(&rows) {
        let line = format!("{worker:first$}  {rank:>second$}  {gates:third$}  {inputs}");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Whole numbers as they are, others to four digits behind the point.
fn short(value: f64) -> String {
    if value == value.trunc() {
        format!("{value}")
    } else {
        format!("{value:.4}")
    }
}
