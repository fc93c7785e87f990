//! What was seen in one run.

use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    pub at_us: u64,
    pub worker: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    pub worker: usize,
    pub admitted_us: u64,
    pub ended_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    pub at_us: u64,
    pub worker: usize,
    pub lifetime: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    pub workers: usize,
    pub length_us: u64,
    pub admitted: Vec<Admitted>,
    /// In the order of their ends; the last end after the run does.
    pub served: Vec<Served>,
    pub denied: u64,
    /// The most workers that waited for their restart at once.
    pub at_limit_max: usize,
    pub recycles: u64,
    /// Each change, where lifetimes are limited.
    pub lifetimes: Vec<Lifetime>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

impl Run {
    /// None if nobody was served.
    pub fn latency(&self) -> Option<Latency> {
        let sorted = self.sorted_us();
        let mean_us = sorted.iter().sum::<u64>() as f64 / sorted.len() as f64;
        Some(Latency {
            mean_ms: mean_us / 1000.0,
            p50_ms: percentile_ms(&sorted, 50.0)?,
            p99_ms: percentile_ms(&sorted, 99.0)?,
        })
    }

    /// Latency in ms at each of these percents.
    pub fn percentiles_ms(&self, percents: &[f64]) -> Vec<f64> {
        let sorted = self.sorted_us();
        let at = |percent: &f64| percentile_ms(&sorted, *percent);
        percents.iter().filter_map(at).collect()
    }

    fn sorted_us(&self) -> Vec<u64> {
        let latency = |served: &Served| served.ended_us - served.admitted_us;
        let mut sorted: Vec<u64> = self.served.iter().map(latency).collect();
        sorted.sort_unstable();
        sorted
    }

    pub fn per_s(&self) -> f64 {
        let within = |served: &Served| served.ended_us <= self.length_us;
        self.served.partition_point(within) as f64 / seconds(self.length_us)
    }

    /// Of what was admitted meanwhile, the percent of each worker.
    pub fn shares(&self, during_us: Range<u64>) -> Vec<f64> {
        let mut counts = vec![0u32; self.workers];
        // They stand in the order of their time.
        let from = self
            .admitted
            .partition_point(|admitted| admitted.at_us < during_us.start);
        let after = (self.admitted[from..].iter()).take_while(|one| one.at_us < during_us.end);
        for admitted in after {
            counts[admitted.worker] += 1;
        }
        let all: u32 = counts.iter().sum();
        let percent = |count| f64::from(count) * 100.0 / f64::from(all.max(1));
        counts.into_iter().map(percent).collect()
    }

    /// The mean latency of what ended meanwhile; None if nothing did.
    pub fn mean_ms(&self, during_us: Range<u64>) -> Option<f64> {
        self.mean_ms_of(|served| during_us.contains(&served.ended_us))
    }

    /// The same of one worker.
    pub fn worker_mean_ms(&self, worker: usize, during_us: Range<u64>) -> Option<f64> {
        self.mean_ms_of(|served| served.worker == worker && during_us.contains(&served.ended_us))
    }

    fn mean_ms_of(&self, which: impl Fn(&Served) -> bool) -> Option<f64> {
        let ended = self.served.iter().filter(|served| which(served));
        let (count, sum_us) = ended.fold((0u64, 0u64), |(count, sum_us), served| {
            (count + 1, sum_us + served.ended_us - served.admitted_us)
        });
        (count > 0).then(|| sum_us as f64 / count as f64 / 1000.0)
    }

    /// The most requests a worker had at once.
    pub fn most_at_once(&self, worker: usize) -> u64 {
        let mut ends = self.served.iter().filter(|served| served.worker == worker);
        let mut next_end = ends.next();
        let (mut now, mut most) = (0, 0);
        for admitted in self
            .admitted
            .iter()
            .filter(|admitted| admitted.worker == worker)
        {
            while next_end.is_some_and(|served| served.ended_us <= admitted.at_us) {
                now -= 1;
                next_end = ends.next();
            }
            now += 1;
            most = most.max(now);
        }
        most
    }

    pub fn all_shares(&self) -> Vec<f64> {
        self.shares(0..self.length_us + 1)
    }
}

pub(super) fn seconds(us: u64) -> f64 {
    us as f64 / 1_000_000.0
}

/// The nearest rank.
fn percentile_ms(sorted_us: &[u64], percent: f64) -> Option<f64> {
    let rank = (sorted_us.len() as f64 * percent / 100.0).ceil() as usize;
    let us = sorted_us.get(rank.max(1) - 1)?;
    Some(*us as f64 / 1000.0)
}
