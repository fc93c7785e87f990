//! The choice by what workers report, held to its formulas.

use crate::support::{Pool, chi_square, id, registration};
use admission::message::{DenyReason, LoadReport, Operation, ServingStatus};
use admission::policy::{Policy, Strategy};
use redis_sidecar::explain::{ExplainRequest, ExplainedWorker};
use serde_json::json;
use std::collections::BTreeMap;

async fn pool_with(adjust: impl FnOnce(&mut Policy)) -> Pool {
    Pool::with(|policy| {
        policy.strategy = Strategy::Score;
        policy.max_concurrent = 1000;
        policy.max_lifetime = 0;
        adjust(policy);
    })
    .await
}

/// A worker with room, of middling health.
fn load() -> LoadReport {
    LoadReport {
        status: ServingStatus::Serving,
        running_http_session: 10,
        running_sql: 7,
        running_tx: 1,
        max_http_sessions: 100,
        max_open_conns: 20,
        max_transaction_conns: 10,
        open_conns: 5,
        idle_conns: 4,
        wait_conn_count: 2,
        p95_latency_ms: 100.0,
        error_rate_1m: 0.01,
        timeouts_1m: 3,
        uptime_sec: 150.0,
    }
}

async fn join(pool: &Pool, worker: &str, load: LoadReport) {
    pool.register(worker, "a").await;
    pool.report(worker, "a", Some(load)).await;
}

