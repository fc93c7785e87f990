//! How busy the machine is, with everything that runs on it.

use std::io;

/// Ticks of all CPUs since the machine started.
pub(crate) struct Usage {
    idle: u64,
    total: u64,
}

impl Usage {
    pub(crate) fn now() -> io::Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat")?;
        // cpu  USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL; what follows is counted in USER.
        let ticks = stat.lines().next().unwrap_or_default().split_whitespace();
        let ticks: Vec<u64> = (ticks.skip(1).take(8).map(str::parse))
            .collect::<Result<_, _>>()
            .map_err(io::Error::other)?;
        let [_, _, _, idle, waiting, ..] = ticks[..] else {
            return Err(io::Error::other(
                "/proc/stat does not begin with the CPU's times",
            ));
        };
        Ok(Self {
            idle: idle + waiting,
            total: ticks.iter().sum(),
        })
    }

    /// The share of time since `earlier` for which the CPUs were not idle.
    pub(crate) fn busy_since(&self, earlier: &Self) -> f64 {
        let total = self.total.saturating_sub(earlier.total).max(1);
        let idle = self.idle.saturating_sub(earlier.idle);
        1.0 - idle as f64 / total as f64
    }
}
