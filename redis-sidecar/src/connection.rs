//! One connection's life. axum's own server cannot ping: a peer on another host that vanished without
//! a word would seem present for ever.

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// How often a peer on another host is pinged, and how long its answer may take.
const PING_EVERY: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(4);
/// Out of file descriptors, most likely: some may be free again after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// A request that came from another host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remote;

pub(crate) async fn serve_tcp(listener: TcpListener, router: Router, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                let remote = (!peer.ip().to_canonical().is_loopback()).then_some(Remote);
                connections.spawn(serve(stream, remote, router.clone(), stop.clone()));
            }
            Err(error) => wait_after(&error).await,
        }
        while connections.try_join_next().is_some() {}
    }
    connections.join_all().await;
}

pub(crate) async fn serve_unix(listener: UnixListener, router: Router, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(serve(stream, None, router.clone(), stop.clone()));
            }
            Err(error) => wait_after(&error).await,
        }
        while connections.try_join_next().is_some() {}
    }
    connections.join_all().await;
}

/// A peer that is gone already is no reason to wait.
async fn wait_after(error: &std::io::Error) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if ![ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind()) {
        tracing::warn!(%error, "cannot accept a connection");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

async fn serve<S>(stream: S, remote: Option<Remote>, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new());
    if remote.is_some() {
        builder
            .http2()
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT);
    }
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        if let Some(remote) = remote {
            request.extensions_mut().insert(remote);
        }
        router.clone().oneshot(request)
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}
