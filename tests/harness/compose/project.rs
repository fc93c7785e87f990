//! One project of Compose: its name, its files, its containers. Dropping it removes all of it.

use super::engine::{self, must};
use crate::fleet::scratch;
use crate::{paths, ports};
use serde_json::Value;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// Those of compose.yaml.
pub(super) const NETWORKS: [&str; 5] = ["front", "link-1", "link-2", "work", "store"];

/// Projects of this process so far.
static COUNT: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
pub(super) struct Project {
    pub(super) name: String,
    number: usize,
    with_sentinels: bool,
    pub(super) envoys: [SocketAddr; 2],
    operator_port: u16,
    pub(super) second_operator_port: u16,
    /// Where each Envoy tells its figures.
    pub(super) metrics: [SocketAddr; 2],
    directory: TempDir,
}

impl Project {
    pub(super) fn new(with_sentinels: bool) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // scripts/test-compose.sh removes what has its prefix, should this process be killed.
        let prefix = std::env::var("BERTH_COMPOSE_PROJECT").unwrap_or_else(|_| "berth-test".into());
        let directory = scratch();
        let journals = directory.path().join("journals");
        // Workers are nobody here.
        let made = std::fs::create_dir(&journals).and_then(|()| {
            std::fs::set_permissions(&journals, std::fs::Permissions::from_mode(0o777))
        });
        if let Err(error) = made {
            panic!("{}: {error}", journals.display());
        }
        Self {
            name: format!("{prefix}-{}-{number}", std::process::id()),
            number,
            with_sentinels,
            envoys: [ports::free(), ports::free()],
            operator_port: ports::free().port(),
            second_operator_port: ports::free().port(),
            metrics: [ports::free(), ports::free()],
            directory,
        }
    }

    pub(super) fn operators(&self) -> [SocketAddr; 2] {
        [self.operator_port, self.second_operator_port].map(ports::loopback)
    }

    pub(super) fn journals(&self) -> PathBuf {
        self.directory.path().join("journals")
    }

    /// Of private addresses that few use: another for each network of each project.
    pub(super) fn subnet(&self, network: usize) -> String {
        let process = std::process::id() as usize;
        let place = 64 + (process + self.number) % 128;
        format!("10.{place}.{}.0/24", 200 + network)
    }

    fn override_file(&self) -> PathBuf {
        self.directory.path().join("override.yaml")
    }

    pub(super) fn write_override(&self, settings: &Value) {
        // JSON is YAML.
        if let Err(error) = std::fs::write(self.override_file(), format!("{settings:#}")) {
            panic!("{}: {error}", self.override_file().display());
        }
    }

    /// A command of Compose on this project.
    pub(super) fn compose(&self) -> Command {
        let mut command = engine::compose();
        command
            .arg("--project-directory")
            .arg(paths::top())
            .args(["--project-name", &self.name, "--file"])
            .arg(paths::top().join("compose.yaml"))
            .arg("--file")
            .arg(self.override_file());
        if self.with_sentinels {
            command
                .arg("--env-file")
                .arg(paths::top().join("docker/sentinel.env"));
        }
        command
            .env("BERTH_ENVOY_1_PORT", self.envoys[0].port().to_string())
            .env("BERTH_ENVOY_2_PORT", self.envoys[1].port().to_string())
            .env("BERTH_OPERATOR_PORT", self.operator_port.to_string());
        command
    }

    /// Raises all that is not there, with so many workers.
    pub(super) fn up(&self, workers: usize) {
        let scale = format!("worker={workers}");
        self.must(&[
            "up",
            "--detach",
            "--no-build",
            "--no-recreate",
            "--scale",
            &scale,
        ]);
    }

    /// Runs Compose, which must succeed.
    pub(super) fn must(&self, arguments: &[&str]) {
        let mut command = self.compose();
        if let Err(error) = engine::run(command.args(arguments)) {
            panic!("{command:?}: {error}\n`make images` builds the images that this needs");
        }
    }

    /// The containers of a service, by number.
    pub(super) fn containers(&self, service: &str) -> Vec<String> {
        let project = format!("label=com.docker.compose.project={}", self.name);
        let service = format!("label=com.docker.compose.service={service}");
        let format = r#"{{.Label "com.docker.compose.container-number"}} {{.ID}}"#;
        let listed = must(&[
            "ps",
            "--all",
            "--no-trunc",
            "--filter",
            &project,
            "--filter",
            &service,
            "--format",
            format,
        ]);
        let mut containers: Vec<(usize, String)> = (listed.lines())
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(number, id)| Some((number.parse().ok()?, id.to_owned())))
            .collect();
        containers.sort_unstable();
        containers.into_iter().map(|(_, id)| id).collect()
    }

    /// What every container has said, for whoever has to find out what went wrong.
    fn logs(&self) -> String {
        let mut command = self.compose();
        let logs = engine::run(command.args(["logs", "--no-color", "--tail", "60"]));
        let states = engine::run(self.compose().arg("ps"));
        let text = |output: Result<String, String>| output.unwrap_or_else(|error| error);
        format!("{}\n{}", text(logs), text(states))
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- project {}\n{}", self.name, self.logs());
        }
        let mut down = self.compose();
        down.args(["down", "--volumes", "--remove-orphans", "--timeout", "0"]);
        if let Err(error) = engine::run(&mut down) {
            eprintln!("project {} is not all removed: {error}", self.name);
        }
    }
}
