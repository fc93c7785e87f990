//! The `berth` command.

use clap::{Parser, Subcommand};
use redis_sidecar::library::{Library, VERBS};
use redis_sidecar::operator::OperatorError;
use redis_sidecar::operator::explain::{self, Explain};
use redis_sidecar::operator::leases::{self, Leases};
use redis_sidecar::operator::policy::{self, PolicyCommand};
use redis_sidecar::{reference, serve, settings, simulate};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Session-aware admission for Envoy fleets.
#[derive(Debug, Parser)]
#[command(name = "berth", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the sidecar that Envoy's filter, workers and operators talk to.
    ///
    /// Settings come from the file and from variables named BERTH__SECTION__SETTING, which win:
    /// BERTH__REDIS__URL=redis://10.0.0.5:6379 sets redis.url. RUST_LOG sets the log level.
    Serve {
        /// The settings file (TOML).
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print every setting in force and where it came from, then exit.
        #[arg(long)]
        print_config: bool,
    },
    /// Show or change the policy of a pool in service, through a running sidecar.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Say which worker a request would get now, and why not the others; nothing is changed.
    Explain(Explain),
    /// List a pool's leases: who holds what.
    Leases(Leases),
    /// Count a pool anew from its leases alone; fails if a kept figure is off.
    Audit(Leases),
    /// Write the Lua library, as Redis loads it, into a directory: berth.lua.
    Scripts {
        /// Made if it does not exist.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Print every setting with its default, range and meaning, as docs/settings.md has it.
    Settings,
    /// Print the description of the HTTP API, docs/openapi.yaml.
    Openapi,
    /// Compare strategies on simulated workers: no Envoy, no Redis, the same output every time.
    ///
    /// A pool's decisions are made by the same models that the Lua scripts are tested against.
    Simulate(simulate::Options),
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve {
            config,
            print_config,
        } => run_serve(config.as_deref(), print_config),
        Command::Policy(command) => run_operator(policy::run(command)),
        Command::Explain(command) => run_operator(explain::run(command)),
        Command::Leases(command) => run_operator(leases::run(command)),
        Command::Audit(command) => run_audit(command),
        Command::Scripts { directory } => write_scripts(&directory),
        Command::Settings => print(&reference::page()),
        Command::Openapi => print(redis_sidecar::OPENAPI),
        Command::Simulate(options) => run_simulate(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("berth: {error}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the output is what was asked for")]
fn run_serve(config: Option<&Path>, print_config: bool) -> Result<(), Failure> {
    // Other programs' variables may be anything; ours are text.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let loaded = settings::load(config, variables)?;
    if print_config {
        print!("{}", loaded.describe());
        return Ok(());
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        // Whoever reads the log may go away; that must not end anything else.
        .log_internal_errors(false)
        .init();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let stop = CancellationToken::new();
            cancel_on_signal(stop.clone())?;
            serve::serve(&loaded.settings, stop).await?;
            Ok(())
        })
}

/// Prints what an operator's command has to say.
fn run_operator(
    command: impl Future<Output = Result<String, OperatorError>>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let text = runtime.block_on(command)?;
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Prints what was found, and fails if that is not what should be.
fn run_audit(command: Leases) -> Result<(), Failure> {
    let mut drift = 0;
    run_operator(async {
        let (text, total) = leases::audit(command).await?;
        drift = total;
        Ok(text)
    })?;
    match drift {
        0 => Ok(()),
        drift => Err(format!("the kept figures are off by {drift}").into()),
    }
}

fn cancel_on_signal(stop: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.cancel();
        tracing::info!("shutting down");
    });
    Ok(())
}

fn write_scripts(directory: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, error| format!("cannot write {}: {error}", path.display());
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    let file = directory.join("berth.lua");
    std::fs::write(&file, Library::new(&VERBS).text()).map_err(|error| failed(&file, error))?;
    Ok(())
}

fn print(text: &str) -> Result<(), Failure> {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn run_simulate(options: &simulate::Options) -> Result<(), Failure> {
    print(&simulate::simulate(options)?)
}
