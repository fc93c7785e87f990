//! `make bench-sewt`: what `sewt` is for, on real backends. Four workers of different speed stand
//! behind two Envoys; clients ask again as soon as they are answered. Berth's strategies take turns
//! with Envoy's own LEAST_REQUEST on the same workers; rounds are interleaved, medians are told.
//!
//! Writes target/bench/sewt.json and sewt.svg. The machine's speed means nothing; the ratios do.

mod claims;
mod clients;
mod cpu;
mod report;

use admission::policy::{Policy, Strategy};
use clap::Parser;
use clients::Load;
use futures_util::future::try_join_all;
use harness::http::Failure;
use harness::{Fleet, RunningFleet};
use report::{Backends, Figures, Verdict};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// The backends of the source's example, the fastest first.
const DELAYS_MS: [u64; 4] = [5, 10, 50, 100];
const CLIENTS: [usize; 6] = [1, 2, 4, 8, 16, 32];
const ROUNDS: usize = 3;
/// Nobody is turned away: all clients would fit on one worker.
const MAX_CONCURRENT: u32 = 64;
/// Clients ask for so long, and for the slowest backend's delay on top of it, before it counts.
const WARM_UP: Duration = Duration::from_millis(300);
/// Busier than this, and requests wait for the CPU rather than for their backend.
const SATURATED: f64 = 0.85;
/// The least busy of so many counts: something else may have run meanwhile.
const TRIALS: usize = 2;
/// By how much the delays grow then: a quarter of the requests, each as long as four.
const RELIEF: u64 = 4;

/// Measures strategies on backends of 5, 10, 50 and 100 ms.
#[derive(Debug, Parser)]
struct Flags {
    /// Multiply all delays by this; by default 1, or 4 if the CPU saturates
    #[arg(long)]
    scale: Option<u64>,
    /// Cargo says it to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// How long it counts. Few clients need longer until every backend had its turns, and what is judged
/// shall not hang on a moment. All measurements together stay below three minutes.
fn window(clients: usize) -> Duration {
    Duration::from_millis(match clients {
        1 => 2000,
        2 => 1400,
        report::JUDGED_CLIENTS => 1200,
        _ => 900,
    })
}

/// Who chooses the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Contender {
    RoundRobin,
    LeastConnections,
    Sewt,
    EnvoyLeastRequest,
}

impl Contender {
    const ALL: [Self; 4] = [
        Self::RoundRobin,
        Self::LeastConnections,
        Self::Sewt,
        Self::EnvoyLeastRequest,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::LeastConnections => "least_connections",
            Self::Sewt => "sewt",
            Self::EnvoyLeastRequest => "envoy_least_request",
        }
    }

    /// Berth's strategy; none where Berth is not asked.
    fn strategy(self) -> Option<Strategy> {
        match self {
            Self::RoundRobin => Some(Strategy::RoundRobin),
            Self::LeastConnections => Some(Strategy::LeastConnections),
            Self::Sewt => Some(Strategy::Sewt),
            Self::EnvoyLeastRequest => None,
        }
    }
}

/// The fleet, and how much slower than in the source's example its workers are.
struct Track {
    fleet: RunningFleet,
    scale: u64,
    /// How busy the CPU was with the source's own delays, where that was too much.
    saturated: Option<f64>,
}

impl Track {
    async fn raise(scale: u64) -> Self {
        let fleet = Fleet::new()
            .impatient()
            .envoys(2)
            .workers(DELAYS_MS.len())
            .delays_ms(&DELAYS_MS.map(|delay| delay * scale))
            .max_concurrent(MAX_CONCURRENT)
            .policy(|policy| {
                policy.strategy = Strategy::Sewt;
                policy.max_lifetime = 0;
            })
            .filter(|filter| filter["admit"] = json!("everything"))
            .heartbeat_ms(1000)
            .least_request();
        Self {
            fleet: fleet.up().await,
            scale,
            saturated: None,
        }
    }

    /// The delays as they are, unless the CPU cannot keep up with the quickest strategy.
    async fn raise_within_cpu() -> Result<Self, Failure> {
        let track = Self::raise(1).await;
        let most = CLIENTS[CLIENTS.len() - 1];
        let mut busy = 1.0_f64;
        for _ in 0..TRIALS {
            busy = busy.min(track.measure(Contender::Sewt, most).await?.cpu_busy);
        }
        eprintln!(
            "sewt with {most} clients keeps the CPU {:.0} % busy",
            busy * 100.0
        );
        if busy <= SATURATED {
            return Ok(track);
        }
        eprintln!("that is saturated: all delays times {RELIEF}");
        drop(track);
        Ok(Self {
            saturated: Some(busy),
            ..Self::raise(RELIEF).await
        })
    }

    async fn measure(&self, contender: Contender, clients: usize) -> Result<Figures, Failure> {
        // Leases of another measurement would count as load in this one.
        let idle = "every lease is given back";
        self.fleet.sees(idle, |pool| pool.active == 0).await;
        if let Some(strategy) = contender.strategy() {
            let policy = self.fleet.view().await.policy;
            let policy = Policy { strategy, ..policy };
            self.fleet.api().set_policy(&policy).await?;
        }
        if contender == Contender::Sewt {
            self.introduce().await?;
        }
        let slowest = Duration::from_millis(DELAYS_MS[DELAYS_MS.len() - 1] * self.scale);
        let load = Load {
            clients,
            envoys: self.doors(contender),
            warm_up: WARM_UP + slowest,
            window: window(clients),
        };
        let (answers, cpu_busy) = load.drive().await?;
        Ok(Figures::of(&answers, window(clients), cpu_busy))
    }

    /// A new policy starts without estimates: until the slowest backend has answered for the first
    /// time it looks like the fastest, and everybody waits for it. So each answers once before.
    async fn introduce(&self) -> Result<(), Failure> {
        let doors = self.doors(Contender::Sewt);
        let doors = doors.iter().cycle().take(DELAYS_MS.len());
        try_join_all(doors.map(|envoy| clients::ask_once(*envoy))).await?;
        let known = "every answer is known";
        self.fleet.sees(known, |pool| pool.active == 0).await;
        Ok(())
    }

    fn doors(&self, contender: Contender) -> Vec<SocketAddr> {
        let envoys = self.fleet.envoys.iter();
        match contender {
            Contender::EnvoyLeastRequest => {
                envoys.filter_map(|envoy| envoy.least_request()).collect()
            }
            Contender::RoundRobin | Contender::LeastConnections | Contender::Sewt => {
                envoys.map(|envoy| envoy.listen()).collect()
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(&Flags::parse()).await {
        Ok(Verdict::Met) => ExitCode::SUCCESS,
        Ok(Verdict::Missed) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench-sewt: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: &Flags) -> Result<Verdict, Failure> {
    let track = match flags.scale {
        Some(scale) => Track::raise(scale).await,
        None => Track::raise_within_cpu().await?,
    };
    let mut results: BTreeMap<(Contender, usize), Vec<Figures>> = BTreeMap::new();
    for round in 1..=ROUNDS {
        for clients in CLIENTS {
            for contender in Contender::ALL {
                let figures = track.measure(contender, clients).await?;
                results
                    .entry((contender, clients))
                    .or_default()
                    .push(figures);
            }
            eprintln!("round {round} of {ROUNDS}: {clients} clients done");
        }
    }
    let workers = track.fleet.workers.iter();
    let backends = Backends {
        workers: workers.map(|worker| worker.id().to_string()).collect(),
        scale: track.scale,
        saturated: track.saturated,
    };
    report::report(&results, &backends)
}
