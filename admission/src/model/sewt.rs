use super::{Pool, Worker};
use crate::id::WorkerId;
use crate::policy::{Estimator, Sewt};

/// Assumed while nothing was observed.
const UNSEEN_US: f64 = 1000.0;

const HISTOGRAM_BUCKETS: usize = 48;
const HISTOGRAM_FIRST_US: f64 = 64.0;
const HISTOGRAM_DECAY: f64 = 0.98;

/// Idle workers first, the fastest of them; then the lowest `active × expected / weight`.
pub(super) fn choose(pool: &Pool, kind: usize) -> Option<WorkerId> {
    pool.lowest(|worker| Some(cost(worker, kind)))
}

fn cost(worker: &Worker, kind: usize) -> f64 {
    let expected = match worker.estimates.get(kind) {
        Some(estimate) if estimate.expected > 0.0 => estimate.expected,
        Some(_) | None => UNSEEN_US,
    };
    if worker.active == 0 {
        -1.0 / expected
    } else {
        worker.active as f64 * expected / worker.weight
    }
}

pub(super) fn kind_of(settings: &Sewt, bytes: u64) -> usize {
    settings
        .size_buckets
        .iter()
        .filter(|largest| bytes > **largest)
        .count()
}

/// What a request of one size is expected to take on one worker.
#[derive(Debug, Clone)]
pub(super) struct Estimate {
    mean: f64,
    variance: f64,
    histogram: [f64; HISTOGRAM_BUCKETS],
    expected: f64,
}

impl Default for Estimate {
    fn default() -> Self {
        Self {
            mean: 0.0,
            variance: 0.0,
            histogram: [0.0; HISTOGRAM_BUCKETS],
            expected: 0.0,
        }
    }
}

impl Estimate {
    pub(super) fn observe(&mut self, settings: &Sewt, us: f64) {
        self.update_mean(settings, us);
        self.expected = match settings.estimator {
            Estimator::Ema => self.mean,
            Estimator::P95 => self.percentile(us, 0.95),
            Estimator::P99 => self.percentile(us, 0.99),
        };
    }

    fn update_mean(&mut self, settings: &Sewt, us: f64) {
        if self.mean == 0.0 {
            self.mean = us;
            return;
        }
        let alpha = if settings.adaptive_alpha {
            let relative = self.variance / (self.mean * self.mean);
            settings.alpha_min
                + (settings.alpha_max - settings.alpha_min) * relative / (1.0 + relative)
        } else {
            settings.alpha
        };
        let difference = us - self.mean;
        self.mean = alpha * us + (1.0 - alpha) * self.mean;
        self.variance = (1.0 - alpha) * (self.variance + alpha * difference * difference);
    }

    fn percentile(&mut self, us: f64, fraction: f64) -> f64 {
        let octaves = (us.max(HISTOGRAM_FIRST_US) / HISTOGRAM_FIRST_US).ln() / 2f64.ln();
        let bucket = ((octaves * 2.0).floor() as usize).min(HISTOGRAM_BUCKETS - 1);
        for count in &mut self.histogram {
            *count *= HISTOGRAM_DECAY;
        }
        self.histogram[bucket] += 1.0;
        let total: f64 = self.histogram.iter().sum();
        let mut sum = 0.0;
        let within = self.histogram.iter().position(|count| {
            sum += count;
            sum >= fraction * total
        });
        let bucket = within.unwrap_or(HISTOGRAM_BUCKETS - 1);
        HISTOGRAM_FIRST_US * 2f64.powf((bucket as f64 + 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn after(settings: &Sewt, observations: impl IntoIterator<Item = f64>) -> f64 {
        let mut estimate = Estimate::default();
        for us in observations {
            estimate.observe(settings, us);
        }
        estimate.expected
    }

    #[test]
    fn the_first_observation_seeds_the_average_and_the_old_value_fades() {
        let settings = Sewt::default();
        assert_eq!(after(&settings, [100.0]), 100.0);
        for (observations, left) in [(5, 0.33), (10, 0.11), (20, 0.01)] {
            let seen = std::iter::once(1.0).chain(std::iter::repeat_n(0.0, observations));
            assert!(
                (after(&settings, seen) - left).abs() < 0.005,
                "{observations}"
            );
        }
    }

    #[test]
    fn the_percentile_lies_at_the_slow_end() {
        let settings = Sewt {
            estimator: Estimator::P95,
            ..Sewt::default()
        };
        let observations = (0..200).map(|n| if n % 10 == 9 { 100_000.0 } else { 1000.0 });
        let expected = after(&settings, observations);
        assert!((100_000.0..200_000.0).contains(&expected), "{expected}");
    }

    #[test]
    fn a_steady_worker_is_averaged_longer_than_a_restless_one() {
        let settings = Sewt {
            adaptive_alpha: true,
            ..Sewt::default()
        };
        let steady = (0..100).map(|_| 1000.0).chain([2000.0]);
        let restless = (0..100).map(|n| if n % 2 == 0 { 100.0 } else { 1900.0 });
        let moved = after(&settings, steady) - 1000.0;
        let before = after(&settings, restless.clone());
        let step = after(&settings, restless.chain([before + 1000.0])) - before;
        assert!(step > 1.5 * moved, "{step} against {moved}");
    }
}
