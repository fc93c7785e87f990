//! What the filter asks its sidecar.

use admission::id::WorkerId;
use admission::message::{AdmitRequest, Operation};
use harness::envoy::{self, Envoy, Filter, Listeners, Restarts};
use harness::fleet::scratch;
use harness::http::Target;
use harness::scribe::{Asked, Scribe};
use harness::{RouteBy, ports};
use hyper::HeaderMap;
use hyper::header::HeaderName;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tempfile::TempDir;

const CROWD: usize = 24;

/// One Envoy that everything needs a lease at, and a sidecar that writes down what it is asked.
struct Interview {
    envoy: Envoy,
    scribe: Scribe,
    _logs: TempDir,
}

impl Interview {
    async fn with(adjust: impl FnOnce(&mut Value)) -> Self {
        let (scribe, logs) = (Scribe::start().await.unwrap(), scratch());
        let settings = envoy::Settings {
            name: "envoy-1".into(),
            route_by: RouteBy::OriginalDst,
            listen: ports::free(),
            admin: ports::free(),
            sidecar: Target::from(scribe.address()),
            spare: None,
            passthrough: ports::free(),
            workers: vec![],
            least_request: None,
            concurrency: 1,
            listeners: Listeners::Fixed,
            restarts: Restarts::Cold,
            filter: Filter::Shipped,
            verify_tokens: false,
            sidecar_transport: None,
        };
        let adjust = |filter: &mut Value| {
            filter["admit"] = json!("everything");
            adjust(filter);
        };
        let envoy = Envoy::start(settings, adjust, logs.path());
        envoy.ready().await;
        Self {
            envoy,
            scribe,
            _logs: logs,
        }
    }

    /// The one question that a request for this path leads to.
    async fn question(&self, path: &str) -> AdmitRequest {
        assert_eq!(self.envoy.client().get(path).await.status(), 503);
        let [question] = (self.scribe.take_questions().try_into()).expect("one question");
        question.request
    }
}

#[tokio::test]
async fn the_operation_goes_by_the_path_and_self_by_the_setting() {
    let interview = Interview::with(|filter| {
        filter["self"] = json!("worker-1");
        filter["operations"] = json!([
            {"path": "/tx", "operation": "begin"},
            {"path": "/write", "operation": "execute"},
            {"path": "/read", "operation": "query"},
        ]);
    })
    .await;
    for (path, operation) in [
        ("/tx/1", Some(Operation::Begin)),
        ("/write?path=/tx", Some(Operation::Execute)),
        // Envoy makes one path of all its spellings before the filter looks.
        ("/write/..//read", Some(Operation::Query)),
        ("/other?/tx", None),
    ] {
        let question = interview.question(path).await;
        assert_eq!(question.operation, operation, "{path}");
        assert_eq!(question.own, Some(WorkerId::parse("worker-1").unwrap()));
    }
}

#[tokio::test]
async fn what_is_not_set_is_not_said() {
    let interview = Interview::with(|_| {}).await;
    let question = interview.question("/tx").await;
    assert_eq!((question.operation, question.own), (None, None));
}

/// Each asks at the same time, with a trace of its own.
async fn crowd(interview: &Interview, flags: &str) -> Vec<Asked> {
    let traces: Vec<String> = (1..=CROWD)
        .map(|number| format!("00-{number:032x}-{number:016x}-{flags}"))
        .collect();
    let visits = traces.iter().map(|trace| {
        let headers = HeaderMap::from_iter([(
            HeaderName::from_static("traceparent"),
            trace.parse().expect("a header's value"),
        )]);
        let client = interview.envoy.client();
        async move { assert_eq!(client.get_with("/", headers).await.status(), 503) }
    });
    futures_util::future::join_all(visits).await;
    interview.scribe.take_questions()
}

#[tokio::test]
async fn a_request_whose_trace_is_kept_is_asked_for_by_a_call_of_its_own() {
    let interview = Interview::with(|_| {}).await;
    let traces: BTreeSet<_> = (crowd(&interview, "01").await.into_iter())
        .map(|asked| asked.trace.expect("a trace"))
        .collect();
    assert_eq!(traces.len(), CROWD);
}

#[tokio::test]
async fn other_requests_are_all_asked_for_however_many_go_together() {
    let interview = Interview::with(|_| {}).await;
    let numbers: BTreeSet<_> = (crowd(&interview, "00").await.into_iter())
        .map(|asked| asked.request.lease.seq)
        .collect();
    assert_eq!(numbers.len(), CROWD);
}
