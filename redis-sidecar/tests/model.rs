//! The scripts against the brute-force model: the same events, the same decisions.

use crate::support::{Clock, Pool, SEED, ended, id, registration};
use admission::id::LeaseId;
use admission::message::{
    AdmitAnswer, AdmitRequest, LoadReport, Operation, Release, ServingStatus, Use,
};
use admission::model::{self, Decision, End, Registration};
use admission::outcome::Outcome;
use admission::policy::{Estimator, KarmaRule, Policy, Strategy};
use redis_sidecar::explain::ExplainRequest;

/// For each seed. `make test-nightly` asks for more.
const EVENTS: usize = 10_000;
const EVENTS_VARIABLE: &str = "BERTH_MODEL_EVENTS";
const WORKERS: u64 = 6;
/// One of each size that `sewt` tells apart.
const SIZES: [u64; 3] = [100, 2 << 20, 200 << 20];
const SEEDS: [u64; 3] = [1, 2, 3];
/// Ends that do not send a worker into exile: the model knows none.
const OUTCOMES: [Outcome; 6] = [
    Outcome::Success,
    Outcome::Success,
    Outcome::Success,
    Outcome::Warning,
    Outcome::Reset,
    Outcome::Timeout,
];

/// SplitMix64: small, and the same everywhere, so that a failing seed fails again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

struct Twins {
    pool: Pool,
    clock: Clock,
    model: model::Pool,
    dice: Dice,
    lives: u64,
    observed: std::collections::BTreeSet<u64>,
}

impl Twins {
    async fn new(adjust: &impl Fn(&mut Policy), seed: u64) -> Self {
        let mut dice = Dice(seed);
        let (max_concurrent, max_lifetime) = (1 + dice.below(4) as u32, 1 + dice.below(30) as u32);
        let pool = Pool::with(|policy| {
            policy.max_concurrent = max_concurrent;
            policy.max_lifetime = max_lifetime;
            policy.heartbeat_ttl_ms = 86_400_000;
            policy.forget_ms = 86_400_000;
            adjust(policy);
        })
        .await;
        let model = model::Pool::new(pool.view().await.policy, SEED);
        Self {
            clock: pool.clock().await,
            pool,
            model,
            dice,
            lives: 0,
            observed: Default::default(),
        }
    }

    async fn step(&mut self) {
        match self.dice.below(100) {
            0..50 => self.admit().await,
            50..82 => self.release().await,
            82..88 => self.observe().await,
            88..92 => self.register().await,
            92..97 => self.heartbeat().await,
            97 => self.drain().await,
            // A quarter of a period, more or less: karma steps and windows move.
            _ => self.clock.advance(self.dice.below(30_000) as f64).await,
        }
    }

    /// Whatever was just done in Redis happened at this time, and the model does it then.
    async fn synchronise(&mut self) {
        self.model.at(self.clock.now_ms().await);
    }

    async fn admit(&mut self) {
        let lease = self.pool.mint();
        let request = model::Request {
            bytes: SIZES[self.dice.below(3) as usize],
            operation: Operation::ALL[self.dice.below(3) as usize],
            own: (self.dice.below(4) == 0).then(|| id(&format!("w{}", self.dice.below(WORKERS)))),
        };
        let question = AdmitRequest {
            bytes: Some(request.bytes),
            operation: Some(request.operation),
            own: request.own.clone(),
            ..self.pool.question(&lease)
        };
        let answer = self.pool.store.admit(&question).await.expect("a decision");
        self.synchronise().await;
        let expected = self.model.admit(lease.seq, &request);
        let decided = match answer {
            AdmitAnswer::Admitted(admitted) => Decision::Admitted {
                worker: admitted.worker,
                active: admitted.active,
                lifetime: admitted.lifetime,
            },
            AdmitAnswer::Denied(denied) => Decision::Denied(denied.reason),
            AdmitAnswer::Redirected(_) => unreachable!("nobody asked for it"),
        };
        if decided != expected {
            let explanation = self.pool.explain(&ExplainRequest::default()).await;
            panic!(
                "{decided:?}, not {expected:?}\n{explanation:#?}\n{:#?}",
                self.model
            );
        }
    }

