//! Two proxies race for the last places, under every strategy.

use crate::support::{Pool, holder};
use admission::id::LeaseId;
use admission::message::{AdmitAnswer, AdmitRequest, LoadReport, ServingStatus};
use admission::policy::Strategy;

const WORKERS: usize = 5;
const PLACES: u32 = 2;
const QUESTIONS: u64 = 40;

#[tokio::test]
async fn limits_hold_under_every_strategy_when_two_proxies_race() {
    for strategy in Strategy::ALL {
        let pool = Pool::with(|policy| {
            policy.strategy = strategy;
            policy.max_concurrent = PLACES;
        })
        .await;
        for number in 0..WORKERS {
            let worker = format!("w{number}");
            pool.register(&worker, "a").await;
            pool.report(&worker, "a", Some(idle())).await;
        }
        let other = pool.second_store().await;
        let mut races = tokio::task::JoinSet::new();
        for (number, store) in [(2, pool.store.clone()), (3, other)] {
            for seq in 1..=QUESTIONS {
                let holder = holder(number);
                let epoch = holder.epoch.clone();
                let question = AdmitRequest::new(pool.name.clone(), holder, LeaseId { epoch, seq });
                let store = store.clone();
                races.spawn(async move { store.admit(&question).await });
            }
        }
        let admitted = races.join_all().await.into_iter().filter(|answer| {
            let answer = answer.as_ref().expect("a decision");
            matches!(answer, AdmitAnswer::Admitted(_))
        });
        assert_eq!(admitted.count(), WORKERS * PLACES as usize, "{strategy:?}");
        pool.assert_no_drift().await;
        for worker in pool.view().await.workers {
            assert_eq!(worker.active, u64::from(PLACES), "{strategy:?}");
        }
    }
}

/// A worker with all its room free.
fn idle() -> LoadReport {
    LoadReport {
        status: ServingStatus::Serving,
        running_http_session: 0,
        running_sql: 0,
        running_tx: 0,
        max_http_sessions: 100,
        max_open_conns: 100,
        max_transaction_conns: 100,
        open_conns: 0,
        idle_conns: 0,
        wait_conn_count: 0,
        p95_latency_ms: 1.0,
        error_rate_1m: 0.0,
        timeouts_1m: 0,
        uptime_sec: 1.0,
    }
}
