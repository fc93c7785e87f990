//! Containers in service, and what can be done to them.

use super::engine;
use super::journals::Written;
use super::project::Project;
use crate::api::Api;
use crate::client::Client;
use crate::fault::{Fault, Link, Part, Raised};
use crate::fleet::{Outlook, pool};
use crate::http::{self, Target};
use crate::wait::{eventually, holds_within};
use std::collections::HashMap;
use std::ops::Deref;
use std::time::{Duration, Instant};

/// Containers start side by side, and a busy machine has little time for each.
const STARTED_IN: Duration = Duration::from_secs(60);

/// Containers in service. Dropping it removes all of them, with their networks and volumes.
#[derive(Debug)]
pub struct ComposeFleet {
    outlook: Outlook,
    journals: Written,
    /// Where in a network whoever was cut off was.
    away: HashMap<(String, String), Seat>,
    pub(super) project: Project,
}

#[derive(Debug, Clone)]
struct Seat {
    address: String,
    aliases: Vec<String>,
}

impl Deref for ComposeFleet {
    type Target = Outlook;

    fn deref(&self) -> &Outlook {
        &self.outlook
    }
}

impl ComposeFleet {
    pub(super) fn of(project: Project, workers: usize) -> Self {
        let sidecar = &project.containers("sidecar-1")[0];
        let token = engine::must(&["exec", sidecar, "cat", "/secrets/sidecar/operator.tokens"]);
        let journals = Written::new(project.journals(), workers);
        let api = |address| Api::new(Target::from(address), pool()).with_token(Some(token.clone()));
        Self {
            outlook: Outlook {
                clients: project.envoys.map(Client::new).into(),
                apis: project.operators().map(api).into(),
                journals: Box::new(journals.clone()),
            },
            journals,
            away: HashMap::new(),
            project,
        }
    }

    pub(super) async fn ready(&self) {
        self.all_well().await;
        self.all_workers().await;
    }

    /// Waits until both Envoys answer and know both sidecars.
    pub async fn all_well(&self) {
        for envoy in [0, 1] {
            let well = holds_within(STARTED_IN, async || {
                let answer = self.clients[envoy].try_get("/").await;
                answer.is_ok_and(|answer| answer.status() == 200)
                    && self.healthy_sidecars(envoy).await == 2
            });
            assert!(well.await, "Envoy {envoy} never knew both sidecars");
        }
    }

    /// Waits until there are as many workers as there are to be.
    pub async fn all_workers(&self) {
        let workers = self.outlook.journals.workers();
        let all = holds_within(STARTED_IN, async || {
            let view = self.api().view().await;
            view.is_ok_and(|pool| pool.available() == workers && !pool.rebuilding)
        });
        assert!(all.await, "there were never {workers} workers");
    }

    /// `docker compose up --scale worker=N`, while everything goes on.
    pub async fn scale(&self, workers: usize) {
        let scale = format!("worker={workers}");
        self.compose(&[
            "up",
            "--detach",
            "--no-build",
            "--no-recreate",
            "--scale",
            &scale,
        ])
        .await;
        self.journals.set_workers(workers);
    }

    /// A new container in place of one that is ended first, as for a new version.
    pub async fn replace(&self, part: Part) {
        self.compose(&[
            "up",
            "--detach",
            "--no-build",
            "--no-deps",
            "--force-recreate",
            service(part),
        ])
        .await;
    }

    /// Runs beside the test, whose clients go on.
    async fn compose(&self, arguments: &[&str]) {
        let mut command = self.project.compose();
        command.args(arguments);
        let ended = tokio::task::spawn_blocking(move || engine::run(&mut command)).await;
        if let Ok(Err(error)) = ended {
            panic!("compose {}: {error}", arguments.join(" "));
        }
    }

    pub(super) async fn docker(&self, arguments: &[&str]) -> String {
        let owned: Vec<String> = arguments.iter().map(|&it| it.to_owned()).collect();
        let asked = move || {
            let arguments: Vec<&str> = owned.iter().map(String::as_str).collect();
            engine::must(&arguments)
        };
        match tokio::task::spawn_blocking(asked).await {
            Ok(output) => output,
            Err(error) => panic!("docker {}: {error}", arguments.join(" ")),
        }
    }

    pub(super) fn container(&self, part: Part) -> String {
        let number = match part {
            Part::Worker(number) => number,
            Part::Envoy(_) | Part::Sidecar(_) | Part::Redis => 0,
        };
        let containers = self.project.containers(service(part));
        match containers.get(number) {
            Some(container) => container.clone(),
            None => panic!("there is no container of {part:?}"),
        }
    }

    /// The place in the fleet of the worker that clients know by this name.
    pub fn worker_named(&self, name: &str) -> usize {
        let containers = self.project.containers(service(Part::Worker(0)));
        let place = containers.iter().position(|id| worker_name(id) == name);
        place.unwrap_or_else(|| panic!("there is no {name}"))
    }

