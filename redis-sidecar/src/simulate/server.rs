//! The inside of a simulated worker: which of its requests is done when.

use super::workload::Queueing;
use std::collections::BTreeSet;

/// Requests are known by when they are done on the server's own clock. Where requests share the
/// server, that clock runs slower the more there are; then no arrival changes the order.
#[derive(Debug)]
pub(super) struct Server {
    queueing: Queueing,
    /// (done, lease)
    requests: BTreeSet<(u64, u64)>,
    clock_ns: f64,
    /// When the clock was last set, in simulated time.
    set_us: u64,
    /// When the last request of a queue is done.
    busy_until_ns: u64,
}

const NS_PER_US: f64 = 1000.0;

impl Server {
    pub(super) fn new(queueing: Queueing) -> Self {
        Self {
            queueing,
            requests: BTreeSet::new(),
            clock_ns: 0.0,
            set_us: 0,
            busy_until_ns: 0,
        }
    }

    pub(super) fn active(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn begin(&mut self, now_us: u64, lease: u64, work_us: u64) {
        self.set_clock(now_us);
        let clock_ns = self.clock_ns.round() as u64;
        let start_ns = match self.queueing {
            Queueing::Delay | Queueing::Shared => clock_ns,
            Queueing::Fifo => clock_ns.max(self.busy_until_ns),
        };
        self.busy_until_ns = start_ns + work_us * 1000;
        self.requests.insert((self.busy_until_ns, lease));
    }

    /// When the next request is done, if no other comes.
    pub(super) fn next_us(&self) -> Option<u64> {
        let (done_ns, _) = self.requests.first()?;
        let wait_ns = (*done_ns as f64 - self.clock_ns).max(0.0) * self.slowness();
        Some(self.set_us + (wait_ns / NS_PER_US).ceil() as u64)
    }

    /// Takes the request that is done now.
    pub(super) fn end(&mut self, now_us: u64) -> Option<u64> {
        self.set_clock(now_us);
        self.requests.pop_first().map(|(_, lease)| lease)
    }

    fn set_clock(&mut self, now_us: u64) {
        self.clock_ns += (now_us - self.set_us) as f64 * NS_PER_US / self.slowness();
        self.set_us = now_us;
    }

    fn slowness(&self) -> f64 {
        match self.queueing {
            Queueing::Delay | Queueing::Fifo => 1.0,
            Queueing::Shared => self.requests.len().max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When three requests of 10 ms, 4 ms apart, are done.
    fn ends(queueing: Queueing) -> Vec<(u64, u64)> {
        let mut server = Server::new(queueing);
        let mut arrivals = (0..3u64).map(|n| (n * 4000, n)).peekable();
        let mut ends = Vec::new();
        loop {
            let next = server.next_us();
            if let Some((at, lease)) = arrivals.next_if(|(at, _)| next.is_none_or(|us| *at < us)) {
                server.begin(at, lease, 10_000);
            } else if let Some(us) = next {
                ends.extend(server.end(us).map(|lease| (lease, us)));
            } else {
                return ends;
            }
        }
    }

    #[test]
    fn delayed_requests_do_not_notice_one_another() {
        let expected = [(0, 10_000), (1, 14_000), (2, 18_000)];
        assert_eq!(ends(Queueing::Delay), expected);
    }

    #[test]
    fn queued_requests_wait_for_those_before() {
        let expected = [(0, 10_000), (1, 20_000), (2, 30_000)];
        assert_eq!(ends(Queueing::Fifo), expected);
    }

    #[test]
    fn sharing_requests_slow_one_another_down() {
        // Alone for 4 ms, by two for 4 ms, then by three until the first has had its 10 ms.
        let expected = [(0, 20_000), (1, 28_000), (2, 30_000)];
        assert_eq!(ends(Queueing::Shared), expected);
    }
}
