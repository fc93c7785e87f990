//! One real Envoy, with the configuration that is shipped: only addresses, names and the filter's
//! own settings are replaced.

mod config;
pub mod tokens;
mod validate;

pub use validate::validate;

use crate::client::Client;
use crate::http::{self, Target};
use crate::paths;
use crate::ports;
use crate::process::Process;
use crate::wait::eventually;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which of the shipped configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteBy {
    OriginalDst,
    StatefulSession,
    /// Without the filter: Envoy's own Lua counts, and an ordinary cluster chooses.
    LuaFilter,
}

impl RouteBy {
    fn file(self) -> &'static str {
        match self {
            Self::OriginalDst => "envoy.yaml",
            Self::StatefulSession => "stateful-session.yaml",
            Self::LuaFilter => "lua-filter.yaml",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub name: String,
    pub route_by: RouteBy,
    pub listen: SocketAddr,
    /// A second listener, without Berth: Envoy's own LEAST_REQUEST chooses among `workers`.
    pub least_request: Option<SocketAddr>,
    pub admin: SocketAddr,
    pub sidecar: Target,
    /// Asked while the sidecar fails its health check.
    pub spare: Option<Target>,
    /// Where requests without a lease go.
    pub passthrough: SocketAddr,
    /// The members of the worker cluster, where Envoy must know them.
    pub workers: Vec<SocketAddr>,
    pub concurrency: u32,
    pub listeners: Listeners,
    pub restarts: Restarts,
    pub filter: Filter,
    /// Clients need a token: see `tokens`.
    pub verify_tokens: bool,
    /// How the sidecar is reached where it asks for TLS: the cluster's `transport_socket`.
    pub sidecar_transport: Option<Value>,
}

/// Which build of the filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Filter {
    #[default]
    Shipped,
    /// It dies of a header, see `POISON_HEADER`.
    Poisonable,
}

/// What Envoy logs when the filter calls something that its configuration does not allow.
pub const RESTRICTED: &str = "restricted proxy-wasm capability";

/// Kills the VM of a poisonable filter.
pub const POISON_HEADER: &str = "x-berth-poison";

/// Where Envoy finds its listeners.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Listeners {
    /// In its configuration, for as long as it lives.
    #[default]
    Fixed,
    /// In a file of their own, which may be replaced while Envoy runs.
    Watched,
}

/// How long a listener that was replaced serves what it has, where listeners are watched.
pub const DRAIN_S: u64 = 3;

/// How an Envoy makes room for the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Restarts {
    /// It ends before the next begins.
    #[default]
    Cold,
    /// The next takes its sockets over while it goes on with the connections it has.
    Hot,
}

/// How long the former process of a hot restart goes on: longer than it drains.
pub const FORMER_S: u64 = 6;

#[derive(Debug)]
pub struct Envoy {
    pub process: Process,
    settings: Settings,
    directory: PathBuf,
    /// Hot restarts so far.
    epoch: u32,
}

impl Envoy {
    /// `adjust` may change the filter's settings, or the constants of the Lua filter.
    pub fn start(settings: Settings, adjust: impl FnOnce(&mut Value), directory: &Path) -> Self {
        Self::start_amended(settings, adjust, |_| {}, directory)
    }

    /// The same; `amend` may put more beside what is shipped, in Envoy's own words.
    pub fn start_amended(
        settings: Settings,
        adjust: impl FnOnce(&mut Value),
        amend: impl FnOnce(&mut Value),
        directory: &Path,
    ) -> Self {
        let mut config = config::configuration(&settings, adjust);
        amend(&mut config);
        if settings.listeners == Listeners::Watched {
            let file = directory.join(listeners_file(&settings));
            write(&file, &config::take_listeners(&mut config, &file));
        }
        write(&directory.join(config_file(&settings)), &config);
        Self {
            process: launch(&settings, 0, directory),
            settings,
            directory: directory.to_path_buf(),
            epoch: 0,
        }
    }