    /// How long its container takes from `docker start` until it serves, after a kill.
    pub async fn start_time(&mut self, part: Part) -> Duration {
        self.harm(Fault::Killed(part)).await;
        let container = self.container(part);
        let check: &[&str] = match part {
            Part::Envoy(_) => &["http-ok", "9901", "/ready"],
            Part::Sidecar(_) => &["http-ok", "7070", "/readyz"],
            Part::Worker(_) => &["http-ok", "8080", "/healthz"],
            Part::Redis => &["redis-healthy"],
        };
        let start = Instant::now();
        self.docker(&["start", &container]).await;
        let check = [&["exec", &container], check].concat();
        eventually("it serves", async || engine::docker(&check).is_ok()).await;
        start.elapsed()
    }

    /// Neither an Envoy nor a worker finds Redis, by its name or by its address; a sidecar does.
    pub async fn assert_redis_is_for_sidecars_only(&self) {
        let redis = self.container(Part::Redis);
        let address = self.docker(&["exec", &redis, "hostname", "-i"]).await;
        let reaches = |part: Part| {
            let knock = format!("timeout 2 bash -c 'exec 3<>/dev/tcp/{address}/6379'");
            engine::docker(&["exec", &self.container(part), "bash", "-c", &knock]).is_ok()
        };
        assert!(reaches(Part::Sidecar(0)) && reaches(Part::Sidecar(1)));
        assert!(!reaches(Part::Envoy(0)) && !reaches(Part::Worker(0)));
    }

    /// The container to take out of a network, to cut a link.
    fn ends(&self, link: Link) -> (String, &'static str) {
        match link {
            // Each sidecar has a network for those who ask it, and each Envoy is in both.
            Link::ToSidecar(0) => (self.container(Part::Envoy(0)), "link-1"),
            Link::ToSidecar(number) => (self.container(Part::Envoy(number)), "link-2"),
            Link::ToRedis(number) => (self.container(Part::Sidecar(number)), "store"),
            Link::OfWorker(number) => (self.container(Part::Worker(number)), "work"),
        }
    }

    async fn disconnect(&mut self, link: Link) {
        let (container, network) = self.ends(link);
        let network = format!("{}_{network}", self.project.name);
        let format = format!("{{{{json (index .NetworkSettings.Networks \"{network}\")}}}}");
        let told = self
            .docker(&["inspect", "--format", &format, &container])
            .await;
        let told: serde_json::Value = serde_json::from_str(&told).unwrap_or_default();
        let aliases = told["Aliases"].as_array().into_iter().flatten();
        let seat = Seat {
            address: told["IPAddress"].as_str().unwrap_or_default().to_owned(),
            aliases: aliases
                .filter_map(|it| it.as_str().map(str::to_owned))
                .collect(),
        };
        self.docker(&["network", "disconnect", &network, &container])
            .await;
        self.away.insert((container, network), seat);
    }

    async fn reconnect(&mut self, link: Link) {
        let (container, network) = self.ends(link);
        let network = format!("{}_{network}", self.project.name);
        let Some(seat) = self.away.remove(&(container.clone(), network.clone())) else {
            panic!("{link:?} is not cut");
        };
        let mut arguments = vec!["network", "connect", "--ip", &seat.address];
        for alias in &seat.aliases {
            arguments.extend(["--alias", alias]);
        }
        arguments.extend([network.as_str(), &container]);
        self.docker(&arguments).await;
    }
}

impl Raised for ComposeFleet {
    async fn harm(&mut self, fault: Fault) {
        match fault {
            Fault::Killed(part) => {
                let container = self.container(part);
                self.docker(&["kill", &container]).await;
                if let Part::Worker(_) = part {
                    self.journals.died(worker_name(&container));
                }
            }
            Fault::Ended(part) => {
                let container = self.container(part);
                self.docker(&["stop", &container]).await;
            }
            Fault::Stopped(part) => {
                let container = self.container(part);
                self.docker(&["pause", &container]).await;
            }
            Fault::Cut(link) => self.disconnect(link).await,
        }
    }

    async fn heal(&mut self, fault: Fault) {
        match fault {
            Fault::Killed(part) | Fault::Ended(part) => {
                let container = self.container(part);
                self.docker(&["start", &container]).await;
            }
            Fault::Stopped(part) => {
                let container = self.container(part);
                self.docker(&["unpause", &container]).await;
            }
            Fault::Cut(link) => self.reconnect(link).await,
        }
    }

    async fn healthy_sidecars(&self, envoy: usize) -> u64 {
        const NAME: &str =
            r#"envoy_cluster_membership_healthy{envoy_cluster_name="berth_sidecar"} "#;
        let metrics = Target::from(self.project.metrics[envoy]);
        let Ok(answer) = http::get(&metrics, "/stats/prometheus").await else {
            return 0;
        };
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(NAME));
        lines
            .next()
            .and_then(|value| value.parse().ok())
            .unwrap_or(0)
    }
}

/// As worker-start calls it: by its host's name, which is the short one of its container.
fn worker_name(container: &str) -> String {
    format!("worker-{}", &container[..12])
}

/// Its name in compose.yaml.
fn service(part: Part) -> &'static str {
    match part {
        Part::Envoy(0) => "envoy-1",
        Part::Envoy(_) => "envoy-2",
        Part::Sidecar(0) => "sidecar-1",
        Part::Sidecar(_) => "sidecar-2",
        Part::Redis => "redis",
        Part::Worker(_) => "worker",
    }
}
