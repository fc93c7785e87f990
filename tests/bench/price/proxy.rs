//! Requests through one Envoy with one thread to a fast backend: without any admission, with Envoy's own
//! callouts that take the same lease, and with Berth, which also gives it back.

#[path = "proxy/peers.rs"]
mod peers;

use crate::answerer::Answerer;
use crate::backend::Backend;
use crate::claims::{self, Claim, Verdict};
use crate::load::{self, Answers, Load};
use crate::machine::{self, Machine};
use crate::measure::{Figure, LOAD, Meter, rounded};
use crate::site;
use harness::envoy::Envoy;
use harness::fleet;
use harness::http::{Failure, Target};
use harness::process::Process;
use harness::redis::Redis;
use harness::sidecar::Sidecar;
use harness::wait::eventually;
use peers::{Door, Doors};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tempfile::TempDir;

const ROUNDS: usize = 7;
const CLIENTS: u64 = 16;
const WARM_UP: Duration = Duration::from_millis(300);
/// Seven rounds of all doors, and these of few clients, stay below three minutes.
const WINDOW: Duration = Duration::from_millis(1700);

/// Where questions seldom meet others on their way, and so seldom go together.
const FEW: [u64; 2] = [1, 4];
const FEW_DOORS: [Door; 4] = [Door::Plain, Door::ExtAuthz, Door::Lua, Door::Berth];
const FEW_ROUNDS: usize = 3;
const FEW_WINDOW: Duration = Duration::from_millis(900);

/// Envoy's CPU time against that of an ext_authz, and of a Lua filter, which take the same lease; the CPU
/// time of Envoy, answerer and Redis together; requests per second.
const ENVOY_TO_EXT_AUTHZ_MAX: f64 = 1.1;
const ENVOY_TO_LUA_MAX: f64 = 1.0;
const ALL_TO_EXT_AUTHZ_MAX: f64 = 1.3;
const RATE_TO_EXT_AUTHZ_MIN: f64 = 0.9;

const ENVOY: &str = "envoy";
const ANSWERER: &str = "answerer";
const REDIS: &str = "redis";
const BACKEND: &str = "backend";

/// Everything that takes part. Each way to be admitted has a Redis of its own, because some leave their
/// leases there.
struct Stage {
    envoy: Envoy,
    doors: Doors,
    sidecar: Sidecar,
    redis: Redis,
    lua_sidecar: Sidecar,
    lua_redis: Redis,
    authz: Answerer,
    authz_redis: Redis,
    trivial: Answerer,
    backend: Backend,
    _directory: TempDir,
}

impl Stage {
    async fn raise() -> Result<Self, Failure> {
        let directory = fleet::scratch();
        let place = directory.path();
        let backend = Backend::start(place).await?;
        let redis = site::redis("redis-berth", place).await?;
        let lua_redis = site::redis("redis-lua", place).await?;
        let authz_redis = site::redis("redis-authz", place).await?;
        let policy = site::shipped_policy();
        let sidecar = site::sidecar("sidecar", &redis, policy, &backend, place).await?;
        let policy = site::policy();
        let lua_sidecar = site::sidecar("sidecar-lua", &lua_redis, policy, &backend, place).await?;
        let url = Some(authz_redis.url());
        let authz = Answerer::start("answerer", backend.address, url, place).await?;
        let trivial = Answerer::start("trivial", backend.address, None, place).await?;
        let Target::Unix(by_socket) = sidecar.door() else {
            return Err("the sidecar has no Unix socket".into());
        };
        let settings = site::envoy_settings(1, &sidecar, &backend);
        let doors = Doors::beside(settings.listen);
        let services = peers::Services {
            by_socket,
            lua_sidecar: lua_sidecar.listen(),
            authz: authz.address,
            trivial: trivial.address,
        };
        let adjust = |filter: &mut Value| {
            filter["pool"] = json!(fleet::pool());
            filter["admit"] = json!("everything");
            filter["ask_timeout_ms"] = json!(site::PATIENCE_MS);
            filter["watchdog_ms"] = json!(site::PATIENCE_MS);
        };
        let amend = |config: &mut Value| peers::add(config, &doors, &services);
        let envoy = Envoy::start_amended(settings, adjust, amend, place);
        envoy.ready().await;
        Ok(Self {
            envoy,
            doors,
            sidecar,
            redis,
            lua_sidecar,
            lua_redis,
            authz,
            authz_redis,
            trivial,
            backend,
            _directory: directory,
        })
    }

