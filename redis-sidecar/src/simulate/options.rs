//! The command line of `berth simulate`.

use super::workload::{Arrivals, HEARTBEAT_MS, Plan, Queueing, Spread, WorkerPlan};
use super::{Setup, SimulateError, unlimited};
use admission::policy::{Karma, MAX_CONCURRENT_MAX, Policy, Strategy};
use clap::{ArgGroup, Args};
use std::path::PathBuf;
use std::str::FromStr;

/// Every request of a run is remembered.
const REQUESTS_MAX: f64 = 50e6;
const SECONDS: f64 = 60.0;
const CLIENTS: u32 = 16;

#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("what").args(["scenario", "list", "workers"]).required(true))]
pub struct Options {
    /// Run a built-in scenario.
    #[arg(long, value_name = "NAME")]
    pub(super) scenario: Option<String>,
    /// Show the built-in scenarios.
    #[arg(long)]
    pub(super) list: bool,
    /// Run workers of your own: the mean service time of each, in ms, as in 5,10,50,100.
    #[arg(long, value_name = "MS,…", value_delimiter = ',', value_parser = positive)]
    workers: Vec<f64>,
    /// How many clients ask again and again, each as soon as it is answered [default: 16].
    #[arg(long, value_name = "N", conflicts_with_all = ["rate", "scenario"], value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Option<u32>,
    /// Instead of clients that wait: so many requests per second, at random times.
    #[arg(long, value_name = "PER_S", conflicts_with = "scenario", value_parser = positive)]
    rate: Option<f64>,
    /// What a worker's load does to its latency.
    #[arg(long, value_enum, default_value = "delay", conflicts_with = "scenario")]
    queueing: Queueing,
    /// How requests on one worker differ: constant, exponential, or uniform:15 for ±15 %.
    #[arg(long, default_value = "constant", conflicts_with = "scenario")]
    spread: Spread,
    /// Requests a worker may have at once [default: no limit].
    #[arg(long, value_name = "N", conflicts_with = "scenario", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CONCURRENT_MAX)))]
    max_concurrent: Option<u32>,
    /// Requests a worker may have before it must restart [default: no limit].
    #[arg(long, value_name = "N", conflicts_with = "scenario", value_parser = clap::value_parser!(u32).range(1..))]
    max_lifetime: Option<u32>,
    /// How often nodeads and noerrors change the workers' shares.
    #[arg(long, value_name = "MS", default_value_t = Karma::default().period_ms, conflicts_with = "scenario", value_parser = clap::value_parser!(u64).range(10..=86_400_000))]
    karma_period_ms: u64,
    /// How often a worker sends a heartbeat, and may learn that it must restart.
    #[arg(long, value_name = "MS", default_value_t = HEARTBEAT_MS, conflicts_with = "scenario", value_parser = positive)]
    heartbeat_ms: f64,
    /// How long a restart takes after the last session.
    #[arg(long, value_name = "MS", default_value_t = 1000.0, conflicts_with = "scenario", value_parser = positive)]
    restart_ms: f64,
    /// The strategies to compare [default: all that the limits allow].
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = strategy)]
    strategies: Option<Vec<Strategy>>,
    /// Simulated time [default: 60, or what the scenario needs].
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Another seed, other dice; the same seed, the same output.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Draw a plot into this file; a scenario with several adds their names to it.
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl Options {
    pub(super) fn setup(&self) -> Setup {
        Setup {
            strategies: self.strategies.clone(),
            seed: self.seed,
            seconds: self.seconds,
        }
    }

    pub(super) fn plan(&self) -> Result<Plan, SimulateError> {
        let seconds = self.seconds.unwrap_or(SECONDS);
        let arrivals = self.arrivals();
        let per_ms = match arrivals {
            Arrivals::Closed { clients } => {
                let fastest = self.workers.iter().copied().fold(f64::MAX, f64::min);
                f64::from(clients) / fastest
            }
            Arrivals::Poisson { per_s } | Arrivals::Paced { per_s } => per_s / 1000.0,
        };
        let requests = per_ms * seconds * 1000.0;
        if requests > REQUESTS_MAX {
            let requests = requests / 1e6;
            return Err(SimulateError::TooLong { requests });
        }
        let unlimited = unlimited();
        let worker = |mean_ms: &f64| WorkerPlan {
            spread: self.spread,
            ..WorkerPlan::constant(*mean_ms)
        };
        Ok(Plan {
            policy: Policy {
                max_concurrent: self.max_concurrent.unwrap_or(unlimited.max_concurrent),
                max_lifetime: self.max_lifetime.unwrap_or(0),
                karma: Karma {
                    period_ms: self.karma_period_ms,
                    ..Karma::default()
                },
                ..unlimited
            },
            workers: self.workers.iter().map(worker).collect(),
            queueing: self.queueing,
            arrivals,
            seconds,
            seed: self.seed,
            heartbeat_ms: self.heartbeat_ms,
            restart_ms: self.restart_ms,
        })
    }

    fn arrivals(&self) -> Arrivals {
        match self.rate {
            Some(per_s) => Arrivals::Poisson { per_s },
            None => Arrivals::Closed {
                clients: self.clients.unwrap_or(CLIENTS),
            },
        }
    }

    /// The title of its table.
    pub(super) fn describe(&self) -> String {
        let workers: Vec<String> = self.workers.iter().map(f64::to_string).collect();
        let asking = match self.arrivals() {
            Arrivals::Closed { clients } => format!("{clients} clients"),
            Arrivals::Poisson { per_s } | Arrivals::Paced { per_s } => {
                format!("{per_s} requests per second")
            }
        };
        let queueing = format!("{:?}", self.queueing).to_lowercase();
        let workers = workers.join(", ");
        format!("Simulated: {asking}, workers of {workers} ms ({queueing}).")
    }
}

fn positive(text: &str) -> Result<f64, String> {
    const RULE: &str = "a number from 0.01 to 10000000";
    match text.parse::<f64>() {
        Ok(value) if (0.01..=10e6).contains(&value) => Ok(value),
        Ok(_) | Err(_) => Err(format!("give {RULE}")),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=86_400.0).contains(&value) => Ok(value),
        Ok(_) | Err(_) => Err("give a number from 0.1 to 86400".into()),
    }
}

fn strategy(text: &str) -> Result<Strategy, String> {
    serde_json::from_value(text.into()).map_err(|_| {
        let known = Strategy::ALL.map(Strategy::as_str).join(", ");
        format!("give some of {known}")
    })
}

impl FromStr for Spread {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text.strip_prefix("uniform:").map(str::parse::<f64>);
        match (text, percent) {
            ("constant", _) => Ok(Self::Constant),
            ("exponential", _) => Ok(Self::Exponential),
            (_, Some(Ok(percent))) if (0.0..=100.0).contains(&percent) => {
                Ok(Self::Uniform { percent })
            }
            _ => Err(
                "give constant, exponential, or uniform: with 0 to 100, as in uniform:15".into(),
            ),
        }
    }
}
