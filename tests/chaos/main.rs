//! Two Envoys, two sidecars (each the other's spare), a Redis and four workers; clients come and go,
//! and every 1 to 5 s something fails. At the end the workers' journals say whether any worker ever
//! had a session too many, and the store whether a place was lost.
//!
//! `make chaos SEED=1 MINUTES=5`
//!
//! One thing fails at a time, and the next when the fleet is well again: two at once of {store wiped,
//! holder stopped, its sidecar and spare gone} are not promised to be survived.

mod clients;
mod fault;
mod report;
mod run;
mod seeded;
mod timeline;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, Parser)]
struct Options {
    /// The same seed draws the same faults and clients; when exactly they meet is the machine's doing.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// Where the report goes; target/chaos/report.json otherwise.
    #[arg(long)]
    report: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let lasting = Duration::from_secs_f64(options.minutes * 60.0);
    let report = run::run(options.seed, lasting).await;
    let file = options.report.unwrap_or_else(report::default_file);
    report.write(&file);
    if report.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