async fn explained(pool: &Pool, worker: &str, operation: Operation) -> ExplainedWorker {
    let request = ExplainRequest {
        operation: Some(operation),
        ..ExplainRequest::default()
    };
    let workers = pool.explain(&request).await.workers;
    let found = workers.into_iter().find(|shown| shown.worker == id(worker));
    found.expect("a known worker")
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[tokio::test]
async fn the_three_formulas() {
    let pool = pool_with(|policy| policy.score.relative_latency = false).await;
    join(&pool, "w1", load()).await;
    let latency = 1.0 - 101f64.ln() / 2001f64.ln();
    // dbFree .75, httpFree .9, txFree .9, err .8, to .85, wait .8, idle .2, uptime .5
    let expected = [
        (
            Operation::Query,
            0.22 * 0.75
                + 0.18 * 0.9
                + 0.10 * 0.9
                + 0.20 * latency
                + 0.12 * 0.8
                + 0.08 * 0.85
                + 0.06 * 0.8
                + 0.02 * 0.2
                + 0.02 * 0.5,
        ),
        (
            Operation::Execute,
            0.30 * 0.75
                + 0.14 * 0.9
                + 0.08 * 0.9
                + 0.14 * latency
                + 0.14 * 0.8
                + 0.10 * 0.85
                + 0.08 * 0.8
                + 0.02 * 0.2,
        ),
        (
            Operation::Begin,
            0.22 * 0.75
                + 0.08 * 0.9
                + 0.42 * 0.9
                + 0.04 * latency
                + 0.10 * 0.8
                + 0.06 * 0.85
                + 0.06 * 0.8
                + 0.02 * 0.2,
        ),
    ];
    for (operation, score) in expected {
        let shown = explained(&pool, "w1", operation).await;
        assert!(
            close(shown.inputs["score"], score),
            "{operation:?}: {shown:?}"
        );
        assert!(close(shown.rank.expect("a rank"), -score), "{shown:?}");
    }
}

#[tokio::test]
async fn every_gate_keeps_out_and_is_named() {
    use Operation::{Begin, Execute, Query};
    let pool = pool_with(|policy| policy.score.min_uptime_s = 10.0).await;
    type Change = fn(&mut LoadReport);
    let gates: [(&str, &[Operation], Change); 12] = [
        ("not_serving", &Operation::ALL, |load| {
            load.status = ServingStatus::Draining;
        }),
        ("not_serving", &Operation::ALL, |load| {
            load.status = ServingStatus::Down;
        }),
        ("no_capacity", &Operation::ALL, |load| {
            load.max_http_sessions = 0;
        }),
        ("no_capacity", &Operation::ALL, |load| {
            load.max_open_conns = 0;
        }),
        ("no_capacity", &Operation::ALL, |load| {
            load.max_transaction_conns = 0;
        }),
        ("too_young", &Operation::ALL, |load| load.uptime_sec = 9.0),
        ("no_connection_free", &Operation::ALL, |load| {
            load.open_conns = 20;
        }),
        ("no_transaction_free", &[Begin], |load| load.running_tx = 10),
        ("too_many_waiting", &[Begin], |load| {
            load.wait_conn_count = 20;
        }),
        ("too_many_errors", &[Query, Execute], |load| {
            load.error_rate_1m = 0.05;
        }),
        // The gate is absolute, even where the score is relative to the median.
        ("too_slow", &[Query, Execute], |load| {
            load.p95_latency_ms = 2000.0;
        }),
        ("", &[], |_| {}),
    ];
    pool.register("w1", "a").await;
    let silent = explained(&pool, "w1", Query).await;
    assert_eq!(
        (silent.gates, silent.rank),
        (vec!["no_report".into()], None)
    );
    for (gate, closed, change) in gates {
        let mut load = load();
        change(&mut load);
        pool.report("w1", "a", Some(load)).await;
        for operation in Operation::ALL {
            let shown = explained(&pool, "w1", operation).await;
            let expected = if closed.contains(&operation) {
                vec![gate.to_owned()]
            } else {
                vec![]
            };
            assert_eq!(shown.gates, expected, "{operation:?} {gate}");
            assert_eq!(shown.rank.is_none(), closed.contains(&operation));
        }
    }
}

#[tokio::test]
async fn without_a_report_nobody_is_chosen() {
    let pool = pool_with(|_| {}).await;
    pool.register("w1", "a").await;
    assert_eq!(pool.denied().await, DenyReason::PoolFull);
    pool.report("w1", "a", Some(load())).await;
    pool.admit().await;
    // What a former life has said is true no more.
    pool.register("w1", "b").await;
    assert_eq!(pool.denied().await, DenyReason::PoolFull);
}

#[tokio::test]
async fn latency_is_judged_by_the_median_and_never_above_one() {
    let pool = pool_with(|_| {}).await;
    for (worker, p95_latency_ms) in [("w1", 20.0), ("w2", 100.0), ("w3", 300.0)] {
        let load = LoadReport {
            p95_latency_ms,
            ..load()
        };
        join(&pool, worker, load).await;
    }
    // The median is that of the worker's own last event: let all have one.
    for worker in ["w1", "w2", "w3"] {
        pool.heartbeat(worker, "a").await;
    }
    for (worker, expected) in [("w1", 1.0), ("w2", 1.0), ("w3", 1.0 / (1.0 + 2.0 * 2.0))] {
        let shown = explained(&pool, worker, Operation::Query).await;
        assert!(close(shown.inputs["latency"], expected), "{shown:?}");
    }
    // Who serves no more is not in the median: of 20 and 300 it is 160.
    let down = LoadReport {
        status: ServingStatus::Down,
        ..load()
    };
    pool.report("w2", "a", Some(down)).await;
    pool.heartbeat("w3", "a").await;
    let shown = explained(&pool, "w3", Operation::Query).await;
    let expected = 1.0 / (1.0 + (300.0 / 160.0 - 1.0) * 2.0);
    assert!(close(shown.inputs["latency"], expected), "{shown:?}");
}

#[tokio::test]
async fn a_burst_between_reports_does_not_herd() {
    let pool = pool_with(|policy| policy.score.top_k = 1).await;
    join(&pool, "w1", load()).await;
    join(&pool, "w2", load()).await;
    let mut leases = Vec::new();
    for _ in 0..10 {
        leases.push(pool.admit().await);
    }
    assert_eq!(pool.worker("w1").await.active, 5);
    // What ended is no more added; what a newer report knows is not added twice.
    for admitted in &leases[..4] {
        pool.release(&admitted.lease).await;
    }
    let shown = explained(&pool, "w1", Operation::Query).await;
    assert_eq!(shown.inputs["leases_since_report"], 3.0);
    pool.report("w1", "a", Some(load())).await;
    for admitted in &leases[4..] {
        pool.release(&admitted.lease).await;
    }
    let shown = explained(&pool, "w1", Operation::Query).await;
    assert_eq!(shown.inputs["leases_since_report"], 0.0);
}

#[tokio::test]
async fn only_transactions_count_against_transactions() {
    let pool = pool_with(|_| {}).await;
    join(&pool, "w1", load()).await;
    for operation in Operation::ALL {
        pool.admit_for(|question| question.operation = Some(operation))
            .await;
    }
    let shown = explained(&pool, "w1", Operation::Begin).await;
    assert!(close(shown.inputs["tx_free"], 0.8), "{shown:?}");
    assert!(
        close(shown.inputs["db_free"], 1.0 - 8.0 / 20.0),
        "{shown:?}"
    );
    assert!(close(shown.inputs["http_free"], 0.87), "{shown:?}");
}

#[tokio::test]
async fn the_worker_that_a_request_stands_on_keeps_it_while_it_can() {
    let pool = pool_with(|_| {}).await;
    let worse = LoadReport {
        open_conns: 19,
        ..load()
    };
    join(&pool, "far", load()).await;
    join(&pool, "here", worse).await;
    let stand = async || {
        let admitted = pool.admit_for(|question| question.own = Some(id("here")));
        admitted.await.worker.to_string()
    };
    assert_eq!(stand().await, "here");
    // Its last connection is taken: the gate is closed.
    assert_eq!(stand().await, "far");
    assert_eq!(stand().await, "far");
}

#[tokio::test]
async fn the_best_three_share_by_score_and_weight() {
    const DRAWS: usize = 4000;
    let pool = pool_with(|policy| policy.score.relative_latency = false).await;
    for (worker, weight, open_conns) in [
        ("w1", 2.0, 0),
        ("w2", 1.0, 4),
        ("w3", 1.0, 8),
        ("w4", 0.5, 0),
    ] {
        pool.register_as(worker, &registration("a", None, weight))
            .await;
        let load = LoadReport {
            open_conns,
            ..load()
        };
        pool.report(worker, "a", Some(load)).await;
    }
    let mut values = BTreeMap::new();
    for worker in ["w1", "w2", "w3", "w4"] {
        let rank = explained(&pool, worker, Operation::Query).await.rank;
        values.insert(worker, -rank.expect("a rank"));
    }
    let mut counts = BTreeMap::new();
    for _ in 0..DRAWS {
        let admitted = pool.admit().await;
        *counts.entry(admitted.worker.to_string()).or_default() += 1.0;
        pool.release(&admitted.lease).await;
    }
    assert_eq!(counts.get("w4"), None, "the fourth is never drawn");
    values.remove("w4");
    let chances: Vec<_> = values.into_iter().collect();
    // Two degrees of freedom: one in a thousand is above 13.8.
    assert!(chi_square(&counts, &chances) < 13.8, "{counts:?}");
}

#[tokio::test]
async fn extreme_figures_leave_counts_and_limits_alone() {
    let pool = pool_with(|policy| {
        policy.max_concurrent = 2;
        policy.score.relative_k = f64::MIN_POSITIVE;
    })
    .await;
    for (worker, p95_latency_ms) in [("x", 1e-300), ("y", 1e-300), ("z", 1e308)] {
        let load = LoadReport {
            p95_latency_ms,
            ..load()
        };
        join(&pool, worker, load).await;
    }
    for _ in 0..6 {
        pool.admit_for(|question| question.operation = Some(Operation::Begin))
            .await;
    }
    let view = pool.view().await;
    assert!(view.workers.iter().all(|worker| worker.active <= 2));
    assert_eq!(view.head.active, 6);
}

#[tokio::test]
pub(crate) async fn a_load_with_a_figure_that_is_none_is_refused_whole() {
    let pool = pool_with(|_| {}).await;
    join(&pool, "x", load()).await;
    let whole = serde_json::to_value(load()).expect("JSON");
    for (field, wrong) in [
        ("p95LatencyMs", json!("5 ms")),
        ("openConns", json!(-1)),
        ("uptimeSec", json!(null)),
        ("status", json!(1)),
    ] {
        let mut load = whole.clone();
        load[field] = wrong;
        let load = load.to_string();
        pool.breaks("heartbeat", &["x", "a", &load, "", ""]).await;
    }
}

#[tokio::test]
pub(crate) async fn an_operation_that_there_is_not_is_refused_whole() {
    let pool = pool_with(|_| {}).await;
    join(&pool, "x", load()).await;
    let args = ["1", "lease.1", "0", "drop", "x", "envoy", "", "", "0", "0"];
    pool.breaks("admit", &args).await;
}
