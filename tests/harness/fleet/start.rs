//! Raises what the builder describes.

use super::{Fleet, RunningFleet, pool, scratch};
use crate::backend::Backend;
use crate::envoy::{self, Envoy, RouteBy};
use crate::fault_proxy::FaultProxy;
use crate::http::Target;
use crate::ports;
use crate::redis::Redis;
use crate::sidecar::{self, Sidecar};
use crate::worker::{self, Worker};
use admission::id::WorkerId;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tempfile::TempDir;

/// How long a patient fleet waits: shorter than a client does.
const PATIENCE_MS: u64 = 10_000;

impl Fleet {
    /// Starts everything at once, then waits until everything is ready.
    pub async fn up(self) -> RunningFleet {
        let directory = scratch();
        let redis = Redis::start_with(ports::free(), self.redis, directory.path());
        let redis_links = links(
            self.redis_links,
            vec![redis.address(); self.sidecar_count()],
        );
        let redis_links = redis_links.await;
        let sidecars = self.start_sidecars(&redis, &redis_links, &directory);
        let doors: Vec<SocketAddr> = (0..self.envoys)
            .map(|number| sidecars[number % sidecars.len()].listen())
            .collect();
        let sidecar_links = links(self.sidecar_links, doors).await;
        let workers = self.start_workers(&sidecars).await;
        let backend = Backend::start(ports::free())
            .await
            .expect("a plain backend");
        let envoys = self.start_envoys(&sidecars, &sidecar_links, &workers, &backend, &directory);
        let fleet = RunningFleet {
            envoys,
            workers,
            backend,
            sidecars,
            redis,
            redis_links,
            sidecar_links,
            directory,
        };
        fleet.ready().await;
        fleet
    }

    fn sidecar_count(&self) -> usize {
        let wanted = self.sidecars.unwrap_or(self.envoys);
        if self.spare { wanted.max(2) } else { wanted }
    }

    fn start_sidecars(
        &self,
        redis: &Redis,
        links: &[FaultProxy],
        directory: &TempDir,
    ) -> Vec<Sidecar> {
        let socket = |number| directory.path().join(format!("sidecar-{number}.sock"));
        let settings = |number: usize| sidecar::Settings {
            name: format!("sidecar-{number}"),
            listen: ports::free(),
            socket: self.unix_sockets.then(|| socket(number)),
            redis_url: match links.get(number - 1) {
                Some(link) => format!("redis://{}", link.address()),
                None => redis.url(),
            },
            pool: pool(),
            policy: self.policy.clone(),
            reap_ms: self.reap_ms,
            patience_ms: self.patient.then_some(PATIENCE_MS),
            more: self.sidecar_settings.clone(),
        };
        (1..=self.sidecar_count())
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
        links: &[FaultProxy],
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
            sidecar: match links.get(number - 1) {
                Some(link) => Target::from(link.address()),
                None => sidecars[(number - 1) % sidecars.len()].door(),
            },
            spare: self.spare.then(|| sidecars[number % sidecars.len()].door()),
            passthrough: backend.address(),
            workers: (workers.iter().take(self.workers))
                .map(Worker::address)
                .collect(),
            concurrency: 1,
            listeners: self.listeners,
            restarts: self.restarts,
            filter: self.filter,
            verify_tokens: self.verify_tokens,
        };
        let adjust = |filter: &mut Value| {
            match self.route_by {
                RouteBy::OriginalDst | RouteBy::StatefulSession => {
                    filter["pool"] = json!(pool());
                    if self.patient {
                        filter["ask_timeout_ms"] = json!(PATIENCE_MS);
                        filter["watchdog_ms"] = json!(PATIENCE_MS);
                    }
                }
                RouteBy::LuaFilter if self.patient => filter["TIMEOUT_MS"] = json!(PATIENCE_MS),
                RouteBy::LuaFilter => {}
            }
            (self.adjust_filter)(filter);
        };
        (1..=self.envoys)
            .map(|number| Envoy::start(settings(number), adjust, directory.path()))
            .collect()
    }
}

/// One link to each of these, if links are wanted.
async fn links(wanted: bool, upstreams: Vec<SocketAddr>) -> Vec<FaultProxy> {
    let mut links = Vec::new();
    for upstream in upstreams.into_iter().filter(|_| wanted) {
        let link = FaultProxy::start(ports::free(), upstream).await;
        links.push(link.expect("a link"));
    }
    links
}
