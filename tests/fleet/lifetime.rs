//! Workers reach their lifetime limit one after the other, and come back as new ones.

use harness::api::PoolView;
use harness::load::Attempt;
use harness::{Fleet, Load, RunningFleet};
use std::time::Duration;

const MAX_CONCURRENT: u32 = 2;

/// The shape of a run. `margin` sessions must take longer than a restart, or restarts overlap.
struct Run {
    workers: usize,
    max_lifetime: u32,
    heartbeat_ms: u64,
    restart_ms: u64,
    load: Load,
}

impl Run {
    /// Smaller numbers in a tenth of the time; a restart may take five times what it should before
    /// anything overlaps.
    fn scaled(restart_ms: u64, sessions: usize) -> Self {
        Self {
            workers: 4,
            max_lifetime: 20,
            heartbeat_ms: 20,
            restart_ms,
            load: Load {
                sessions,
                every: Duration::from_millis(60),
                session: Duration::from_millis(20),
            },
        }
    }

    #[cfg(feature = "full")]
    fn real(restart_ms: u64, sessions: usize) -> Self {
        Self {
            workers: 8,
            max_lifetime: 80,
            heartbeat_ms: 50,
            restart_ms,
            load: Load {
                sessions,
                every: Duration::from_millis(100),
                session: Duration::from_millis(50),
            },
        }
    }

    async fn up(&self) -> RunningFleet {
        let max_lifetime = self.max_lifetime;
        Fleet::new()
            .envoys(2)
            .workers(self.workers)
            .max_concurrent(MAX_CONCURRENT)
            .policy(move |policy| policy.max_lifetime = max_lifetime)
            .heartbeat_ms(self.heartbeat_ms)
            .restart_ms(self.restart_ms)
            .up()
            .await
    }

    /// Short restarts: a sawtooth, and never two workers at their limit.
    async fn stays_staggered(self, recycles_min: u64) {
        let fleet = self.up().await;
        let at_most_one = |pool: &PoolView| assert!(pool.at_limit <= 1, "{pool:#?}");
        let attempts = self.load.drive_watched(&fleet, at_most_one).await;
        let refused = |attempt: &&Attempt| attempt.refused.is_some();
        assert_eq!(
            attempts.iter().filter(refused).count(),
            0,
            "there was room all the time"
        );
        let view = fleet.view().await;
        assert_eq!(view.overlaps_total, 0, "{view:#?}");
        assert!(view.recycles_total >= recycles_min, "{view:#?}");
        self.assert_full_lives(&fleet);
        fleet.assert_consistent().await;
    }

    /// Restarts longer than the margin: they must overlap, and the figures say so.
    async fn overlaps(self) {
        let fleet = self.up().await;
        let mut at_limit_max = 0;
        let watch = |pool: &PoolView| at_limit_max = at_limit_max.max(pool.at_limit);
        self.load.drive_watched(&fleet, watch).await;
        assert!(
            at_limit_max >= 2,
            "never more than {at_limit_max} at the limit"
        );
        let overlaps = fleet.view().await.overlaps_total;
        assert!(overlaps > 0);
        let metrics = fleet.api().metrics().await.unwrap();
        let line = metrics
            .lines()
            .find(|line| line.starts_with("berth_recycle_overlaps_total{"));
        let told: f64 = line.unwrap().rsplit_once(' ').unwrap().1.parse().unwrap();
        assert!(told >= overlaps as f64, "the metric says {told}");
        self.assert_full_lives(&fleet);
    }

    /// By the workers' own count, every life that ended had exactly its limit of sessions.
    fn assert_full_lives(&self, fleet: &RunningFleet) {
        for worker in &fleet.workers {
            let lives = worker.journal().sessions_of_past_lives();
            let full = lives
                .iter()
                .all(|sessions| *sessions == self.max_lifetime as usize);
            assert!(full, "{}: {lives:?}", worker.id());
        }
    }
}

#[tokio::test]
async fn short_restarts_never_leave_two_workers_at_their_limit() {
    // 60 sessions until the first restart, then one after every 20: all four restart twice.
    Run::scaled(20, 60 + 8 * 20).stays_staggered(8).await;
}

#[tokio::test]
async fn restarts_longer_than_the_margin_overlap_and_are_counted() {
    Run::scaled(2000, 120).overlaps().await;
}

#[cfg(feature = "full")]
#[tokio::test]
async fn at_real_times_short_restarts_never_leave_two_workers_at_their_limit() {
    Run::real(100, 8 * 70 + 9 * 80).stays_staggered(8).await;
}

#[cfg(feature = "full")]
#[tokio::test]
async fn at_real_times_restarts_longer_than_the_margin_overlap_and_are_counted() {
    Run::real(2000, 8 * 70 + 80).overlaps().await;
}
