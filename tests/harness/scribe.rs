//! Plays a sidecar that writes down what it is asked, and denies.

use crate::http::Body;
use admission::message::{
    ADMIT_PATH, AdmitAnswer, AdmitRequest, Denied, DenyReason, SIDECAR_HEADER, SIDECAR_HEADER_VALUE,
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

type Questions = Arc<Mutex<Vec<AdmitRequest>>>;

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
    pub fn take_questions(&self) -> Vec<AdmitRequest> {
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
    let asked = request.uri().path() == ADMIT_PATH;
    let body = request.into_body().collect().await?.to_bytes();
    let mut response = Response::new(Body::default());
    let mark = SIDECAR_HEADER_VALUE.parse().expect("a header's value");
    response.headers_mut().insert(SIDECAR_HEADER, mark);
    match serde_json::from_slice(&body) {
        Ok(question) if asked => {
            let mut questions = questions.lock().unwrap_or_else(PoisonError::into_inner);
            questions.push(question);
            let denial = AdmitAnswer::Denied(Denied {
                reason: DenyReason::PoolFull,
                retry_after_ms: 1000,
            });
            let denial = serde_json::to_vec(&denial).expect("a denial");
            *response.body_mut() = Body::from(denial);
        }
        Ok(_) | Err(_) => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    Ok(response)
}
