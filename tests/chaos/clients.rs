//! Clients that come and go for as long as the run lasts, and what they were answered.

use crate::seeded::Seeded;
use harness::client::{Client, UPGRADE, Visit};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Half again as many as there are places: every place that is given twice is found.
pub(crate) const CLIENTS: usize = 24;

#[derive(Debug, Clone)]
pub(crate) struct Admission {
    pub(crate) at: Instant,
    pub(crate) worker: String,
    pub(crate) client: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) operations: AtomicU64,
    pub(crate) admitted: AtomicU64,
    pub(crate) denied: AtomicU64,
    /// Nobody could be asked, or nobody was there to ask.
    pub(crate) outages: AtomicU64,
    pub(crate) reasons: Mutex<BTreeMap<String, u64>>,
    pub(crate) admissions: Mutex<Vec<Admission>>,
}

impl Tally {
    fn refused(&self, reason: Option<&str>) {
        let (count, reason) = match reason {
            Some(reason @ ("outage" | "overdue" | "rebuilding")) => (&self.outages, reason),
            Some(reason) => (&self.denied, reason),
            None => (&self.outages, "no reason"),
        };
        count.fetch_add(1, Ordering::Relaxed);
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        *reasons.entry(reason.to_owned()).or_default() += 1;
    }

    fn admitted(&self, client: usize, worker: &str) {
        self.admitted.fetch_add(1, Ordering::Relaxed);
        let admission = Admission {
            at: Instant::now(),
            worker: worker.to_owned(),
            client,
        };
        let admissions = self.admissions.lock();
        admissions
            .unwrap_or_else(PoisonError::into_inner)
            .push(admission);
    }
}

#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) tally: Arc<Tally>,
    leaving: Arc<AtomicBool>,
    coming: JoinSet<()>,
}

impl Clients {
    pub(crate) fn start(envoys: &[Client], seeded: &mut Seeded) -> Self {
        let (tally, leaving) = (Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
        let mut coming = JoinSet::new();
        for number in 0..CLIENTS {
            let visitor = Visitor {
                number,
                envoys: envoys.to_vec(),
                tally: tally.clone(),
                leaving: leaving.clone(),
                seeded: seeded.fork(),
            };
            coming.spawn(visitor.run());
        }
        Self {
            tally,
            leaving,
            coming,
        }
    }

    /// Everyone finishes what they are at.
    pub(crate) async fn stop(mut self) -> Arc<Tally> {
        self.leaving.store(true, Ordering::Relaxed);
        while self.coming.join_next().await.is_some() {}
        self.tally
    }
}

struct Visitor {
    number: usize,
    envoys: Vec<Client>,
    tally: Arc<Tally>,
    leaving: Arc<AtomicBool>,
    seeded: Seeded,
}

impl Visitor {
    async fn run(mut self) {
        while !self.leaving.load(Ordering::Relaxed) {
            self.tally.operations.fetch_add(1, Ordering::Relaxed);
            let envoy = self.envoys[self.seeded.below(self.envoys.len())];
            match self.seeded.below(10) {
                0 => self.rush(envoy).await,
                1 | 2 => self.request(envoy).await,
                _ => self.session(envoy).await,
            }
            // Sooner than any client should: places that come free are asked for at once.
            tokio::time::sleep(self.seeded.between_ms(5, 150)).await;
        }
    }

    /// A WebSocket of 0.2 to 5 s, most of them short; some leave without a goodbye.
    async fn session(&mut self, envoy: Client) {
        let longest_ms = if self.seeded.percent(80) { 1000 } else { 5000 };
        let lasting = self.seeded.between_ms(200, longest_ms);
        let rude = self.seeded.percent(30);
        match envoy.visit("/").await {
            Ok(Visit::Admitted(session)) => {
                self.tally.admitted(self.number, &session.worker);
                tokio::time::sleep(lasting).await;
                if rude {
                    drop(session);
                } else {
                    session.close().await;
                }
            }
            Ok(Visit::Refused(refused)) => self.tally.refused(refused.reason.as_deref()),
            Err(_) => self.tally.refused(None),
        }
    }

    async fn request(&mut self, envoy: Client) {
        match envoy.try_get("/work").await {
            Ok(answer) if answer.status().is_success() => {
                let worker = harness::client::worker_of(answer.headers());
                self.tally.admitted(self.number, &worker);
            }
            Ok(answer) => {
                let reason = answer.headers().get(admission::reply::REASON_HEADER);
                let reason = reason.and_then(|reason| reason.to_str().ok());
                self.tally.refused(reason);
            }
            Err(_) => self.tally.refused(None),
        }
    }

    /// Begins a handshake and leaves before its end.
    async fn rush(&mut self, envoy: Client) {
        let Ok(stream) = envoy.raw(UPGRADE).await else {
            return self.tally.refused(None);
        };
        tokio::time::sleep(self.seeded.between_ms(0, 20)).await;
        drop(stream);
        // Whether it was let in, only the worker's journal knows.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
