//! Plays a sidecar that writes down what it is asked, and denies.

use crate::http::Body;
use admission::message::{
    ADMIT_GROUP_PATH, AdmitAnswer, AdmitGroupAnswer, AdmitGroupRequest, AdmitRequest, Answer,
    Denied, DenyReason, LINE_PATH, SIDECAR_HEADER, SIDECAR_HEADER_VALUE,
};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

type Questions = Arc<Mutex<Vec<Asked>>>;

/// A question, and the trace that its call is part of.
#[derive(Debug)]
pub struct Asked {
    pub request: AdmitRequest,
    pub trace: Option<String>,
}

#[derive(Debug)]
pub struct Scribe {
    address: SocketAddr,
    questions: Questions,
    server: JoinHandle<()>,
}

impl Scribe {
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let questions = Questions::default();
        Ok(Self {
            address,
            server: tokio::spawn(serve(listener, questions.clone())),
            questions,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was asked since the last look.
    pub fn take_questions(&self) -> Vec<Asked> {
        let mut questions = self
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *questions)
    }
}

impl Drop for Scribe {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, questions: Questions) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let questions = questions.clone();
        let service = service_fn(move |request| answer(request, questions.clone()));
        // HTTP/2, as Envoy asks.
        let server = http2::Builder::new(TokioExecutor::new());
        connections.spawn(server.serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(
    request: Request<Incoming>,
    questions: Questions,
) -> Result<Response<Body>, hyper::Error> {
    let asked = request.uri().path() == ADMIT_GROUP_PATH;
    if request.uri().path() == LINE_PATH {
        // It has no lines: whoever wants one goes on by calls, as with a sidecar that is older than the filter.
        let mut response = Response::new(Body::default());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return Ok(response);
    }
    let trace = request.headers().get("traceparent");
    let trace = trace.and_then(|it| Some(it.to_str().ok()?.to_owned()));
    let body = request.into_body().collect().await?.to_bytes();
    let mut response = Response::new(Body::default());
    let mark = SIDECAR_HEADER_VALUE.parse().expect("a header's value");
    response.headers_mut().insert(SIDECAR_HEADER, mark);
    let group = serde_json::from_slice::<AdmitGroupRequest>(&body).ok();
    match group.filter(|_| asked).and_then(|it| it.into_each().ok()) {
        Some(asked) => {
            let denial = AdmitAnswer::Denied(Denied {
                reason: DenyReason::PoolFull,
                retry_after_ms: 1000,
            });
            let answers = (asked.iter().map(|it| it.lease.seq))
                .map(|number| Answer::new(number, denial.clone()))
                .collect();
            let answer = serde_json::to_vec(&AdmitGroupAnswer { answers }).expect("denials");
            *response.body_mut() = Body::from(answer);
            let mut questions = questions.lock().unwrap_or_else(PoisonError::into_inner);
            questions.extend(asked.into_iter().map(|request| Asked {
                request,
                trace: trace.clone(),
            }));
        }
        None => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    Ok(response)
}
