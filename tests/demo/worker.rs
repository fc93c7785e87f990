//! `demo-worker`: a worker to try Berth with. What it does is in `harness::worker`.

use admission::id::{Address, PoolName, WorkerId};
use clap::Parser;
use harness::http::Target;
use harness::worker::{Settings, Worker};
use hyper::StatusCode;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// A WebSocket echo and HTTP worker that registers with a Berth sidecar.
///
/// It echoes WebSockets on every path, answers every other request with JSON, sends heartbeats,
/// and finishes its sessions before it obeys an advice to restart.
#[derive(Debug, Parser)]
#[command(name = "demo-worker", version)]
struct Flags {
    /// The sidecar to register with: http://host:port or unix:/path
    #[arg(long, default_value = "http://127.0.0.1:7070")]
    sidecar: Target,
    /// A file with a worker's token, where the sidecar asks for one
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The pool to join
    #[arg(long, default_value = "demo")]
    pool: PoolName,
    /// This worker's name, the same over its restarts
    #[arg(long)]
    id: WorkerId,
    /// Where to listen; port 0 takes any free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The address that Envoys are told, if not the one listened on
    #[arg(long)]
    advertise: Option<Address>,
    /// Thinking time before every answer, in milliseconds
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
    /// Time between heartbeats, in milliseconds
    #[arg(long, default_value_t = 5000)]
    heartbeat_ms: u64,
    /// How long a restart takes, in milliseconds
    #[arg(long, default_value_t = 1000)]
    restart_ms: u64,
    /// Sessions at once, where this worker can hold fewer than the pool allows
    #[arg(long)]
    max_concurrent: Option<u32>,
    /// Refuse every WebSocket upgrade with this status
    #[arg(long, value_name = "STATUS")]
    fail_upgrade_with: Option<StatusCode>,
    /// Write down every session's begin and end, into a new file of this directory
    #[arg(long, env = "BERTH_WORKER_JOURNAL", value_name = "DIR")]
    journal: Option<PathBuf>,
}

impl Flags {
    fn settings(self) -> std::io::Result<Settings> {
        let token = self.token_file.map(std::fs::read_to_string).transpose()?;
        let first = |text: String| text.lines().next().unwrap_or_default().trim().to_owned();
        Ok(Settings {
            sidecar: self.sidecar,
            token: token.map(first),
            pool: self.pool,
            id: self.id,
            listen: self.listen,
            advertise: self.advertise,
            delay: Duration::from_millis(self.delay_ms),
            heartbeat: Duration::from_millis(self.heartbeat_ms),
            restart: Duration::from_millis(self.restart_ms),
            max_concurrent: self.max_concurrent,
            fail_upgrade_with: self.fail_upgrade_with,
            journal: self.journal,
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let settings = Flags::parse().settings();
    let ended = match settings {
        Ok(settings) => run(settings).await,
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo-worker: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: Settings) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let listen = settings.listen;
    let worker = Worker::start(settings).await.map_err(|error| {
        std::io::Error::new(error.kind(), format!("cannot listen on {listen}: {error}"))
    })?;
    eprintln!("{}: listening on {}", worker.id(), worker.address());
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    eprintln!(
        "{}: leaving; a second signal ends the open sessions",
        worker.id()
    );
    tokio::select! {
        left = worker.leave() => if let Err(error) = left {
            eprintln!("{}: left without saying so: {error}", worker.id());
        },
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
