//! The builder that every test starts with.
//!
//! `let fleet = Fleet::new().envoys(2).workers(1).max_concurrent(2).up().await;`

use crate::api::{Api, PoolView, WorkerState};
use crate::backend::Backend;
use crate::client::{Client, Visit};
use crate::envoy::{self, Envoy, RouteBy};
use crate::ports;
use crate::redis::Redis;
use crate::sidecar::{self, Sidecar};
use crate::wait::{DEADLINE, holds_within};
use crate::worker::{self, Worker};
use admission::id::{PoolName, WorkerId};
use admission::policy::{Policy, Strategy};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use tempfile::TempDir;

/// A change to the filter's settings, made for each Envoy.
type AdjustFilter = Box<dyn Fn(&mut Value)>;

/// How long a patient fleet waits: shorter than a client does.
const PATIENCE_MS: u64 = 10_000;

/// A fleet to be raised. Each test raises its own, with a Redis of its own.
pub struct Fleet {
    envoys: usize,
    sidecars: Option<usize>,
    unix_sockets: bool,
    workers: usize,
    strangers: usize,
    route_by: RouteBy,
    policy: Policy,
    heartbeat: Duration,
    restart: Duration,
    delays: Vec<Duration>,
    least_request: bool,
    patient: bool,
    adjust_filter: AdjustFilter,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").finish_non_exhaustive()
    }
}

impl Default for Fleet {
    fn default() -> Self {
        Self::new()
    }
}

impl Fleet {
    pub fn new() -> Self {
        Self {
            envoys: 1,
            sidecars: None,
            unix_sockets: false,
            workers: 1,
            strangers: 0,
            route_by: RouteBy::OriginalDst,
            policy: Policy {
                // Chance would make tests tell different stories.
                strategy: Strategy::LifetimeFirst,
                // No test but those of lifetimes should reach it.
                max_lifetime: 1_000_000,
                ..Policy::default()
            },
            heartbeat: Duration::from_millis(100),
            restart: Duration::from_millis(100),
            delays: vec![Duration::ZERO],
            least_request: false,
            patient: true,
            adjust_filter: Box::new(|_| {}),
        }
    }

    pub fn envoys(self, envoys: usize) -> Self {
        Self { envoys, ..self }
    }

    /// One per Envoy unless said otherwise; Envoys take turns.
    pub fn sidecars(self, sidecars: usize) -> Self {
        Self {
            sidecars: Some(sidecars),
            ..self
        }
    }

    /// Envoy talks to its sidecar over a Unix socket.
    pub fn unix_sockets(self) -> Self {
        Self {
            unix_sockets: true,
            ..self
        }
    }

    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// Further workers, last in the list, that are in the pool but not in Envoy's cluster.
    pub fn strangers(self, strangers: usize) -> Self {
        Self { strangers, ..self }
    }

    pub fn route_by(self, route_by: RouteBy) -> Self {
        Self { route_by, ..self }
    }

    pub fn max_concurrent(self, max_concurrent: u32) -> Self {
        self.policy(|policy| policy.max_concurrent = max_concurrent)
    }

    pub fn policy(mut self, adjust: impl FnOnce(&mut Policy)) -> Self {
        adjust(&mut self.policy);
        self
    }

    /// Changes the filter's settings, e.g. `.filter(|filter| filter["admit"] = json!("everything"))`.
    pub fn filter(self, adjust: impl Fn(&mut Value) + 'static) -> Self {
        Self {
            adjust_filter: Box::new(adjust),
            ..self
        }
    }

    pub fn heartbeat_ms(self, heartbeat_ms: u64) -> Self {
        Self {
            heartbeat: Duration::from_millis(heartbeat_ms),
            ..self
        }
    }

    /// How long a worker's restart takes.
    pub fn restart_ms(self, restart_ms: u64) -> Self {
        Self {
            restart: Duration::from_millis(restart_ms),
            ..self
        }
    }

