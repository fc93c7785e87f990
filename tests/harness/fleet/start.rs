//! Raises what the builder describes.

use super::guarded::{Guarded, WORKER_TOKEN};
use super::{Fleet, Outlook, RunningFleet, merge, pool, scratch};
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

/// What Envoys need to know of the others.
struct Surroundings<'a> {
    sidecars: &'a [Sidecar],
    /// To each Envoy's sidecar, where there are links.
    links: &'a [FaultProxy],
    guarded: Option<&'a Guarded>,
    workers: &'a [Worker],
    backend: &'a Backend,
}

impl Fleet {
    /// Starts everything at once, then waits until everything is ready.
    pub async fn up(self) -> RunningFleet {
        let directory = scratch();
        let redis = Redis::start_with(ports::free(), self.redis.clone(), directory.path());
        let redis_links = links(
            self.redis_links,
            vec![redis.address(); self.sidecar_count()],
        );
        let redis_links = redis_links.await;
        let guarded = self.guarded.map(|name| Guarded::of(name, directory.path()));
        let sidecars = self.start_sidecars(&redis, &redis_links, guarded.as_ref(), &directory);
        let doors: Vec<SocketAddr> = (0..self.envoys)
            .map(|number| sidecars[number % sidecars.len()].listen())
            .collect();
        let sidecar_links = links(self.sidecar_links, doors).await;
        let workers = self.start_workers(&sidecars, guarded.as_ref()).await;
        let backend = Backend::start(ports::free())
            .await
            .expect("a plain backend");
        let surroundings = Surroundings {
            sidecars: &sidecars,
            links: &sidecar_links,
            guarded: guarded.as_ref(),
            workers: &workers,
            backend: &backend,
        };
        let envoys = self.start_envoys(surroundings, &directory);
        let outlook = Outlook {
            clients: envoys.iter().map(Envoy::client).collect(),
            apis: sidecars.iter().map(Sidecar::api).collect(),
            journals: Box::new(workers.iter().map(Worker::record).collect::<Vec<_>>()),
        };
        let fleet = RunningFleet {
            envoys,
            workers,
            backend,
            sidecars,
            redis,
            redis_links,
            sidecar_links,
            outlook,
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
        guarded: Option<&Guarded>,
        directory: &TempDir,
    ) -> Vec<Sidecar> {
        let socket = |number| directory.path().join(format!("sidecar-{number}.sock"));
        let settings = |number: usize, door: Option<SocketAddr>| sidecar::Settings {
            name: format!("sidecar-{number}"),
            listen: ports::free(),
            socket: self.unix_sockets.then(|| socket(number)),
            redis_url: match (&self.redis_url, links.get(number - 1)) {
                (Some(url), _) => url.clone(),
                (None, Some(link)) => format!("redis://{}", link.address()),
                (None, None) => redis.url(),
            },
            pool: pool(),
            policy: self.policy.clone(),
            reap_ms: self.reap_ms,
            patience_ms: self.patient.then_some(PATIENCE_MS),
            log_level: self.log_level,
            guarded: door,
            more: {
                let mut more = self.sidecar_settings.clone();
                if let (Some(guarded), Some(address)) = (guarded, door) {
                    merge(&mut more, guarded.settings_at(address));
                }
                more
            },
        };
        (1..=self.sidecar_count())
            .map(|number| {
                let door = guarded.map(|_| ports::free());
                Sidecar::start(settings(number, door), directory.path())
            })
            .collect()
    }

    async fn start_workers(&self, sidecars: &[Sidecar], guarded: Option<&Guarded>) -> Vec<Worker> {
        let mut workers = Vec::new();
        for number in 1..=self.workers + self.strangers {
            let settings = worker::Settings {
                sidecar: match guarded.is_some_and(Guarded::serves_workers) {
                    true => sidecars[number % sidecars.len()].door(),
                    false => sidecars[number % sidecars.len()].target(),
                },
                token: guarded.map(|_| WORKER_TOKEN.to_owned()),
                pool: pool(),
                id: WorkerId::parse(&format!("worker-{number}")).expect("a worker id"),
                listen: ports::free(),
                advertise: None,
                delay: self.delays[(number - 1) % self.delays.len()],
                heartbeat: self.heartbeat,
                restart: self.restart,
                max_concurrent: None,
                fail_upgrade_with: None,
                journal: None,
            };
            workers.push(Worker::start(settings).await.expect("a worker"));
        }
        workers
    }

    fn start_envoys(&self, surroundings: Surroundings<'_>, directory: &TempDir) -> Vec<Envoy> {
        let Surroundings {
            sidecars,
            links,
            guarded,
            workers,
            backend,
        } = surroundings;
        let settings = |number: usize| envoy::Settings {
            name: format!("envoy-{number}"),
            route_by: self.route_by,
            listen: ports::free(),
            least_request: self.least_request.then(ports::free),
            admin: ports::free(),
            sidecar: match links.get(number - 1) {
                Some(link) => Target::from(link.address()),
                None if guarded.is_some_and(Guarded::serves_workers) => {
                    sidecars[(number - 1) % sidecars.len()].target()
                }
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
            sidecar_transport: guarded.and_then(|it| it.transport.clone()),
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
            if let Some(guarded) = guarded {
                merge(filter, guarded.filter.clone());
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
