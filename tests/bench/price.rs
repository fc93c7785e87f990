//! `make bench-proxy`, `bench-sidecar`, `bench-websocket`, `bench-scale`: what exactness costs, beside
//! what would be used instead. Each part measures Berth and its peers in turns on the same machine, tells
//! medians and ratios, and writes target/bench/PART.json; `page` makes docs/benchmarks.md of these.
//!
//! The machine's speed means nothing; the ratios do. Where processes share few cores, CPU time says
//! more than the clock.

#[path = "price/answerer.rs"]
mod answerer;
#[path = "price/backend.rs"]
mod backend;
#[path = "price/claims.rs"]
mod claims;
#[path = "price/load.rs"]
mod load;
#[path = "price/machine.rs"]
mod machine;
#[path = "price/measure.rs"]
mod measure;
#[path = "price/page.rs"]
mod page;
#[path = "price/proxy.rs"]
mod proxy;
#[path = "price/scale.rs"]
mod scale;
#[path = "price/scripts.rs"]
mod scripts;
#[path = "price/sidecar.rs"]
mod sidecar;
#[path = "price/site.rs"]
mod site;
#[path = "price/websocket.rs"]
mod websocket;

use claims::Verdict;
use clap::{Parser, Subcommand};
use harness::http::Failure;
use std::process::ExitCode;

/// Measures what Berth costs beside what would be used instead.
#[derive(Debug, Parser)]
struct Flags {
    #[command(subcommand)]
    part: Part,
    /// Cargo says it to every benchmark
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Requests through one Envoy: plain, ext_authz, Lua, Berth
    Proxy,
    /// Admissions through the sidecar, beside redis-benchmark with the same script
    Sidecar,
    /// 10,000 idle WebSockets through two Envoys, with Berth and without
    Websocket,
    /// Decisions against workers, pools and leases
    Scale,
    /// Writes docs/benchmarks.md and its plots from what the parts have left in target/bench
    Page,
    #[command(hide = true)]
    Backend(backend::Flags),
    #[command(hide = true)]
    Answerer(answerer::Flags),
}

fn main() -> ExitCode {
    match run(&Flags::parse().part) {
        Ok(Verdict::Met) => ExitCode::SUCCESS,
        Ok(Verdict::Missed) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(part: &Part) -> Result<Verdict, Failure> {
    // As the sidecar runs; and the processes under test die with the thread that started them, so that must stay.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match part {
            Part::Proxy => proxy::run().await,
            Part::Sidecar => sidecar::run().await,
            Part::Websocket => websocket::run().await,
            Part::Scale => scale::run().await,
            Part::Page => page::write(),
            Part::Backend(flags) => backend::serve(flags).await,
            Part::Answerer(flags) => answerer::serve(flags).await,
        }
    })
}