    /// How long a worker thinks before it answers.
    pub fn delay_ms(self, delay_ms: u64) -> Self {
        self.delays_ms(&[delay_ms])
    }

    /// The same for workers that differ; they take turns.
    pub fn delays_ms(self, delays_ms: &[u64]) -> Self {
        Self {
            delays: delays_ms
                .iter()
                .copied()
                .map(Duration::from_millis)
                .collect(),
            ..self
        }
    }

    /// Each Envoy also has a listener without Berth, where its own LEAST_REQUEST chooses a worker.
    pub fn least_request(self) -> Self {
        Self {
            least_request: true,
            ..self
        }
    }

    /// With the timeouts that are shipped, for what is about time. Without, nobody gives up on a slow
    /// answer, so that a busy machine does not look like an outage.
    pub fn impatient(self) -> Self {
        Self {
            patient: false,
            ..self
        }
    }

    /// Starts everything at once, then waits until everything is ready.
    pub async fn up(self) -> RunningFleet {
        let directory = scratch();
        let redis = Redis::start(ports::free(), directory.path());
        let sidecars = self.start_sidecars(&redis, &directory);
        let workers = self.start_workers(&sidecars).await;
        let backend = Backend::start(ports::free())
            .await
            .expect("a plain backend");
        let envoys = self.start_envoys(&sidecars, &workers, &backend, &directory);
        let fleet = RunningFleet {
            envoys,
            workers,
            backend,
            sidecars,
            redis,
            directory,
        };
        fleet.ready().await;
        fleet
    }

    fn start_sidecars(&self, redis: &Redis, directory: &TempDir) -> Vec<Sidecar> {
        let socket = |number| directory.path().join(format!("sidecar-{number}.sock"));
        let settings = |number| sidecar::Settings {
            name: format!("sidecar-{number}"),
            listen: ports::free(),
            socket: self.unix_sockets.then(|| socket(number)),
            redis_url: redis.url(),
            pool: pool(),
            policy: self.policy.clone(),
            reap_ms: 50,
            patience_ms: self.patient.then_some(PATIENCE_MS),
        };
        (1..=self.sidecars.unwrap_or(self.envoys))
            .map(|number| Sidecar::start(settings(number), directory.path()))
            .collect()
    }

    async fn start_workers(&self, sidecars: &[Sidecar]) -> Vec<Worker> {
        let mut workers = Vec::new();
        for number in 1..=self.workers + self.strangers {
            let settings = worker::Settings {
                sidecar: sidecars[number % sidecars.len()].target(),
                pool: pool(),
                id: WorkerId::parse(&format!("worker-{number}")).expect("a worker id"),
                listen: ports::free(),
                advertise: None,
                delay: self.delays[(number - 1) % self.delays.len()],
                heartbeat: self.heartbeat,
                restart: self.restart,
                max_concurrent: None,
                fail_upgrade_with: None,
            };
            workers.push(Worker::start(settings).await.expect("a worker"));
        }
        workers
    }

    fn start_envoys(
        &self,
        sidecars: &[Sidecar],
        workers: &[Worker],
        backend: &Backend,
        directory: &TempDir,
    ) -> Vec<Envoy> {
        let settings = |number: usize| envoy::Settings {
            name: format!("envoy-{number}"),
            route_by: self.route_by,
            listen: ports::free(),
            least_request: self.least_request.then(ports::free),
            admin: ports::free(),
            sidecar: sidecars[(number - 1) % sidecars.len()].door(),
            passthrough: backend.address(),
            workers: (workers.iter().take(self.workers))
                .map(Worker::address)
                .collect(),
            concurrency: 1,
        };
        let adjust = |filter: &mut Value| {
            filter["pool"] = json!(pool());
            if self.patient {
                filter["ask_timeout_ms"] = json!(PATIENCE_MS);
                filter["watchdog_ms"] = json!(PATIENCE_MS);
            }
            (self.adjust_filter)(filter);
        };
        (1..=self.envoys)
            .map(|number| Envoy::start(settings(number), adjust, directory.path()))
            .collect()
    }
}

