//! A private redis-server. It keeps nothing on disk, unless it is told to.

use crate::clock::Clock;
use crate::fleet;
use crate::monitor::Monitor;
use crate::ports;
use crate::process::Process;
use crate::resp;
use crate::wait::eventually;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Persistence {
    #[default]
    None,
    /// An append-only file, synced every second.
    AppendOnly,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WallClock {
    #[default]
    OfTheMachine,
    /// `Redis::clock` can make it jump.
    Jumping,
}

#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub persistence: Persistence,
    pub wall_clock: WallClock,
    /// More, as redis-server reads it: `--replicaof`, `127.0.0.1 6379`, …
    pub arguments: Vec<String>,
}

#[derive(Debug)]
pub struct Redis {
    pub process: Process,
    address: SocketAddr,
    settings: Settings,
    clock: Option<Clock>,
    directory: PathBuf,
}

impl Redis {
    pub fn start(address: SocketAddr, directory: &Path) -> Self {
        Self::start_with(address, Settings::default(), directory)
    }

    pub fn start_with(address: SocketAddr, settings: Settings, directory: &Path) -> Self {
        let clock = match settings.wall_clock {
            WallClock::OfTheMachine => None,
            WallClock::Jumping => Some(Clock::new(directory)),
        };
        Self {
            process: launch(address, &settings, clock.as_ref(), directory),
            address,
            settings,
            clock,
            directory: directory.to_path_buf(),
        }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn clock(&self) -> &Clock {
        match &self.clock {
            Some(clock) => clock,
            None => panic!("this Redis was started with the machine's own clock"),
        }
    }

    /// Kills it and starts it again where it was, with what is on disk: nothing, or its file.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.start_again().await;
    }

    /// Starts it again after it has ended.
    pub async fn start_again(&mut self) {
        eventually("the port of Redis is free again", async || {
            ports::is_free(self.address)
        })
        .await;
        self.process = launch(
            self.address,
            &self.settings,
            self.clock.as_ref(),
            &self.directory,
        );
        self.ready().await;
    }

    pub async fn ready(&self) {
        eventually("Redis answers PING", async || {
            self.process.expect_running();
            self.command("PING")
                .await
                .is_ok_and(|reply| reply == "PONG")
        })
        .await;
    }

    /// What an operator types, and the answer as text.
    pub async fn command(&self, line: &str) -> io::Result<String> {
        resp::ask(self.address, line).await
    }

    /// A line of its INFO.
    pub async fn info(&self, name: &str) -> Option<String> {
        let told = self.command("INFO").await.ok()?;
        let mut lines = told.lines().filter_map(|line| line.split_once(':'));
        lines
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.trim().to_owned())
    }

    /// The same, of a Redis that is well.
    pub async fn told(&self, line: &str) -> String {
        match self.command(line).await {
            Ok(answer) => answer,
            Err(error) => panic!("Redis, told {line}: {error}"),
        }
    }

    /// Waits until this replica has all that its primary had just now.
    pub async fn catches_up_with(&self, primary: &Self) {
        let offset = async |redis: &Self| -> u64 {
            let told = redis.info("master_repl_offset").await;
            told.and_then(|told| told.parse().ok()).unwrap_or(0)
        };
        let wanted = offset(primary).await;
        eventually("a replica catches up", async || {
            offset(self).await >= wanted
        })
        .await;
    }

    /// Whether the fleet's pool was asked for here, as one that belongs to this server.
    pub async fn has_the_pool(&self) -> bool {
        let asked = format!("HGET ws:{{{}}}:live store_id", fleet::pool());
        self.command(&asked).await.ok() == self.info("run_id").await
    }

    /// Writes down what it is asked from now on.
    pub async fn monitor(&self) -> Monitor {
        match Monitor::start(self.address).await {
            Ok(monitor) => monitor,
            Err(error) => panic!("no monitor of Redis: {error}"),
        }
    }
}

fn launch(
    address: SocketAddr,
    settings: &Settings,
    clock: Option<&Clock>,
    directory: &Path,
) -> Process {
    let program = std::env::var("REDIS_SERVER_BIN").unwrap_or_else(|_| "redis-server".into());
    let mut command = Command::new(program);
    let append_only = match settings.persistence {
        Persistence::None => "no",
        Persistence::AppendOnly => "yes",
    };
    command
        .args(["--bind", &address.ip().to_string()])
        .args(["--port", &address.port().to_string()])
        .args(["--save", "", "--appendonly", append_only])
        .args(["--appendfsync", "everysec"])
        // With eviction Redis would forget leases without a word.
        .args(["--maxmemory-policy", "noeviction"])
        .args(["--enable-debug-command", "local"])
        .arg("--dir")
        .arg(directory)
        .args(&settings.arguments);
    if let Some(clock) = clock {
        clock.preload_into(&mut command);
    }
    Process::start("redis", &mut command, directory.join("redis.log"))
}
