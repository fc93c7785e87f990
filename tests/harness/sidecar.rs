//! One `berth serve`.

use crate::api::Api;
use crate::fleet::merge;
use crate::http::Target;
use crate::paths;
use crate::process::Process;
use crate::wait::eventually;
use admission::id::PoolName;
use admission::policy::Policy;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Clone)]
pub struct Settings {
    pub name: String,
    pub listen: SocketAddr,
    /// A Unix socket to listen on as well; then Envoy uses that.
    pub socket: Option<PathBuf>,
    pub redis_url: String,
    pub pool: PoolName,
    pub policy: Policy,
    pub reap_ms: u64,
    /// How long Redis and an answer may take, where it is not to be the default.
    pub patience_ms: Option<u64>,
    /// As in `RUST_LOG`.
    pub log_level: &'static str,
    /// A door that asks who comes; then Envoy uses that.
    pub guarded: Option<SocketAddr>,
    /// Further settings, as the file has them.
    pub more: Value,
}

#[derive(Debug)]
pub struct Sidecar {
    pub process: Process,
    settings: Settings,
    directory: PathBuf,
}

impl Sidecar {
    pub fn start(settings: Settings, directory: &Path) -> Self {
        Self {
            process: launch(&settings, directory),
            settings,
            directory: directory.to_path_buf(),
        }
    }

    /// Starts it again where it was.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = launch(&self.settings, &self.directory);
        self.ready().await;
    }

    pub fn listen(&self) -> SocketAddr {
        self.settings.listen
    }

    /// Where Envoy finds it.
    pub fn door(&self) -> Target {
        match (&self.settings.socket, self.settings.guarded) {
            (_, Some(address)) => Target::from(address),
            (Some(path), None) => Target::Unix(path.clone()),
            (None, None) => self.target(),
        }
    }

    pub fn target(&self) -> Target {
        Target::from(self.settings.listen)
    }

    pub fn api(&self) -> Api {
        Api::new(self.target(), self.settings.pool.clone())
    }

    pub async fn ready(&self) {
        let api = self.api();
        let what = format!("{} says it is ready", self.settings.name);
        eventually(&what, async || {
            self.process.expect_running();
            api.is_ready().await
        })
        .await;
    }
}

fn launch(settings: &Settings, directory: &Path) -> Process {
    let file = directory.join(format!("{}.toml", settings.name));
    if let Err(error) = std::fs::write(&file, toml(settings)) {
        panic!("{}: {error}", file.display());
    }
    let mut command = Command::new(paths::program("berth"));
    command
        .arg("serve")
        .arg("--config")
        .arg(&file)
        .env("RUST_LOG", settings.log_level)
        .current_dir(directory);
    let log = directory.join(format!("{}.log", settings.name));
    Process::start(&settings.name, &mut command, log)
}

fn toml(settings: &Settings) -> String {
    let mut listen = vec![settings.listen.to_string()];
    if let Some(path) = &settings.socket {
        listen.push(format!("unix:{}", path.display()));
    }
    let mut file = json!({
        "listen": listen,
        "reap_ms": settings.reap_ms,
        // All of a fleet is on this machine.
        "workers": {"allow": ["127.0.0.0/8"]},
        "redis": {"url": settings.redis_url},
        "pools": {settings.pool.as_str(): settings.policy},
    });
    if let Some(patience_ms) = settings.patience_ms {
        file["answer_timeout_ms"] = json!(patience_ms);
        file["redis"]["timeout_ms"] = json!(patience_ms);
    }
    merge(&mut file, settings.more.clone());
    match toml::to_string(&file) {
        Ok(text) => text,
        Err(error) => panic!("{}: {error}", settings.name),
    }
}
