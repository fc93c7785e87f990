//! A fleet as those see it who only use it, whether its parts are processes or containers: its clients, its
//! operators, and what its workers wrote down.

use crate::api::{Api, PoolView, WorkerState};
use crate::client::{Client, Session, Visit, close_all, split};
use crate::history::History;
use crate::http::Failure;
use crate::wait::{DEADLINE, eventually, holds_within};
use crate::worker::{Entry, journal};
use futures_util::future::join_all;
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// The workers' own records of their sessions.
pub trait Journals: Debug + Send + Sync {
    /// How many workers there are to be.
    fn workers(&self) -> usize;

    /// Each worker's, by its name.
    fn entries(&self) -> Vec<(String, Vec<Entry>)>;
}

#[derive(Debug)]
pub struct Outlook {
    /// Of each Envoy.
    pub clients: Vec<Client>,
    /// Of each sidecar.
    pub apis: Vec<Api>,
    pub(crate) journals: Box<dyn Journals>,
}

impl Outlook {
    /// A client of the first Envoy.
    pub fn client(&self) -> Client {
        self.clients[0]
    }

    /// The first sidecar.
    pub fn api(&self) -> Api {
        self.apis[0].clone()
    }

    /// The pool, as the first sidecar that answers shows it.
    async fn seen(&self) -> Result<PoolView, Failure> {
        let mut answer = Err("there is no sidecar".into());
        for api in &self.apis {
            answer = api.view().await;
            if answer.is_ok() {
                break;
            }
        }
        answer
    }

    pub async fn view(&self) -> PoolView {
        match self.seen().await {
            Ok(view) => view,
            Err(error) => panic!("no view of the pool: {error}"),
        }
    }

    /// Waits until the pool, as any sidecar shows it, satisfies `condition`.
    pub async fn sees(&self, what: &str, mut condition: impl FnMut(&PoolView) -> bool) {
        let mut last = String::from("nothing");
        let holds = holds_within(DEADLINE, async || {
            let Ok(view) = self.seen().await else {
                return false;
            };
            last = format!("{view:#?}");
            condition(&view)
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

    /// This Envoy lets nobody in, because the pool is full. A machine that is too busy for the shipped
    /// timeouts may call it an outage first; whoever is let in is one too many.
    pub async fn assert_full(&self, envoy: usize) {
        eventually(
            "a client is told that the pool is full",
            async || match self.visit(envoy).await {
                Ok(()) => panic!("Envoy {envoy} let somebody into a full pool"),
                Err(reason) => reason.as_deref() == Some("pool_full"),
            },
        )
        .await;
    }

    /// Comes and leaves, or says why it could not.
    async fn visit(&self, envoy: usize) -> Result<(), Option<String>> {
        match self.clients[envoy].visit("/").await {
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
        let view = self.seen().await;
        view.is_ok_and(|view| {
            let workers = view.available() == self.journals.workers();
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
            if let Ok(view) = self.seen().await {
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
        let client = |number: usize| self.clients[number % self.clients.len()];
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
        History::read(
            &self.journals.entries(),
            view.policy.max_concurrent as usize,
        )
    }

    /// Sessions open at the workers, by their own word.
    pub fn open_at_workers(&self) -> usize {
        let journals = self.journals.entries();
        journals
            .iter()
            .map(|(_, entries)| journal::open(entries))
            .sum()
    }

    /// Opens so many sessions, spread over the Envoys; whoever is refused comes again. For the
    /// sessions that a fault is to meet, on a machine that may be too busy for the shipped timeouts.
    pub async fn sessions(&self, count: usize) -> Vec<Session> {
        self.sessions_through(&self.clients, count).await
    }

    /// The same through one Envoy, by its place in the list.
    pub async fn sessions_of(&self, envoy: usize, count: usize) -> Vec<Session> {
        self.sessions_through(&[self.clients[envoy]], count).await
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
            let workers = pool.available() == self.journals.workers();
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
}
