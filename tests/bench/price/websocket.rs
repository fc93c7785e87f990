//! 10,000 idle WebSockets through two Envoys, once through a listener without Berth and once with it: how
//! fast they are opened, what they weigh while nobody speaks, what it costs to keep their leases alive, and
//! what happens when all leave at once.

#[path = "websocket/clients.rs"]
mod clients;
#[path = "websocket/memory.rs"]
mod memory;

use crate::backend::Backend;
use crate::claims::{self, Claim, Verdict};
use crate::machine::{self, Machine};
use crate::measure::{Figure, LOAD, Meter};
use crate::site;
use clients::Opened;
use harness::envoy::Envoy;
use harness::fleet;
use harness::http::Failure;
use harness::redis::Redis;
use harness::sidecar::Sidecar;
use harness::wait::holds_within;
use memory::Weight;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// At most so many, and as many as fit into the time; one in any case.
const ROUNDS_MAX: usize = 3;
const TIME: Duration = Duration::from_secs(170);
const SESSIONS: usize = 10_000;
/// Opened and closed before anything is weighed: what is made once is not a session's.
const WARM_UP: usize = 200;
/// Three beats of each holder.
const IDLE: Duration = Duration::from_secs(9);
/// Longer than it takes all of them to go, on any machine.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// Bytes of the filter, and of its own memory for each session.
const FILTER_BYTES_MAX: f64 = 307_200.0;
const SESSION_BYTES_MAX: f64 = 200.0;

const ENVOYS: &str = "envoys";
const SIDECARS: &str = "sidecars";
const REDIS: &str = "redis";
const PROCESSES: [&str; 4] = [ENVOYS, SIDECARS, REDIS, LOAD];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Through {
    Plain,
    Berth,
}

impl Through {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Berth => "berth",
        }
    }
}

/// A fleet of its own for each round: memory that was once used is not given back.
struct Fleet {
    envoys: Vec<Envoy>,
    sidecars: Vec<Sidecar>,
    redis: Redis,
    backend: Backend,
    _directory: TempDir,
}

/// What one round gave.
struct Round {
    opened_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// CPU µs for each session, by process.
    opening_us: Vec<f64>,
    closing_us: Vec<f64>,
    /// CPU ms in each second while all are open and idle.
    idle_ms_per_s: Vec<f64>,
    /// Until nobody has anything left of them.
    gone_ms: f64,
    weight: Weight,
}

impl Fleet {
    async fn raise() -> Result<Self, Failure> {
        let directory = fleet::scratch();
        let place = directory.path();
        let backend = Backend::start(place).await?;
        let redis = site::redis("redis", place).await?;
        let (mut sidecars, mut envoys) = (Vec::new(), Vec::new());
        for number in 1..=2 {
            let name = format!("sidecar-{number}");
            let policy = site::shipped_policy();
            let sidecar = site::sidecar(&name, &redis, policy, &backend, place).await?;
            let settings = site::envoy_settings(number, &sidecar, &backend);
            let adjust = |filter: &mut Value| {
                filter["pool"] = json!(fleet::pool());
                filter["ask_timeout_ms"] = json!(site::PATIENCE_MS);
                filter["watchdog_ms"] = json!(site::PATIENCE_MS);
            };
            envoys.push(Envoy::start_amended(settings, adjust, unlimited, place));
            sidecars.push(sidecar);
        }
        for envoy in &envoys {
            envoy.ready().await;
        }
        Ok(Self {
            envoys,
            sidecars,
            redis,
            backend,
            _directory: directory,
        })
    }

    fn meter(&self) -> Meter<'_> {
        let envoys = self.envoys.iter().map(|envoy| (ENVOYS, &envoy.process));
        let sidecars = self.sidecars.iter();
        let sidecars = sidecars.map(|sidecar| (SIDECARS, &sidecar.process));
        Meter::of(envoys.chain(sidecars).chain([(REDIS, &self.redis.process)]))
    }

    fn doors(&self, through: Through) -> Vec<SocketAddr> {
        let envoys = self.envoys.iter();
        match through {
            Through::Plain => envoys.filter_map(Envoy::least_request).collect(),
            Through::Berth => envoys.map(Envoy::listen).collect(),
        }
    }

    /// Waits until the backend, and with Berth the pool, have nobody any more.
    async fn gone(&self, through: Through, connections: u64) -> Result<(), Failure> {
        let gone = holds_within(GONE_WITHIN, async || {
            let free = match through {
                Through::Plain => true,
                Through::Berth => {
                    let view = self.sidecars[0].api().view().await;
                    view.is_ok_and(|view| view.active == 0)
                }
            };
            free && self.backend.connections() <= connections
        });
        match gone.await {
            true => Ok(()),
            false => Err(format!("sessions are left after {GONE_WITHIN:?}").into()),
        }
    }

    async fn measure(&self, through: Through) -> Result<Round, Failure> {
        let doors = self.doors(through);
        let nobody = self.backend.connections();
        drop(clients::open(&doors, WARM_UP).await?);
        self.gone(through, nobody).await?;
        let meter = self.meter();
        let light = Weight::of(self).await?;
        let before = meter.read();
        let Opened {
            sessions,
            per_second,
            p50_ms,
            p99_ms,
        } = clients::open(&doors, SESSIONS).await?;
        let opening = meter.read().since(&before);
        // What is still on its way, news of handshakes above all, is not a matter of being idle.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = meter.read();
        tokio::time::sleep(IDLE).await;
        let idle = meter.read().since(&before);
        let weight = Weight::of(self).await?.since(&light, SESSIONS);
        if through == Through::Berth {
            let held = self.sidecars[0].api().view().await?.active;
            if held != SESSIONS as u64 {
                return Err(format!("{held} leases for {SESSIONS} sessions").into());
            }
        }
        let (before, started) = (meter.read(), Instant::now());
        drop(sessions);
        self.gone(through, nobody).await?;
        let gone_ms = started.elapsed().as_secs_f64() * 1000.0;
        let closing = meter.read().since(&before);
        let each = |spent: &crate::measure::Spent| {
            let us = PROCESSES.map(|name| spent.us_each(name, SESSIONS));
            us.to_vec()
        };
        let per_s = |name| idle.seconds(name) * 1000.0 / IDLE.as_secs_f64();
        Ok(Round {
            opened_per_s: per_second,
            p50_ms,
            p99_ms,
            opening_us: each(&opening),
            closing_us: each(&closing),
            idle_ms_per_s: PROCESSES.map(per_s).to_vec(),
            gone_ms,
            weight,
        })
    }
}

