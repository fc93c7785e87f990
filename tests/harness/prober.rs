//! A client that comes again and again while a fault is on, and remembers every answer.

use crate::client::{Client, Refused, Visit};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// From one answer to the next question.
const PAUSE: Duration = Duration::from_millis(50);

/// What the filter gives one question, by default, and what a busy machine may add. Together they are less
/// than the watchdog's second, which is what comes next.
pub const BUDGET: Duration = Duration::from_millis(300);
pub const BUSY: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub enum Outcome {
    Admitted,
    Refused(Refused),
    /// No answer at all.
    Failed(String),
}

#[derive(Debug)]
pub struct Probe {
    pub at: Instant,
    pub took: Duration,
    pub outcome: Outcome,
}

#[derive(Debug)]
pub struct Prober {
    stop: oneshot::Sender<()>,
    probing: JoinHandle<Vec<Probe>>,
    admissions: Arc<AtomicUsize>,
}

impl Prober {
    pub fn start(client: Client) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let admissions = Arc::new(AtomicUsize::new(0));
        let counted = admissions.clone();
        let probing = tokio::spawn(async move {
            let mut probes = Vec::new();
            loop {
                let probe = probe(client).await;
                if matches!(probe.outcome, Outcome::Admitted) {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                probes.push(probe);
                let pause = tokio::time::timeout(PAUSE, &mut stopped);
                if pause.await.is_ok() {
                    return probes;
                }
            }
        });
        Self {
            stop,
            probing,
            admissions,
        }
    }

    /// How often it was admitted so far.
    pub fn admissions(&self) -> usize {
        self.admissions.load(Ordering::Relaxed)
    }

    /// Ends with the answer that is waited for.
    pub async fn stop(self) -> Probes {
        let _ = self.stop.send(());
        match self.probing.await {
            Ok(probes) => Probes(probes),
            Err(error) => panic!("the probing client died: {error}"),
        }
    }
}

async fn probe(client: Client) -> Probe {
    let at = Instant::now();
    let visit = client.visit("/").await;
    let took = at.elapsed();
    let outcome = match visit {
        Ok(Visit::Admitted(session)) => {
            session.close().await;
            Outcome::Admitted
        }
        Ok(Visit::Refused(refused)) => Outcome::Refused(refused),
        Err(error) => Outcome::Failed(error.to_string()),
    };
    Probe { at, took, outcome }
}

#[derive(Debug)]
pub struct Probes(pub Vec<Probe>);

impl Probes {
    pub fn admitted(&self) -> usize {
        let admitted = |probe: &&Probe| matches!(probe.outcome, Outcome::Admitted);
        self.0.iter().filter(admitted).count()
    }

    /// How many were refused for this reason.
    pub fn refused(&self, reason: &str) -> usize {
        let refused = |probe: &&Probe| match &probe.outcome {
            Outcome::Refused(refused) => refused.reason.as_deref() == Some(reason),
            Outcome::Admitted | Outcome::Failed(_) => false,
        };
        self.0.iter().filter(refused).count()
    }

    /// The longest time without an admission, from the first question on.
    pub fn longest_gap(&self) -> Duration {
        let mut longest = Duration::ZERO;
        let mut since = self.0.first().map(|probe| probe.at);
        for probe in &self.0 {
            let answered = probe.at + probe.took;
            longest = longest.max(since.map_or(Duration::ZERO, |since| answered - since));
            if matches!(probe.outcome, Outcome::Admitted) {
                since = Some(answered);
            }
        }
        longest
    }

    /// Everyone got an answer with a reason, and the middle one in time.
    pub fn assert_typed_in_time(&self) {
        for probe in &self.0 {
            let typed = match &probe.outcome {
                Outcome::Admitted => true,
                Outcome::Refused(refused) => refused.reason.is_some(),
                Outcome::Failed(_) => false,
            };
            assert!(typed, "{probe:?}");
        }
        let mut times: Vec<Duration> = self.0.iter().map(|probe| probe.took).collect();
        times.sort_unstable();
        let median = times[times.len() / 2];
        assert!(median <= BUDGET + BUSY, "answered after {median:?}");
    }
}
