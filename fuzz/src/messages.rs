//! Every message, as JSON from anyone: what can be read is written and read again as the same.

use crate::is_same;
use admission::id::Epoch;
use admission::message::{
    AdmitAnswer, AdmitGroupAnswer, AdmitGroupRequest, AdmitRequest, BindAnswer, BindRequest,
    ErrorAnswer, HeartbeatRequest, LoadReport, ObserveAnswer, ObserveRequest, RegisterRequest,
    ReleaseAnswer, ReleaseRequest, RenewAnswer, RenewRequest, WorkerAnswer,
};
use admission::policy::Policy;
use redis_sidecar::atomic::AtomicRequest;
use redis_sidecar::explain::{ExplainRequest, Explanation};
use redis_sidecar::lease_view::{Audit, LeaseView};
use redis_sidecar::view::PoolView;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn run(input: &[u8]) {
    check::<AdmitRequest>(input);
    check::<AdmitAnswer>(input);
    if let Some(group) = check::<AdmitGroupRequest>(input) {
        let _ = group.into_each();
    }
    if let Some(group) = check::<AdmitGroupAnswer>(input) {
        let epoch = Epoch::from_random([0; 16]);
        for answer in group.answers {
            let _ = answer.into_answer(&epoch);
        }
    }
    check::<ReleaseRequest>(input);
    check::<ReleaseAnswer>(input);
    check::<ObserveRequest>(input);
    check::<ObserveAnswer>(input);
    check::<BindRequest>(input);
    check::<BindAnswer>(input);
    check::<RegisterRequest>(input);
    check::<WorkerAnswer>(input);
    check::<RenewRequest>(input);
    check::<RenewAnswer>(input);
    check::<ErrorAnswer>(input);
    check::<ExplainRequest>(input);
    check::<Explanation>(input);
    check::<PoolView>(input);
    check::<Vec<LeaseView>>(input);
    check::<Audit>(input);
    if let Some(policy) = check::<Policy>(input) {
        let _ = policy.validate();
    }
    if let Some(report) = check::<HeartbeatRequest>(input).and_then(|it| it.report) {
        check_report(&report);
    }
    if let Ok(request) = serde_json::from_slice::<AtomicRequest>(input) {
        let _ = request.checked();
    }
}

fn check<T: Serialize + DeserializeOwned>(input: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(input).ok()?;
    let written = serde_json::to_value(&read).expect("what was read can be written");
    let again: T = match serde_json::from_value(written.clone()) {
        Ok(again) => again,
        Err(error) => panic!("{written}: {error}"),
    };
    let rewritten = serde_json::to_value(&again).expect("twice");
    assert!(is_same(&written, &rewritten), "{written} {rewritten}");
    Some(read)
}

fn check_report(report: &LoadReport) {
    if report.validate().is_ok() {
        let figures = [
            report.p95_latency_ms,
            report.error_rate_1m,
            report.uptime_sec,
        ];
        assert!(figures.iter().all(|figure| figure.is_finite()));
    }
}