    /// Starts it again where it was, with the configuration it had.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.start_again().await;
    }

    /// Starts it again after it has ended.
    pub async fn start_again(&mut self) {
        let what = format!("the ports of {} are free again", self.settings.name);
        eventually(&what, async || {
            ports::is_free(self.settings.listen) && ports::is_free(self.settings.admin)
        })
        .await;
        self.epoch = 0;
        self.process = launch(&self.settings, self.epoch, &self.directory);
        self.ready().await;
    }

    /// Starts the next process beside this one, which hands its sockets over, ends `FORMER_S` later,
    /// and is returned.
    pub async fn hot_restart(&mut self) -> Process {
        self.epoch += 1;
        let next = launch(&self.settings, self.epoch, &self.directory);
        let former = std::mem::replace(&mut self.process, next);
        let what = format!("{} has been taken over", self.settings.name);
        eventually(&what, async || {
            self.process.expect_running();
            self.stat("server.hot_restart_epoch").await == u64::from(self.epoch)
        })
        .await;
        self.ready().await;
        former
    }

    /// Replaces the listener by one that differs a little, as an operator's change does.
    pub fn change_listener(&self, adjust: impl FnOnce(&mut Value)) {
        let file = self.directory.join(listeners_file(&self.settings));
        let mut listeners = read(&file);
        adjust(&mut listeners["resources"][0]);
        // Moved into place whole: only that does Envoy take notice of.
        let next = file.with_extension("next");
        write(&next, &listeners);
        if let Err(error) = std::fs::rename(&next, &file) {
            panic!("{}: {error}", file.display());
        }
    }

    pub fn listen(&self) -> SocketAddr {
        self.settings.listen
    }

    /// The listener without Berth, if there is one.
    pub fn least_request(&self) -> Option<SocketAddr> {
        self.settings.least_request
    }

    pub fn admin(&self) -> SocketAddr {
        self.settings.admin
    }

    pub fn client(&self) -> Client {
        Client::new(self.settings.listen)
    }

    pub async fn ready(&self) {
        let admin = Target::from(self.settings.admin);
        let what = format!("{} says it is ready", self.settings.name);
        eventually(&what, async || {
            self.process.expect_running();
            http::get(&admin, "/ready")
                .await
                .is_ok_and(|answer| answer.status() == 200)
        })
        .await;
    }

    /// Every counter and gauge whose name contains `part`.
    pub async fn stats(&self, part: &str) -> Vec<(String, u64)> {
        let answer = http::get(&Target::from(self.settings.admin), "/stats").await;
        let text = answer.map(|answer| String::from_utf8_lossy(answer.body()).into_owned());
        let text = text.unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.rsplit_once(": "));
        pairs
            .filter(|(name, _)| name.contains(part))
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
            .collect()
    }

    /// The sum of all counters and gauges whose name contains `part`.
    pub async fn stat(&self, part: &str) -> u64 {
        self.stats(part)
            .await
            .into_iter()
            .map(|(_, value)| value)
            .sum()
    }
}

impl Drop for Envoy {
    /// The filter may call what the shipped configuration allows; Envoy logs every other call.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let refused = self.process.logged(RESTRICTED);
            assert_eq!(refused, 0, "{}", self.process.log_tail());
        }
    }
}

fn config_file(settings: &Settings) -> String {
    format!("{}.json", settings.name)
}

fn listeners_file(settings: &Settings) -> String {
    format!("{}-listeners.json", settings.name)
}

fn launch(settings: &Settings, epoch: u32, directory: &Path) -> Process {
    let name = &settings.name;
    let mut command = Command::new(paths::envoy());
    command
        .arg("--config-path")
        .arg(directory.join(config_file(settings)))
        .args(["--concurrency", &settings.concurrency.to_string()])
        .args(["--log-level", "warning"])
        .current_dir(directory);
    match settings.restarts {
        // Several Envoys on one machine would otherwise fight over one shared memory region.
        Restarts::Cold => command.arg("--disable-hot-restart"),
        Restarts::Hot => take_over(&mut command, epoch, &directory.join(format!("{name}.base"))),
    };
    if settings.listeners == Listeners::Watched {
        command.args(["--drain-time-s", &DRAIN_S.to_string()]);
    }
    Process::start(name, &mut command, directory.join(format!("{name}.log")))
}

/// The first process looks for a number that no other Envoy uses and writes it down; those that take
/// over find their former by it.
fn take_over<'a>(command: &'a mut Command, epoch: u32, base: &Path) -> &'a mut Command {
    command
        .args(["--drain-time-s", &DRAIN_S.to_string()])
        .args(["--parent-shutdown-time-s", &FORMER_S.to_string()]);
    if epoch == 0 {
        return (command.arg("--use-dynamic-base-id"))
            .arg("--base-id-path")
            .arg(base);
    }
    let base = std::fs::read_to_string(base).unwrap_or_default();
    command
        .args(["--base-id", base.trim()])
        .args(["--restart-epoch", &epoch.to_string()])
}

fn write(file: &Path, content: &Value) {
    if let Err(error) = std::fs::write(file, format!("{content:#}")) {
        panic!("{}: {error}", file.display());
    }
}

fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    match serde_json::from_str(&text) {
        Ok(value) => value,
        Err(error) => panic!("{}: {error}", file.display()),
    }
}
