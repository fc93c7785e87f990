//! `berth leases`: who holds what. `berth audit`: whether the figures agree with it.

use super::{OperatorError, Sidecar};
use crate::lease_view::{Audit, LeaseView};
use admission::id::PoolName;
use clap::Args;
use serde::Serialize;
use std::fmt::Write as _;

#[derive(Debug, Args)]
pub struct Leases {
    /// Its name, as in [pools.NAME] of the sidecar's settings.
    pool: PoolName,
    /// Print the sidecar's answer as it is.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sidecar: Sidecar,
}

/// Returns what to print.
pub async fn run(leases: Leases) -> Result<String, OperatorError> {
    let path = format!("/v1/pools/{}/leases", leases.pool);
    let found: Vec<LeaseView> = leases.sidecar.client()?.get(&path).await?;
    Ok(if leases.json {
        pretty(&found)
    } else {
        table(&found)
    })
}

/// Returns what to print, and how far the figures are off in all.
pub async fn audit(leases: Leases) -> Result<(String, u64), OperatorError> {
    let path = format!("/v1/pools/{}/audit", leases.pool);
    let found: Audit = leases.sidecar.client()?.get(&path).await?;
    let text = if leases.json {
        pretty(&found)
    } else {
        tell(&leases.pool, &found)
    };
    Ok((text, found.total()))
}

fn pretty(found: &impl Serialize) -> String {
    serde_json::to_string_pretty(found).unwrap_or_default() + "\n"
}

fn tell(pool: &PoolName, found: &Audit) -> String {
    let mut text = format!(
        "pool {pool}: {} leases, {} workers, {} holders\n",
        found.leases, found.workers, found.holders
    );
    for (figure, off) in found.drift.iter().filter(|(_, off)| **off > 0) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{figure}: off by {off}");
    }
    if found.total() == 0 {
        text.push_str("all figures agree with the leases\n");
    }
    text
}

fn table(leases: &[LeaseView]) -> String {
    let heading = ["holder", "lease", "worker", "incarnation", "age", "state"].map(str::to_owned);
    let rows = leases.iter().map(|lease| {
        let incarnation = lease.incarnation.as_ref();
        [
            lease.holder.clone(),
            lease.lease.clone(),
            lease.worker.to_string(),
            incarnation.map(ToString::to_string).unwrap_or_default(),
            lease.age_ms.map(age).unwrap_or_default(),
            lease.state.as_str().to_owned(),
        ]
    });
    let rows: Vec<[String; 6]> = std::iter::once(heading).chain(rows).collect();
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

fn age(ms: f64) -> String {
    format!("{:.1} s", ms / 1000.0)
}