/// A directory for the logs of one test; its name tells where those come from that stay.
pub fn scratch() -> TempDir {
    let directory = tempfile::Builder::new().prefix("berth-test-").tempdir();
    directory.expect("a directory for logs")
}

/// Each fleet has its own Redis, so one name does for all.
pub fn pool() -> PoolName {
    PoolName::parse("demo").expect("a pool name")
}

/// A fleet in service. Dropping it ends every process.
#[derive(Debug)]
pub struct RunningFleet {
    pub envoys: Vec<Envoy>,
    pub workers: Vec<Worker>,
    pub backend: Backend,
    pub sidecars: Vec<Sidecar>,
    pub redis: Redis,
    directory: TempDir,
}

impl RunningFleet {
    async fn ready(&self) {
        self.redis.ready().await;
        join_all(self.sidecars.iter().map(Sidecar::ready)).await;
        join_all(self.envoys.iter().map(Envoy::ready)).await;
        let workers = self.workers.len();
        self.sees("all workers available", |pool| pool.available() == workers)
            .await;
    }

    /// A client of the first Envoy.
    pub fn client(&self) -> Client {
        self.envoys[0].client()
    }

    /// The first sidecar.
    pub fn api(&self) -> Api {
        self.sidecars[0].api()
    }

    pub async fn view(&self) -> PoolView {
        match self.api().view().await {
            Ok(view) => view,
            Err(error) => panic!("no view of the pool: {error}"),
        }
    }

    /// Waits until the pool, as any sidecar shows it, satisfies `condition`.
    pub async fn sees(&self, what: &str, mut condition: impl FnMut(&PoolView) -> bool) {
        let mut last = String::from("nothing");
        let holds = holds_within(DEADLINE, async || {
            for sidecar in &self.sidecars {
                if let Ok(view) = sidecar.api().view().await {
                    last = format!("{view:#?}");
                    return condition(&view);
                }
            }
            false
        });
        let held = holds.await;
        assert!(
            held,
            "not within {} s: {what}; last seen: {last}",
            DEADLINE.as_secs()
        );
    }

    /// Opens `count` WebSockets at the same time, spread over the Envoys.
    pub async fn websockets(&self, count: usize) -> Vec<Visit> {
        let client = |number: usize| self.envoys[number % self.envoys.len()].client();
        join_all((0..count).map(|number| async move { client(number).websocket("/").await })).await
    }

    /// Checks what must hold at any moment: no worker above its limits, sums that add up.
    pub async fn assert_consistent(&self) {
        let view = self.view().await;
        let active: u64 = view.workers.iter().map(|worker| worker.active).sum();
        assert_eq!(active, view.active, "{view:#?}");
        for worker in &view.workers {
            assert!(
                worker.active <= u64::from(view.policy.max_concurrent),
                "{view:#?}"
            );
            assert!(
                worker.lifetime <= u64::from(view.policy.max_lifetime),
                "{view:#?}"
            );
            assert!(worker.active <= worker.lifetime, "{view:#?}");
        }
        for worker in &self.workers {
            let excess = worker
                .journal()
                .longest_excess(view.policy.max_concurrent as usize);
            let allowed = Duration::from_millis(100);
            assert!(
                excess <= allowed,
                "{}: too many sessions for {excess:?}",
                worker.id()
            );
        }
    }

    pub async fn state_of(&self, worker: &str) -> Option<WorkerState> {
        self.view().await.state(worker)
    }

    fn log_tails(&self) -> String {
        let processes = (self.envoys.iter().map(|envoy| &envoy.process))
            .chain(self.sidecars.iter().map(|sidecar| &sidecar.process))
            .chain([&self.redis.process]);
        let tails: Vec<String> = processes.map(|process| process.log_tail()).collect();
        tails.join("\n")
    }
}

impl Drop for RunningFleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.directory.disable_cleanup(true);
            let logs = self.directory.path().display();
            eprintln!("{}\n--- all logs stay in {logs}", self.log_tails());
        }
    }
}