    /// Who works when a request comes through this door.
    fn meter(&self, door: Door) -> Meter<'_> {
        let parts: Vec<(&'static str, &Process)> = match door {
            Door::Plain | Door::PlainConnectionEach => vec![],
            Door::ExtAuthz => vec![
                (ANSWERER, &self.authz.process),
                (REDIS, &self.authz_redis.process),
            ],
            Door::ExtAuthzTrivial => vec![(ANSWERER, &self.trivial.process)],
            Door::Lua | Door::LuaAdmitOnly => vec![
                (ANSWERER, &self.lua_sidecar.process),
                (REDIS, &self.lua_redis.process),
            ],
            Door::Berth | Door::BerthUnixSocket | Door::BerthAsShipped => vec![
                (ANSWERER, &self.sidecar.process),
                (REDIS, &self.redis.process),
            ],
        };
        let always = [
            (ENVOY, &self.envoy.process),
            (BACKEND, &self.backend.process),
        ];
        Meter::of(parts.into_iter().chain(always))
    }

    async fn measure(
        &self,
        door: Door,
        clients: u64,
        window: Duration,
    ) -> Result<Answers, Failure> {
        let load = Load {
            clients,
            target: self.doors.address(door),
            warm_up: WARM_UP,
            window,
        };
        let answers = load.drive(load::get, &self.meter(door)).await;
        let answers = answers.map_err(|error| format!("{}: {error}", door.name()))?;
        if matches!(
            door,
            Door::Berth | Door::BerthUnixSocket | Door::BerthAsShipped
        ) {
            // That it gives every lease back is part of what it is measured for.
            eventually("every lease is given back", async || {
                let view = self.sidecar.api().view().await;
                view.is_ok_and(|view| view.active == 0)
            })
            .await;
        }
        Ok(answers)
    }
}

pub(crate) async fn run() -> Result<Verdict, Failure> {
    let machine = Machine::here()?;
    let stage = Stage::raise().await?;
    let mut rounds: BTreeMap<Door, Vec<Answers>> = BTreeMap::new();
    for round in 1..=ROUNDS {
        for door in Door::ALL {
            let answers = stage.measure(door, CLIENTS, WINDOW).await?;
            eprintln!(
                "round {round} of {ROUNDS}: {:<21} {:>6.0} requests/s, Envoy {:>4.0} µs each",
                door.name(),
                answers.per_second,
                answers.spent.us_each(ENVOY, answers.count),
            );
            rounds.entry(door).or_default().push(answers);
        }
    }
    let few = with_few(&stage).await?;
    let figures = rows(&rounds);
    let claims = judge(&figures);
    print(&figures);
    let verdict = claims::tell(&claims);
    let mut figures = Value::Object(figures);
    figures["claims"] = serde_json::to_value(&claims)?;
    figures["rounds"] = json!(ROUNDS);
    figures["clients"] = json!(CLIENTS);
    figures["few"] = few;
    machine::keep("proxy", &machine, figures)?;
    Ok(verdict)
}

/// The same with few clients, which is told and not judged.
async fn with_few(stage: &Stage) -> Result<Value, Failure> {
    let mut table = Vec::new();
    for clients in FEW {
        let mut rounds: BTreeMap<Door, Vec<Answers>> = BTreeMap::new();
        for _ in 0..FEW_ROUNDS {
            for door in FEW_DOORS {
                let answers = stage.measure(door, clients, FEW_WINDOW).await?;
                rounds.entry(door).or_default().push(answers);
            }
        }
        eprintln!("{FEW_ROUNDS} rounds with {clients} at once: done");
        let mut figures = rows(&rounds);
        figures.insert("clients".into(), json!(clients));
        table.push(Value::Object(figures));
    }
    Ok(json!(table))
}

