//! The `berth` command.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use redis_sidecar::library::{Library, VERBS};
use redis_sidecar::operator::OperatorError;
use redis_sidecar::operator::explain::{self, Explain};
use redis_sidecar::operator::leases::{self, Leases};
use redis_sidecar::operator::policy::{self, PolicyCommand};
use redis_sidecar::{acl, check, log, reference, serve, settings, simulate};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

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
    /// Judge Envoy's files, the settings and the Redis that runs: refuse what would break a promise.
    ///
    /// Ends with 0 if all is fine, 5 if something is refused, 4 if Redis cannot be asked, and 2 if a
    /// file cannot be read.
    Check(check::Options),
    /// Write the Lua library, as Redis loads it, into a directory: berth.lua.
    Scripts {
        /// Made if it does not exist.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Print the line of Redis' access list that lets the sidecar do its work and nothing else.
    ///
    /// It is that of the settings in force: a cluster is asked for more than a single server. Put a password
    /// in the place of PASSWORD.
    Acl {
        /// The settings file (TOML).
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
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
        Command::Check(options) => return run_check(options),
        Command::Scripts { directory } => write_scripts(&directory),
        Command::Acl { config } => print_acl(config.as_deref()),
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
    let loaded = settings::load(config, variables())?;
    if print_config {
        print!("{}", loaded.describe());
        return Ok(());
    }
    log::start(loaded.settings.log_format);
    // One thread has nobody to share work with; a runtime that knows this costs less (docs/decisions/0025).
    let mut runtime = match loaded.settings.threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        threads => {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            runtime.worker_threads(threads);
            runtime
        }
    };
    let runtime = runtime.enable_all().build()?;
    let served = runtime.block_on(async {
        let stop = CancellationToken::new();
        cancel_on_signal(stop.clone())?;
        serve::serve(&loaded.settings, stop).await?;
        Ok(())
    });
    // A name that is looked up, or a file on a disk that hangs, may take for ever.
    runtime.shutdown_background();
    served
}

/// Other programs' variables may be anything; ours are text.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Prints what an operator's command has to say.
fn run_operator(
    command: impl Future<Output = Result<String, OperatorError>>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    print(&runtime.block_on(command)?)
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

fn run_check(options: check::Options) -> ExitCode {
    let variables: Vec<_> = variables().collect();
    let mut verdict = check::Verdict::Usage;
    let printed = run_operator(async {
        let (text, message, ended) = check::run(options, variables.into_iter()).await;
        if let Some(message) = message {
            eprintln!("berth: {message}");
        }
        verdict = ended;
        Ok(text)
    });
    match printed {
        Ok(()) => ExitCode::from(verdict as u8),
        Err(error) => {
            eprintln!("berth: {error}");
            ExitCode::FAILURE
        }
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

fn print_acl(config: Option<&Path>) -> Result<(), Failure> {
    let line = acl::line(&settings::load(config, variables())?.settings.redis)?;
    print(&format!("{line}\n"))
}

fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // Whoever reads has read enough: `berth leases demo | head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

fn run_simulate(options: &simulate::Options) -> Result<(), Failure> {
    print(&simulate::simulate(options)?)
}