/// Envoy's own limit of 1024 connections would end the comparison early: no cluster has it.
fn unlimited(config: &mut Value) {
    let clusters = config["static_resources"]["clusters"].as_array_mut();
    for cluster in clusters.into_iter().flatten() {
        cluster["circuit_breakers"] = json!({"thresholds": [
            {"max_connections": 1_000_000, "max_pending_requests": 1_000_000, "max_requests": 1_000_000},
        ]});
    }
}

pub(crate) async fn run() -> Result<Verdict, Failure> {
    let machine = Machine::here()?;
    let (mut plain, mut berth) = (Vec::new(), Vec::new());
    let started = Instant::now();
    for number in 1..=ROUNDS_MAX {
        for (through, rounds) in [(Through::Plain, &mut plain), (Through::Berth, &mut berth)] {
            let round = Fleet::raise().await?.measure(through).await?;
            eprintln!(
                "round {number}: {:<5} {SESSIONS} opened at {:.0}/s, gone after {:.0} ms",
                through.name(),
                round.opened_per_s,
                round.gone_ms
            );
            rounds.push(round);
        }
        let mean = started.elapsed() / u32::try_from(number)?;
        if started.elapsed() + mean > TIME {
            break;
        }
    }
    let rounds = berth.len();
    let (plain, berth) = (row(&plain), row(&berth));
    let claims = vec![
        Claim::at_most(
            FILTER_BYTES_MAX,
            machine.filter_bytes as f64,
            "bytes of filter.wasm",
        ),
        Claim::at_most(
            SESSION_BYTES_MAX,
            berth["filter_bytes_each"].as_f64().unwrap_or(f64::NAN),
            "bytes of the filter's own memory for each session",
        ),
    ];
    print(&plain, &berth);
    let verdict = claims::tell(&claims);
    let figures = json!({
        "sessions": SESSIONS, "rounds": rounds, "plain": plain, "berth": berth, "claims": claims,
    });
    machine::keep("websocket", &machine, figures)?;
    Ok(verdict)
}

fn row(rounds: &[Round]) -> Value {
    let figure = |value: &dyn Fn(&Round) -> f64| Figure::of(rounds.iter().map(value)).median;
    let mut row = Map::new();
    let mut add = |name: String, value: &dyn Fn(&Round) -> f64| {
        row.insert(name, json!(figure(value)));
    };
    add("opened_per_s".into(), &|round| round.opened_per_s);
    add("p50_ms".into(), &|round| round.p50_ms);
    add("p99_ms".into(), &|round| round.p99_ms);
    add("gone_ms".into(), &|round| round.gone_ms);
    add("envoy_bytes_each".into(), &|round| round.weight.envoys);
    add("filter_bytes_each".into(), &|round| round.weight.filters);
    add("sidecar_bytes_each".into(), &|round| round.weight.sidecars);
    add("redis_bytes_each".into(), &|round| round.weight.redis);
    for (place, name) in PROCESSES.into_iter().enumerate() {
        add(format!("opening_{name}_us"), &|round| {
            round.opening_us[place]
        });
        add(format!("closing_{name}_us"), &|round| {
            round.closing_us[place]
        });
        add(format!("idle_{name}_ms_per_s"), &|round| {
            round.idle_ms_per_s[place]
        });
    }
    Value::Object(row)
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
fn print(plain: &Value, berth: &Value) {
    println!("{:>28} {:>10} {:>10} {:>8}", "", "plain", "berth", "ratio");
    let names = plain.as_object().into_iter().flat_map(Map::keys);
    for name in names {
        let figure = |row: &Value| row[name].as_f64().unwrap_or(f64::NAN);
        let (without, with) = (figure(plain), figure(berth));
        println!(
            "{name:>28} {without:>10.1} {with:>10.1} {:>8.2}",
            with / without
        );
    }
}
