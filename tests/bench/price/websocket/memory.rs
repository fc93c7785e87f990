//! What the processes of a fleet weigh.

use super::Fleet;
use harness::http::Failure;
use harness::process::Process;

/// A VM's memory is one mapping that grows, at the beginning of a reservation of gigabytes.
const RESERVED_BYTES_MIN: u64 = 1 << 30;

/// Bytes of all processes of a kind together; of each session, once another weight is taken off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weight {
    /// Resident memory of Envoy, VMs and sockets' buffers included.
    pub(super) envoys: f64,
    /// Of that, the linear memory of the filter's VMs: all that the filter itself can use.
    pub(super) filters: f64,
    pub(super) sidecars: f64,
    /// As Redis itself counts what it has allocated.
    pub(super) redis: f64,
}

impl Weight {
    pub(super) async fn of(fleet: &Fleet) -> Result<Self, Failure> {
        let resident = |process: &Process| process.memory_kib("VmRSS") as f64 * 1024.0;
        let used = fleet.redis.info("used_memory").await;
        Ok(Self {
            envoys: fleet
                .envoys
                .iter()
                .map(|envoy| resident(&envoy.process))
                .sum(),
            filters: (fleet.envoys.iter())
                .map(|envoy| linear_memory(&envoy.process.kernel_file("smaps")))
                .sum::<u64>() as f64,
            sidecars: (fleet.sidecars.iter())
                .map(|sidecar| resident(&sidecar.process))
                .sum(),
            redis: used.ok_or("a Redis without memory")?.parse()?,
        })
    }

    pub(super) fn since(self, earlier: &Self, sessions: usize) -> Self {
        let each = |now: f64, then: f64| (now - then) / sessions as f64;
        Self {
            envoys: each(self.envoys, earlier.envoys),
            filters: each(self.filters, earlier.filters),
            sidecars: each(self.sidecars, earlier.sidecars),
            redis: each(self.redis, earlier.redis),
        }
    }
}

struct Mapping {
    from: u64,
    to: u64,
    is_writable: bool,
    resident: u64,
}

/// Resident bytes of all writable mappings that a reservation follows.
fn linear_memory(smaps: &str) -> u64 {
    let mappings = mappings(smaps);
    let pairs = mappings.iter().zip(mappings.iter().skip(1));
    let memories = pairs.filter(|(memory, rest)| {
        let reserved = !rest.is_writable && rest.to - rest.from >= RESERVED_BYTES_MIN;
        memory.is_writable && memory.to == rest.from && reserved
    });
    memories.map(|(memory, _)| memory.resident).sum()
}

/// `FROM-TO rw-p …` begins each, and `Rss: N kB` is among the lines that follow.
fn mappings(smaps: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    for line in smaps.lines() {
        if let Some((range, rest)) = line.split_once(' ')
            && let Some((from, to)) = range.split_once('-')
            && let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16))
        {
            found.push(Mapping {
                from,
                to,
                is_writable: rest.starts_with("rw"),
                resident: 0,
            });
        } else if let (Some(kib), Some(last)) = (line.strip_prefix("Rss:"), found.last_mut()) {
            let kib = kib.trim().trim_end_matches(" kB");
            last.resident = kib.parse::<u64>().unwrap_or(0) * 1024;
        }
    }
    found
}