/// The figures of each door, by its name.
fn rows(rounds: &BTreeMap<Door, Vec<Answers>>) -> Map<String, Value> {
    let rows = rounds.iter();
    rows.map(|(door, answers)| (door.name().into(), row(answers)))
        .collect()
}

fn row(rounds: &[Answers]) -> Value {
    let figure = |value: fn(&Answers) -> f64| Figure::of(rounds.iter().map(value));
    let per_1000 = |round: &Answers, name: &str| round.spent.us_each(name, round.count) / 1000.0;
    let of = |name: &'static str| {
        let rounds = rounds.iter();
        Figure::of(rounds.map(|round| per_1000(round, name))).median
    };
    let together = rounds.iter().map(|round| {
        let parts = [ENVOY, ANSWERER, REDIS];
        parts.iter().map(|name| per_1000(round, name)).sum::<f64>()
    });
    let p99 = figure(|round| round.p99_ms);
    json!({
        "rps": figure(|round| round.per_second).median,
        "p50_ms": figure(|round| round.p50_ms).median,
        "p99_ms": p99.median,
        "p99_ms_min": p99.min,
        "p99_ms_max": p99.max,
        "envoy_cpu_s_per_1000": of(ENVOY),
        "all_cpu_s_per_1000": Figure::of(together).median,
        "answerer_cpu_s_per_1000": of(ANSWERER),
        "redis_cpu_s_per_1000": of(REDIS),
        "backend_cpu_s_per_1000": of(BACKEND),
        "load_cpu_s_per_1000": of(LOAD),
        "envoy_cpu_s_per_1000_by_round": rounds.iter()
            .map(|round| rounded(per_1000(round, ENVOY))).collect::<Vec<_>>(),
    })
}

fn judge(figures: &Map<String, Value>) -> Vec<Claim> {
    let ratio = |figure: &str, peer: Door| {
        let of = |door: Door| figures[door.name()][figure].as_f64().unwrap_or(f64::NAN);
        of(Door::Berth) / of(peer)
    };
    let (envoy, all) = ("envoy_cpu_s_per_1000", "all_cpu_s_per_1000");
    vec![
        Claim::at_most(
            ENVOY_TO_EXT_AUTHZ_MAX,
            ratio(envoy, Door::ExtAuthz),
            "Envoy's CPU for a request, Berth to ext_authz",
        ),
        Claim::at_most(
            ENVOY_TO_LUA_MAX,
            ratio(envoy, Door::Lua),
            "Envoy's CPU for a request, Berth to Lua",
        ),
        Claim::at_most(
            ALL_TO_EXT_AUTHZ_MAX,
            ratio(all, Door::ExtAuthz),
            "CPU of Envoy, answerer and Redis for a request, Berth (which also releases) to ext_authz",
        ),
        Claim::at_least(
            RATE_TO_EXT_AUTHZ_MIN,
            ratio("rps", Door::ExtAuthz),
            "requests per second, Berth to ext_authz",
        ),
    ]
}

#[expect(clippy::print_stdout, reason = "the table is what was asked for")]
fn print(figures: &Map<String, Value>) {
    println!(
        "{:>18} {:>8} {:>7} {:>7} {:>15} | CPU µs each: {:>6} {:>8} {:>6} {:>6} {:>8} {:>6}",
        "",
        "per s",
        "p50 ms",
        "p99 ms",
        "from to",
        "Envoy",
        "answerer",
        "Redis",
        "all",
        "backend",
        "load"
    );
    for door in Door::ALL {
        let figure = |name: &str| figures[door.name()][name].as_f64().unwrap_or(f64::NAN);
        let us = |name: &str| figure(&format!("{name}_cpu_s_per_1000")) * 1000.0;
        println!(
            "{:>18} {:>8.0} {:>7.2} {:>7.2} {:>7.2} {:>7.2} | {:>19.0} {:>8.0} {:>6.0} {:>6.0} {:>8.0} {:>6.0}",
            door.name(),
            figure("rps"),
            figure("p50_ms"),
            figure("p99_ms"),
            figure("p99_ms_min"),
            figure("p99_ms_max"),
            us(ENVOY),
            us(ANSWERER),
            us(REDIS),
            us("all"),
            us(BACKEND),
            us(LOAD),
        );
    }
}