    /// One of those that are held.
    fn some_lease(&mut self) -> Option<LeaseId> {
        let count = self.model.leases.len() as u64;
        let which = self.dice.below(count.max(1)) as usize;
        let seq = *self.model.leases.keys().nth(which)?;
        let epoch = self.pool.holder.epoch.clone();
        Some(LeaseId { epoch, seq })
    }

    async fn release(&mut self) {
        let Some(lease) = self.some_lease() else {
            return;
        };
        let end = if self.dice.below(5) == 0 {
            End::unused()
        } else {
            let observed = self.observed.remove(&lease.seq);
            let us = 100 + self.dice.below(100_000);
            End {
                r#use: Use::Used,
                outcome: OUTCOMES[self.dice.below(6) as usize],
                // An upgrade's time was told when it was observed.
                served_us: (!observed).then_some(us),
            }
        };
        let release = Release {
            handshake_us: end.served_us,
            session_us: end.served_us.or(Some(1)),
            ..ended(&lease, end.r#use, end.outcome)
        };
        let answer = self.pool.release_with(release).await;
        assert_eq!(answer.released, 1);
        self.synchronise().await;
        self.model.release(lease.seq, end);
    }

    async fn observe(&mut self) {
        let Some(lease) = self.some_lease() else {
            return;
        };
        let outcome = OUTCOMES[self.dice.below(6) as usize];
        let us = Some(100 + self.dice.below(100_000));
        self.observed.insert(lease.seq);
        self.pool.observe_in(&lease, outcome, us).await;
        self.synchronise().await;
        self.model.observe(lease.seq, outcome, us);
    }

    async fn heartbeat(&mut self) {
        let worker = format!("w{}", self.dice.below(WORKERS));
        let report = (self.dice.below(4) > 0).then(|| self.load());
        let Some(known) = self.model.workers.get(&id(&worker)) else {
            return;
        };
        let incarnation = known.incarnation.to_string();
        self.pool
            .report(&worker, &incarnation, report.clone())
            .await;
        self.synchronise().await;
        self.model.heartbeat(&id(&worker), report.as_ref());
    }

    /// Mostly a worker that may be chosen, and now and then one behind each gate.
    fn load(&mut self) -> LoadReport {
        let dice = &mut self.dice;
        let mut below = |bound: u64| dice.below(bound) as u32;
        LoadReport {
            status: match below(20) {
                0 => ServingStatus::Draining,
                1 => ServingStatus::Down,
                _ => ServingStatus::Serving,
            },
            running_http_session: below(40),
            running_sql: below(9),
            running_tx: below(12),
            max_http_sessions: if below(20) == 0 { 0 } else { 50 },
            max_open_conns: if below(20) == 0 { 0 } else { 30 },
            max_transaction_conns: if below(20) == 0 { 0 } else { 11 },
            open_conns: below(31),
            idle_conns: below(10),
            wait_conn_count: below(23),
            p95_latency_ms: f64::from(below(5)) * f64::from(below(600)),
            error_rate_1m: f64::from(below(60)) / 1000.0,
            timeouts_1m: below(25),
            uptime_sec: f64::from(below(400)),
        }
    }

    /// A new worker, a new life of a known one, or the same life with another limit.
    async fn register(&mut self) {
        let worker = format!("w{}", self.dice.below(WORKERS));
        let known = self.model.workers.get(&id(&worker));
        let incarnation = match known {
            Some(known) if self.dice.below(3) == 0 => known.incarnation.to_string(),
            // One of the lives that came before, whosever it was.
            Some(_) if self.dice.below(3) == 0 => {
                format!(
                    "life-{}",
                    self.lives.saturating_sub(self.dice.below(12)).max(1)
                )
            }
            Some(_) | None => {
                self.lives += 1;
                format!("life-{}", self.lives)
            }
        };
        let own = Some(1 + self.dice.below(4) as u32).filter(|limit| *limit < 4);
        let request = registration(&incarnation, own, 0.5 * (1 + self.dice.below(4)) as f64);
        let registration = Registration {
            incarnation: request.incarnation.clone(),
            max_concurrent: request.max_concurrent,
            weight: request.weight,
        };
        self.pool.register_as(&worker, &request).await;
        self.synchronise().await;
        self.model.register(&id(&worker), registration);
    }

    async fn drain(&mut self) {
        let worker = id(&format!("w{}", self.dice.below(WORKERS)));
        let _ = self.pool.store.drain(&self.pool.name, &worker).await;
        self.synchronise().await;
        self.model.drain(&worker);
    }

    async fn compare(&self) {
        let view = self.pool.view().await;
        assert_eq!(view.head.active, self.model.leases.len() as u64);
        assert_eq!(view.workers.len(), self.model.workers.len());
        for shown in &view.workers {
            let expected = &self.model.workers[&shown.worker];
            let figures = (shown.active, shown.lifetime);
            assert_eq!(
                figures,
                (expected.active, expected.lifetime),
                "{}",
                shown.worker
            );
        }
        let explanation = self.pool.explain(&ExplainRequest::default()).await;
        for shown in &explanation.workers {
            let expected = &self.model.workers[&shown.worker];
            let figures = [("karma", expected.karma()), ("clock", expected.clock())];
            for (name, expected) in figures {
                let Some(figure) = shown.inputs.get(name).filter(|_| shown.rank.is_some()) else {
                    continue;
                };
                // Sums that are made step by step differ in the last digits.
                let close = (figure - expected).abs() <= 1e-6 * expected.abs().max(1.0);
                assert!(close, "{name} is not {expected}: {shown:#?}");
            }
        }
    }
}

async fn agree(adjust: impl Fn(&mut Policy)) {
    let events = std::env::var(EVENTS_VARIABLE)
        .map_or(EVENTS, |events| events.parse().expect("a number of events"));
    for seed in SEEDS {
        let mut twins = Twins::new(&adjust, seed).await;
        for event in 0..events {
            // Shown only if the test fails.
            eprintln!("seed {seed}, event {event}");
            twins.step().await;
            if event % 100 == 99 {
                twins.compare().await;
            }
        }
        twins.pool.assert_no_drift().await;
    }
}

#[tokio::test]
async fn lifetime_first_agrees_with_its_model() {
    agree(|policy| policy.strategy = Strategy::LifetimeFirst).await;
}

#[tokio::test]
async fn round_robin_agrees_with_its_model() {
    agree(|policy| policy.strategy = Strategy::RoundRobin).await;
}

#[tokio::test]
async fn least_connections_agrees_with_its_model() {
    agree(|policy| policy.strategy = Strategy::LeastConnections).await;
}

#[tokio::test]
pub(crate) async fn random_agrees_with_its_model() {
    agree(|policy| policy.strategy = Strategy::Random).await;
}

#[tokio::test]
async fn sewt_agrees_with_its_model() {
    agree(|policy| policy.strategy = Strategy::Sewt).await;
}

#[tokio::test]
async fn sewt_with_an_adaptive_alpha_agrees_with_its_model() {
    agree(|policy| {
        policy.strategy = Strategy::Sewt;
        policy.sewt.adaptive_alpha = true;
        policy.sewt.size_buckets = vec![];
    })
    .await;
}

#[tokio::test]
async fn sewt_by_percentile_agrees_with_its_model() {
    agree(|policy| {
        policy.strategy = Strategy::Sewt;
        policy.sewt.estimator = Estimator::P95;
    })
    .await;
}

#[tokio::test]
pub(crate) async fn score_agrees_with_its_model() {
    agree(|policy| {
        policy.strategy = Strategy::Score;
        policy.max_lifetime = 200;
    })
    .await;
}

#[tokio::test]
async fn score_by_absolute_latency_agrees_with_its_model() {
    agree(|policy| {
        policy.strategy = Strategy::Score;
        policy.max_lifetime = 200;
        policy.score.relative_latency = false;
        policy.score.min_uptime_s = 20.0;
        policy.score.top_k = 2;
    })
    .await;
}

#[tokio::test]
async fn nodeads_agrees_with_its_model() {
    agree(|policy| {
        policy.strategy = Strategy::Nodeads;
        policy.nodeads.dead_after = 1;
    })
    .await;
}

#[tokio::test]
async fn noerrors_agrees_with_its_model() {
    agree(|policy| policy.strategy = Strategy::Noerrors).await;
}

#[tokio::test]
async fn noerrors_without_memory_agrees_with_its_model() {
    agree(|policy| {
        policy.strategy = Strategy::Noerrors;
        policy.karma.rule = KarmaRule::Memoryless;
        policy.karma.period_ms = 5_000;
    })
    .await;
}
