//! The scripts against the brute-force model: the same events, the same decisions.

use crate::support::{Pool, SEED, id, registration};
use admission::message::{AdmitAnswer, AdmitRequest, Use};
use admission::model::{self, Decision, End, Registration};
use admission::outcome::Outcome;
use admission::policy::{Estimator, Policy, Strategy};

const EVENTS: usize = 10_000;
const WORKERS: u64 = 6;
/// One of each size that `sewt` tells apart.
const SIZES: [u64; 3] = [100, 2 << 20, 200 << 20];
const SEEDS: [u64; 3] = [1, 2, 3];

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
    model: model::Pool,
    dice: Dice,
    lives: u64,
}

impl Twins {
    async fn new(adjust: &impl Fn(&mut Policy), seed: u64) -> Self {
        let mut dice = Dice(seed);
        let (max_concurrent, max_lifetime) = (1 + dice.below(4) as u32, 1 + dice.below(30) as u32);
        let pool = Pool::with(|policy| {
            policy.max_concurrent = max_concurrent;
            policy.max_lifetime = max_lifetime;
            adjust(policy);
        })
        .await;
        let model = model::Pool::new(pool.view().await.policy, SEED);
        Self {
            pool,
            model,
            dice,
            lives: 0,
        }
    }

    async fn step(&mut self) {
        match self.dice.below(100) {
            0..55 => self.admit().await,
            55..92 => self.release().await,
            92..98 => self.register().await,
            _ => self.drain().await,
        }
    }

    async fn admit(&mut self) {
        let lease = self.pool.mint();
        let bytes = SIZES[self.dice.below(3) as usize];
        let expected = self.model.admit(lease.seq, bytes);
        let question = AdmitRequest {
            bytes: Some(bytes),
            ..self.pool.question(&lease)
        };
        let answer = self.pool.store.admit(&question).await.expect("a decision");
        let decided = match answer {
            AdmitAnswer::Admitted(admitted) => Decision::Admitted {
                worker: admitted.worker,
                active: admitted.active,
                lifetime: admitted.lifetime,
            },
            AdmitAnswer::Denied(denied) => Decision::Denied(denied.reason),
        };
        assert_eq!(decided, expected);
    }

    async fn release(&mut self) {
        let count = self.model.leases.len() as u64;
        if count == 0 {
            return;
        }
        let which = self.dice.below(count) as usize;
        let seq = *self.model.leases.keys().nth(which).expect("a lease");
        let mut lease = self.pool.mint();
        lease.seq = seq;
        let answer = if self.dice.below(5) == 0 {
            self.model.release(
                seq,
                End {
                    r#use: Use::Unused,
                    served_us: None,
                },
            );
            self.pool
                .release_as(&lease, Use::Unused, Outcome::Unknown)
                .await
        } else {
            let us = 100 + self.dice.below(100_000);
            self.model.release(
                seq,
                End {
                    r#use: Use::Used,
                    served_us: Some(us),
                },
            );
            self.pool.served(&lease, us).await
        };
        assert_eq!(answer.released, 1);
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
        self.model.register(&id(&worker), registration);
        self.pool.register_as(&worker, &request).await;
    }

    async fn drain(&mut self) {
        let worker = id(&format!("w{}", self.dice.below(WORKERS)));
        self.model.drain(&worker);
        let _ = self.pool.store.drain(&self.pool.name, &worker).await;
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
    }
}

async fn agree(adjust: impl Fn(&mut Policy)) {
    for seed in SEEDS {
        let mut twins = Twins::new(&adjust, seed).await;
        for _ in 0..EVENTS {
            twins.step().await;
        }
        twins.compare().await;
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
async fn random_agrees_with_its_model() {
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
