//! A fleet in service, and what tests do with it.

use crate::api::{Api, PoolView, WorkerState};
use crate::backend::Backend;
use crate::client::{Client, Session, Visit, close_all, split};
use crate::envoy::Envoy;
use crate::fault_proxy::FaultProxy;
use crate::history::History;
use crate::redis::Redis;
use crate::sidecar::Sidecar;
use crate::wait::{DEADLINE, eventually, holds_within};
use crate::worker::Worker;
use futures_util::future::join_all;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A fleet in service. Dropping it ends every process.
#[derive(Debug)]
pub struct RunningFleet {
    pub envoys: Vec<Envoy>,
    pub workers: Vec<Worker>,
    pub backend: Backend,
    pub sidecars: Vec<Sidecar>,
    pub redis: Redis,
    /// From each sidecar to Redis, and from each Envoy to its sidecar, where links were asked for.
    pub redis_links: Vec<FaultProxy>,
    pub sidecar_links: Vec<FaultProxy>,
    pub(super) directory: TempDir,
}

impl RunningFleet {
    pub(super) async fn ready(&self) {
        self.redis.ready().await;
        join_all(self.sidecars.iter().map(Sidecar::ready)).await;
        join_all(self.envoys.iter().map(Envoy::ready)).await;
        let workers = self.workers.len();
        self.sees("all workers available", |pool| {
            pool.available() == workers && !pool.rebuilding
        })
        .await;
    }

    /// A file of this fleet, in the directory with its logs.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
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

    /// Whether this Envoy, asked once, gives a place.
    pub async fn admits(&self, envoy: usize) -> bool {
        self.visit(envoy).await.is_ok()
    }

    /// Whether it gives a place or says that there is none, for pools that may be full.
    pub async fn decides(&self, envoy: usize) -> bool {
        let visit = self.visit(envoy).await;
        visit.map_or_else(|reason| reason.as_deref() == Some("pool_full"), |()| true)
    }

    /// Comes and leaves, or says why it could not.
    async fn visit(&self, envoy: usize) -> Result<(), Option<String>> {
        match self.envoys[envoy].client().visit("/").await {
            Ok(Visit::Admitted(session)) => {
                session.close().await;
                Ok(())
            }
            Ok(Visit::Refused(refused)) => Err(refused.reason),
            Err(_) => Err(None),
        }
    }

    /// Whether the store knows so many leases, waits for nobody, and has all workers.
    pub async fn is_exact(&self, active: usize) -> bool {
        let view = self.api().view().await;
        view.is_ok_and(|view| {
            let workers = view.available() == self.workers.len();
            view.active == active as u64 && !view.rebuilding && workers
        })
    }

    /// Waits until a beat has told of all that is held.
    pub async fn told(&self) {
        eventually("a beat has told of every lease", async || {
            let leases = self.api().leases().await;
            leases.is_ok_and(|leases| leases.iter().all(|lease| lease["state"] == "held"))
        })
        .await;
    }

    /// Looks again and again, for as long, that `condition` holds. For what must not happen: the
    /// time is the point.
    pub async fn stays(
        &self,
        lasting: Duration,
        what: &str,
        condition: impl Fn(&PoolView) -> bool,
    ) {
        const LOOK: Duration = Duration::from_millis(100);
        let start = Instant::now();
        while start.elapsed() < lasting {
            if let Ok(view) = self.api().view().await {
                let after = start.elapsed();
                assert!(
                    condition(&view),
                    "after {after:?} no longer: {what}; {view:#?}"
                );
            }
            tokio::time::sleep(LOOK).await;
        }
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
        self.history(&view).assert_clean();
    }

    /// What the workers' journals say so far.
    pub fn history(&self, view: &PoolView) -> History {
        History::of(&self.workers, view.policy.max_concurrent as usize)
    }

    /// Sessions open at the workers, by their own word.
    pub fn open_at_workers(&self) -> usize {
        self.workers
            .iter()
            .map(|worker| worker.journal().open())
            .sum()
    }

    /// Opens so many sessions, spread over the Envoys; whoever is refused comes again. For the
    /// sessions that a fault is to meet, on a machine that may be too busy for the shipped timeouts.
    pub async fn sessions(&self, count: usize) -> Vec<Session> {
        let envoys: Vec<Client> = self.envoys.iter().map(Envoy::client).collect();
        self.sessions_through(&envoys, count).await
    }

    /// The same through one Envoy, by its place in the list.
    pub async fn sessions_of(&self, envoy: usize, count: usize) -> Vec<Session> {
        self.sessions_through(&[self.envoys[envoy].client()], count)
            .await
    }

    async fn sessions_through(&self, envoys: &[Client], count: usize) -> Vec<Session> {
        const AT_ONCE: usize = 50;
        let mut progress = Instant::now();
        let mut sessions = Vec::new();
        while sessions.len() < count {
            let missing = (count - sessions.len()).min(AT_ONCE);
            let visit = |number: usize| envoys[number % envoys.len()].websocket("/");
            let visits = join_all((0..missing).map(visit)).await;
            let (admitted, refused) = split(visits);
            if !admitted.is_empty() {
                progress = Instant::now();
            }
            sessions.extend(admitted);
            assert!(
                refused.is_empty() || progress.elapsed() < DEADLINE,
                "{} of {count} sessions, then none for {DEADLINE:?}: {:?}",
                sessions.len(),
                refused.first()
            );
        }
        sessions
    }

    /// How many of these sessions still reach their worker.
    pub async fn alive(&self, sessions: &mut [Session]) -> usize {
        let echoes = sessions.iter_mut().map(|session| session.echoes("alive"));
        let alive = join_all(echoes).await;
        alive.into_iter().filter(|alive| *alive).count()
    }

    /// Nobody lost anything: exactly these sessions hold places, none was ever taken from a holder,
    /// and all places are free when they close.
    pub async fn assert_unharmed(&self, mut sessions: Vec<Session>) {
        let count = sessions.len();
        assert_eq!(self.alive(&mut sessions).await, count);
        self.sees("exactly the living sessions hold places", |pool| {
            let workers = pool.available() == self.workers.len();
            pool.active == count as u64 && workers && pool.quarantined_holders == 0
        })
        .await;
        let view = self.view().await;
        assert_eq!(view.reclaimed(), 0, "{view:#?}");
        close_all(sessions).await;
        self.sees("all places are free", |pool| pool.active == 0)
            .await;
        self.assert_consistent().await;
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
