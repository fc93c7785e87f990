//! The plain backend behind Envoy's `passthrough` cluster: it tells what reached it.

use crate::http::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

#[derive(Debug)]
pub struct Backend {
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl Backend {
    pub async fn start(address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self {
            address: listener.local_addr()?,
            server: tokio::spawn(serve(listener)),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(&request)) });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        connections.spawn(connection);
        while connections.try_join_next().is_some() {}
    }
}

/// The request's headers are shown as they came, so that a test can see what Envoy let through.
fn answer(request: &Request<Incoming>) -> Response<Body> {
    let headers: Map<String, Value> = (request.headers().iter())
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.to_string(), Value::from(value.into_owned()))
        })
        .collect();
    let path = request.uri().path();
    let body = json!({"backend": "passthrough", "path": path, "headers": headers});
    Response::new(Body::from(format!("{body}\n")))
}
