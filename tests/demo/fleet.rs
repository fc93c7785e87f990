//! `make run`: a small fleet on loopback, to look at and to play with.

mod greeting;
mod settings;

use admission::policy::{Policy, Strategy};
use clap::Parser;
use harness::backend::Backend;
use harness::envoy::{self, Envoy, Filter, Listeners, Restarts, RouteBy};
use harness::fleet::pool;
use harness::http::Target;
use harness::paths;
use harness::ports::loopback;
use harness::process::Process;
use harness::redis::Redis;
use harness::sidecar::{self, Sidecar};
use harness::wait::eventually;
use serde_json::json;
use settings::Settings;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

struct Demo {
    // In the order in which they end: nothing is asked for by a part that is still there.
    envoys: Vec<Envoy>,
    workers: Vec<Process>,
    sidecars: Vec<Sidecar>,
    redis: Redis,
    _backend: Backend,
    logs: Logs,
}

/// The directory of all logs; it goes with the fleet.
struct Logs(TempDir);

impl Logs {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        // Somebody was just told to look into one of them.
        if std::thread::panicking() {
            self.0.disable_cleanup(true);
            complain(&format!("the logs stay in {}", self.path().display()));
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let settings = Settings::parse();
    let complaints = settings.port_complaints();
    if !complaints.is_empty() {
        complaints.iter().for_each(|complaint| complain(complaint));
        return ExitCode::FAILURE;
    }
    // The parts panic with what a person needs to know; where in the source is not part of it.
    std::panic::set_hook(Box::new(|panic| {
        let text = panic
            .payload_as_str()
            .unwrap_or("something unexpected happened");
        complain(text);
    }));
    match run(&settings).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: &Settings) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // The terminal was closed.
    let mut hangup = signal(SignalKind::hangup())?;
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    };
    let play = async {
        let demo = raise(settings).await?;
        say(&greeting::greeting(settings, demo.logs.path()));
        report_deaths(&demo).await;
        Ok(())
    };
    tokio::select! {
        ended = play => ended,
        () = stop => {
            say("\nEnding the fleet.");
            Ok(())
        }
    }
}

async fn raise(settings: &Settings) -> std::io::Result<Demo> {
    let logs = Logs(tempfile::Builder::new().prefix("berth-demo-").tempdir()?);
    let redis = Redis::start(loopback(settings.redis_port), logs.path());
    redis.ready().await;
    progress("redis", redis.address());

    let sidecars = start_sidecars(settings, &redis, logs.path());
    for sidecar in &sidecars {
        sidecar.ready().await;
        progress(sidecar.process.name(), sidecar.listen());
    }
    let backend = Backend::start(loopback(settings.backend_port)).await?;
    progress("backend", backend.address());

    let workers = start_workers(settings, &sidecars, logs.path());
    for (worker, address) in workers.iter().zip(settings.workers()) {
        registered(worker, &sidecars[0]).await;
        progress(worker.name(), address);
    }
    let envoys = start_envoys(settings, &sidecars, &backend, logs.path());
    for envoy in &envoys {
        envoy.ready().await;
        progress(envoy.process.name(), envoy.listen());
    }
    Ok(Demo {
        envoys,
        workers,
        sidecars,
        redis,
        _backend: backend,
        logs,
    })
}

fn start_sidecars(settings: &Settings, redis: &Redis, logs: &Path) -> Vec<Sidecar> {
    let start = |(name, port): (&str, u16)| {
        let settings = sidecar::Settings {
            name: name.into(),
            listen: loopback(port),
            socket: None,
            redis_url: redis.url(),
            pool: pool(),
            policy: Policy {
                strategy: Strategy::LifetimeFirst,
                max_concurrent: settings.max_concurrent,
                max_lifetime: settings.max_lifetime,
                ..Policy::default()
            },
            reap_ms: 500,
            patience_ms: None,
            log_level: "info",
            guarded: None,
            more: json!({}),
        };
        Sidecar::start(settings, logs)
    };
    [
        ("sidecar-1", settings.sidecar_1_port),
        ("sidecar-2", settings.sidecar_2_port),
    ]
    .map(start)
    .into()
}

fn start_workers(settings: &Settings, sidecars: &[Sidecar], logs: &Path) -> Vec<Process> {
    let start = |(index, address): (usize, SocketAddr)| {
        let name = format!("worker-{}", index + 1);
        let sidecar: Target = sidecars[index % sidecars.len()].target();
        let mut command = Command::new(paths::program("demo-worker"));
        command
            .args(["--id", &name])
            .args(["--pool", pool().as_str()])
            .args(["--sidecar", &sidecar.to_string()])
            .args(["--listen", &address.to_string()])
            .args(["--heartbeat-ms", "1000"]);
        Process::start(&name, &mut command, logs.join(format!("{name}.log")))
    };
    settings
        .workers()
        .into_iter()
        .enumerate()
        .map(start)
        .collect()
}

async fn registered(worker: &Process, sidecar: &Sidecar) {
    let (name, api) = (worker.name(), sidecar.api());
    eventually(&format!("{name} is in the pool"), async || {
        worker.expect_running();
        api.view()
            .await
            .is_ok_and(|view| view.worker(name).is_some())
    })
    .await;
}

fn start_envoys(
    settings: &Settings,
    sidecars: &[Sidecar],
    backend: &Backend,
    logs: &Path,
) -> Vec<Envoy> {
    let ports = [
        (settings.envoy_1_port, settings.admin_1_port),
        (settings.envoy_2_port, settings.admin_2_port),
    ];
    let start = |(index, (listen, admin)): (usize, (u16, u16))| {
        let settings = envoy::Settings {
            name: format!("envoy-{}", index + 1),
            route_by: RouteBy::OriginalDst,
            listen: loopback(listen),
            least_request: None,
            admin: loopback(admin),
            sidecar: sidecars[index].door(),
            spare: None,
            passthrough: backend.address(),
            workers: Vec::new(),
            concurrency: 1,
            listeners: Listeners::Fixed,
            restarts: Restarts::Cold,
            filter: Filter::Shipped,
            verify_tokens: false,
            sidecar_transport: None,
        };
        Envoy::start(settings, |_| {}, logs)
    };
    ports.into_iter().enumerate().map(start).collect()
}

/// Says once of each part that it is gone. The rest goes on: seeing that is what a demo is for.
async fn report_deaths(demo: &Demo) {
    let mut parts: Vec<&Process> = (demo.envoys.iter().map(|envoy| &envoy.process))
        .chain(&demo.workers)
        .chain(demo.sidecars.iter().map(|sidecar| &sidecar.process))
        .chain([&demo.redis.process])
        .collect();
    let mut tick = tokio::time::interval(Duration::from_millis(200));
    loop {
        tick.tick().await;
        parts.retain(|part| {
            let ended = part.ended();
            if let Some(status) = ended {
                say(&format!(
                    "\n{} ended with {status}.\n{}",
                    part.name(),
                    part.log_tail()
                ));
            }
            ended.is_none()
        });
    }
}

fn progress(name: &str, address: SocketAddr) {
    say(&format!("  {name:<10} {address:<16} ready"));
}

// Neither of the two minds a closed terminal, as `println!` would: the fleet must be ended all the
// same.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "demo: {text}");
}
