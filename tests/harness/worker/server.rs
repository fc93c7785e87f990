//! The serving half of a worker: WebSocket echo on any path, JSON for everything else.

use super::{Journal, Settings};
use crate::http::Body;
use crate::wait::{DEADLINE, POLL};
use futures_util::StreamExt;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// Says who served, so that clients need not ask.
pub const WORKER_HEADER: &str = "x-worker";

/// Begins a transaction, whose id the answer carries.
const BEGIN_PATH: &str = "/tx/begin";
const TRANSACTION_HEADER: &str = "x-tx-id";
/// Ends one, as the answer tells.
const END_PATH: &str = "/tx/end";
const TRANSACTION_END_HEADER: &str = "x-tx-end";

/// What stays the same over a worker's restarts.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) id: String,
    delay: Duration,
    /// 0 when upgrades succeed.
    fail_upgrade_with: AtomicU16,
    /// Transactions so far.
    begun: AtomicU64,
    open: watch::Sender<usize>,
    pub(super) journal: Journal,
}

impl Site {
    pub(super) fn new(settings: &Settings) -> std::io::Result<Self> {
        let status = settings
            .fail_upgrade_with
            .map_or(0, |status| status.as_u16());
        let journal = match &settings.journal {
            Some(directory) => Journal::written_to(directory, settings.id.as_str())?,
            None => Journal::default(),
        };
        Ok(Self {
            id: settings.id.to_string(),
            delay: settings.delay,
            fail_upgrade_with: AtomicU16::new(status),
            begun: AtomicU64::new(0),
            open: watch::Sender::new(0),
            journal,
        })
    }

    pub(super) fn set_fail_upgrade_with(&self, status: Option<StatusCode>) {
        let status = status.map_or(0, |status| status.as_u16());
        self.fail_upgrade_with.store(status, Ordering::Relaxed);
    }

    /// Sessions and requests in progress.
    pub(super) fn sessions(&self) -> usize {
        *self.open.borrow()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.sessions() == 0
    }

    /// Returns when no session is open.
    pub(super) async fn idle(&self) {
        // It can only fail without a sender, and `self` has one.
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }
}

/// One session or request in progress; counted from its first byte to its last.
struct Occupied(Arc<Site>);

impl Occupied {
    fn new(site: Arc<Site>) -> Self {
        site.journal.opened();
        site.open.send_modify(|open| *open += 1);
        Self(site)
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        self.0.journal.closed();
        self.0.open.send_modify(|open| *open -= 1);
    }
}

/// Listens where this worker listened before, or where nobody did a moment ago. A process that is just
/// being started may still have a copy of the former listener: that passes.
pub(crate) async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let start = Instant::now();
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse && start.elapsed() < DEADLINE => {
                tokio::time::sleep(POLL).await;
            }
            bound => return bound,
        }
    }
}

/// A listener and the connections it has accepted.
#[derive(Debug)]
pub(super) struct Server {
    accepting: JoinHandle<()>,
}

impl Server {
    pub(super) fn start(listener: TcpListener, site: Arc<Site>) -> Self {
        Self {
            accepting: tokio::spawn(accept(listener, site)),
        }
    }

    /// Ends everything at once and returns when listener and connections are closed.
    pub(super) async fn cut(mut self) {
        self.accepting.abort();
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, site: Arc<Site>) {
    // Dropped with this task: aborting it cuts every connection.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        connections.spawn(connection(stream, site.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// An upgrade that was granted and begins when its 101 is on the wire.
type Granted = Arc<Mutex<Option<(OnUpgrade, Occupied)>>>;

async fn connection(stream: TcpStream, site: Arc<Site>) {
    let granted = Granted::default();
    let service = service_fn(|request| {
        let (site, granted) = (site.clone(), granted.clone());
        async move { Ok::<_, Infallible>(respond(request, site, granted).await) }
    });
    let served = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    let granted = granted
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let (Ok(()), Some((upgrade, _occupied))) = (served, granted) {
        echo(upgrade).await;
    }
}

async fn respond(
    mut request: Request<Incoming>,
    site: Arc<Site>,
    granted: Granted,
) -> Response<Body> {
    let mut response = match (request.uri().path(), request.headers().get(UPGRADE)) {
        ("/healthz", None) => Response::new(Body::from("ok\n")),
        (_, None) => answer(&request, &site).await,
        (_, Some(_)) => upgrade(&mut request, &site, granted).await,
    };
    if let Ok(id) = HeaderValue::from_str(&site.id) {
        response.headers_mut().insert(WORKER_HEADER, id);
    }
    response
}

async fn answer(request: &Request<Incoming>, site: &Arc<Site>) -> Response<Body> {
    let _occupied = Occupied::new(site.clone());
    tokio::time::sleep(site.delay).await;
    let (uri, active) = (request.uri(), *site.open.borrow());
    let (path, query) = (uri.path(), uri.query());
    let body = json!({"worker": site.id, "path": path, "query": query, "active": active});
    let mut response = Response::new(Body::from(format!("{body}\n")));
    if path == BEGIN_PATH {
        let number = site.begun.fetch_add(1, Ordering::Relaxed);
        if let Ok(id) = HeaderValue::from_str(&format!("{}-{number}", site.id)) {
            response.headers_mut().insert(TRANSACTION_HEADER, id);
        }
    }
    if path == END_PATH {
        let over = HeaderValue::from_static("1");
        response.headers_mut().insert(TRANSACTION_END_HEADER, over);
    }
    response
}

async fn upgrade(
    request: &mut Request<Incoming>,
    site: &Arc<Site>,
    granted: Granted,
) -> Response<Body> {
    let occupied = Occupied::new(site.clone());
    tokio::time::sleep(site.delay).await;
    let mut response = Response::new(Body::default());
    if let Ok(status) = StatusCode::from_u16(site.fail_upgrade_with.load(Ordering::Relaxed)) {
        *response.status_mut() = status;
        return response;
    }
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    // A WebSocket over HTTP/2 has no key, and Envoy adds none.
    let key = request.headers().get(SEC_WEBSOCKET_KEY);
    let accept = key.map(|key| HeaderValue::from_str(&derive_accept_key(key.as_bytes())));
    if let Some(Ok(accept)) = accept {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    let session = (hyper::upgrade::on(request), occupied);
    *granted.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
    response
}

async fn echo(upgrade: OnUpgrade) {
    let Ok(stream) = upgrade.await else { return };
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(stream), Role::Server, None).await;
    let (sink, stream) = socket.split();
    let messages = stream.filter(|message| {
        // Pings and closes are answered by the library.
        let echoed = message
            .as_ref()
            .is_ok_and(|message| message.is_text() || message.is_binary());
        std::future::ready(echoed || message.is_err())
    });
    let _ = messages.forward(sink).await;
}
