//! A fleet of containers, raised by the compose.yaml that is shipped: `make images` has built them.
//!
//! `let fleet = Compose::new().workers(6).up().await;`
//!
//! Every fleet is a project of its own, with ports and networks of its own, and all of it is removed with the
//! fleet, whatever became of the test.

mod engine;
mod fleet;
mod journals;
mod project;
mod sentinels;

pub use fleet::ComposeFleet;

use project::Project;
use serde_json::{Value, json};
use std::time::Instant;

/// A fleet of containers to be raised.
#[derive(Debug, Clone)]
pub struct Compose {
    workers: usize,
    max_concurrent: u32,
    redis: Redis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redis {
    Alone,
    /// The profile `sentinel`.
    Watched,
}

impl Default for Compose {
    fn default() -> Self {
        Self::new()
    }
}

impl Compose {
    pub fn new() -> Self {
        Self {
            workers: 2,
            max_concurrent: 2,
            redis: Redis::Alone,
        }
    }

    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    pub fn max_concurrent(self, max_concurrent: u32) -> Self {
        Self {
            max_concurrent,
            ..self
        }
    }

    /// With two replicas and three Sentinels.
    pub fn sentinels(self) -> Self {
        Self {
            redis: Redis::Watched,
            ..self
        }
    }

    /// `docker compose up`, then waits until everything is in service.
    pub async fn up(self) -> ComposeFleet {
        engine::expect_answer();
        let start = Instant::now();
        let project = Project::new(self.redis == Redis::Watched);
        project.write_override(&self.settings(&project));
        project.up(self.workers);
        let fleet = ComposeFleet::of(project, self.workers);
        fleet.ready().await;
        eprintln!("raised in {:.1} s", start.elapsed().as_secs_f64());
        fleet
    }

    /// What differs from the shipped file: limits, doors to the second sidecar and to the Envoys' figures,
    /// journals, and networks whose addresses are known, so that whoever is cut off comes back where it was.
    fn settings(&self, project: &Project) -> Value {
        let policy = json!({
            "BERTH__POOLS__DEMO__MAX_CONCURRENT": self.max_concurrent.to_string(),
            // No test here is about lifetimes.
            "BERTH__POOLS__DEMO__MAX_LIFETIME": "1000000",
        });
        let second = json!({
            "environment": policy,
            "ports": [format!("127.0.0.1:{}:7071", project.second_operator_port)],
            "networks": {"front": {}},
        });
        let envoy = |number: usize| {
            let port = project.metrics[number].port();
            json!({"ports": [format!("127.0.0.1:{port}:9902")]})
        };
        let worker = json!({
            "environment": {"BERTH_WORKER_JOURNAL": "/journal"},
            "volumes": [format!("{}:/journal", project.journals().display())],
        });
        let network = |(number, name): (usize, &&str)| {
            let subnet = project.subnet(number);
            let settings = json!({"ipam": {"config": [{"subnet": subnet}]}});
            ((*name).to_owned(), settings)
        };
        let networks: serde_json::Map<String, Value> =
            project::NETWORKS.iter().enumerate().map(network).collect();
        json!({
            "services": {
                "sidecar-1": {"environment": policy},
                "sidecar-2": second,
                "envoy-1": envoy(0),
                "envoy-2": envoy(1),
                "worker": worker,
            },
            "networks": networks,
        })
    }
}
