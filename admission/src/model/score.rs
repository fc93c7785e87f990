use super::{Pool, Worker};
use crate::id::WorkerId;
use crate::message::{LoadReport, Operation, ServingStatus};
use crate::policy::{Score, ScoreWeights};

/// What a worker last said about its load, and when, counted in events of its pool.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) report: LoadReport,
    pub(super) at: u64,
}

/// A draw among the best, in proportion to their scores.
pub(super) fn choose(pool: &mut Pool, kind: usize) -> Option<WorkerId> {
    let value = |worker: &Worker| {
        let may = pool.may_be_chosen(worker);
        worker.scores[kind].filter(|_| may)
    };
    let mut candidates: Vec<(f64, u64, WorkerId)> = (pool.workers.iter())
        .filter_map(|(id, worker)| Some((value(worker)?, worker.chosen, id.clone())))
        .collect();
    candidates.sort_by(|a, b| {
        (b.0.total_cmp(&a.0))
            .then(a.1.cmp(&b.1))
            .then(a.2.cmp(&b.2))
    });
    candidates.truncate(pool.policy.score.top_k as usize);
    let total: f64 = candidates.iter().map(|(value, ..)| value).sum();
    if total > 0.0 {
        let mut point = pool.dice.roll() * total;
        for (value, _, id) in &candidates {
            point -= value;
            if point < 0.0 {
                return Some(id.clone());
            }
        }
    }
    candidates.first().map(|(.., id)| id.clone())
}

pub(super) fn kind_of(operation: Operation) -> usize {
    match operation {
        Operation::Query => 0,
        Operation::Execute => 1,
        Operation::Begin => 2,
    }
}

/// Score times weight for each operation; none where a gate is closed.
pub(super) fn scores(pool: &Pool, id: &WorkerId) -> [Option<f64>; 3] {
    let Some((worker, load)) = (pool.workers.get(id)).and_then(|w| Some((w, w.load.as_ref()?)))
    else {
        return [None; 3];
    };
    let unreported = |kind: Option<usize>| {
        (pool.leases.values())
            .filter(|lease| lease.worker == *id && lease.incarnation == worker.incarnation)
            .filter(|lease| lease.since > load.at && kind.is_none_or(|kind| lease.kind == kind))
            .count() as f64
    };
    let begin = kind_of(Operation::Begin);
    let parts = Parts::new(
        &pool.policy.score,
        &load.report,
        unreported(None),
        unreported(Some(begin)),
        median(pool),
    );
    Operation::ALL.map(|operation| {
        let open = parts.passes(&pool.policy.score, &load.report, operation);
        open.then(|| parts.score(&pool.policy.score, operation) * worker.weight)
    })
}

fn median(pool: &Pool) -> Option<f64> {
    let mut latencies: Vec<f64> = (pool.workers.values())
        .filter_map(|worker| worker.load.as_ref())
        .filter(|load| load.report.status == ServingStatus::Serving)
        .map(|load| load.report.p95_latency_ms)
        .filter(|latency| *latency > 0.0)
        .collect();
    latencies.sort_by(f64::total_cmp);
    let upper = latencies.get(latencies.len() / 2)?;
    let lower = latencies.get((latencies.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// A worker's load, everything between 0 and 1.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) db_free: f64,
    pub(super) http_free: f64,
    pub(super) tx_free: f64,
    pub(super) latency: f64,
    pub(super) absolute_latency: f64,
    pub(super) errors: f64,
    pub(super) timeouts: f64,
    pub(super) wait: f64,
    pub(super) idle: f64,
    pub(super) uptime: f64,
}

impl Parts {
    pub(super) fn new(
        settings: &Score,
        report: &LoadReport,
        leases: f64,
        transactions: f64,
        median: Option<f64>,
    ) -> Self {
        let free = |used: u32, more: f64, most: u32| {
            (1.0 - (f64::from(used) + more) / f64::from(most)).clamp(0.0, 1.0)
        };
        let left = |used: f64, most: f64| (1.0 - used / most).clamp(0.0, 1.0);
        let latency = report.p95_latency_ms;
        let absolute = left((1.0 + latency).ln(), (1.0 + settings.latency_max_ms).ln());
        let relative = match median {
            Some(median) if settings.relative_latency => {
                let ratio = latency / median;
                if ratio <= 1.0 {
                    1.0
                } else {
                    1.0 / (1.0 + (ratio - 1.0) * settings.relative_k)
                }
            }
            Some(_) | None => absolute,
        };
        Self {
            db_free: free(report.open_conns, leases, report.max_open_conns),
            http_free: free(
                report.running_http_session,
                leases,
                report.max_http_sessions,
            ),
            tx_free: free(
                report.running_tx,
                transactions,
                report.max_transaction_conns,
            ),
            latency: relative,
            absolute_latency: absolute,
            errors: left(report.error_rate_1m, settings.errors_max),
            timeouts: left(f64::from(report.timeouts_1m), settings.timeouts_max),
            wait: left(f64::from(report.wait_conn_count), settings.wait_max),
            idle: (f64::from(report.idle_conns) / f64::from(report.max_open_conns)).clamp(0.0, 1.0),
            uptime: (report.uptime_sec / settings.uptime_full_s).clamp(0.0, 1.0),
        }
    }

    fn passes(&self, settings: &Score, report: &LoadReport, operation: Operation) -> bool {
        let capacity = report.max_http_sessions.min(report.max_open_conns);
        let common = report.status == ServingStatus::Serving
            && capacity.min(report.max_transaction_conns) > 0
            && report.uptime_sec >= settings.min_uptime_s
            && self.db_free > 0.0;
        common
            && match operation {
                Operation::Query | Operation::Execute => {
                    self.errors > 0.0 && self.absolute_latency > 0.0
                }
                Operation::Begin => {
                    self.tx_free >= settings.begin_tx_free_min
                        && report.wait_conn_count < settings.begin_wait_max
                }
            }
    }

    pub(super) fn score(&self, settings: &Score, operation: Operation) -> f64 {
        let weights: &ScoreWeights = match operation {
            Operation::Query => &settings.query,
            Operation::Execute => &settings.execute,
            Operation::Begin => &settings.begin,
        };
        weights.db_free * self.db_free
            + weights.http_free * self.http_free
            + weights.tx_free * self.tx_free
            + weights.latency * self.latency
            + weights.errors * self.errors
            + weights.timeouts * self.timeouts
            + weights.wait * self.wait
            + weights.idle * self.idle
            + weights.uptime * self.uptime
    }
}
