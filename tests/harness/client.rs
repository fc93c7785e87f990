//! What clients do to a fleet.

use crate::http::{self, Answer, Body, Failure, Target};
use crate::worker::WORKER_HEADER;
use admission::reply::REASON_HEADER;
use futures_util::future::join_all;
use futures_util::{SinkExt, StreamExt};
use hyper::client::conn::http2;
use hyper::ext::Protocol;
use hyper::header::{HeaderMap, RETRY_AFTER};
use hyper::{Method, Request, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};

/// No client waits longer, so that a test fails rather than hangs.
const PATIENCE: Duration = Duration::from_secs(15);

/// A handshake as bytes, for clients that leave in the middle of it.
pub const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// How an attempt to open a WebSocket ended.
#[derive(Debug)]
pub enum Visit {
    Admitted(Box<Session>),
    Refused(Refused),
}

/// An answer in place of a session: from the filter when it has a reason, else from Envoy or the
/// worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub status: u16,
    pub reason: Option<String>,
    pub retry_after_s: Option<u64>,
    pub body: String,
}

impl Refused {
    fn new(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        Self {
            status: status.as_u16(),
            reason: text(REASON_HEADER).map(str::to_owned),
            retry_after_s: text(RETRY_AFTER.as_str()).and_then(|value| value.parse().ok()),
            body: String::from_utf8_lossy(body).into_owned(),
        }
    }
}

impl Visit {
    pub fn admitted(self) -> Session {
        match self {
            Self::Admitted(session) => *session,
            Self::Refused(refused) => panic!("not admitted: {refused:?}"),
        }
    }

    pub fn refused(self) -> Refused {
        match self {
            Self::Refused(refused) => refused,
            Self::Admitted(session) => panic!("admitted by {}", session.worker),
        }
    }
}

/// Those who came in, and those who did not.
pub fn split(visits: Vec<Visit>) -> (Vec<Session>, Vec<Refused>) {
    let (mut sessions, mut refusals) = (Vec::new(), Vec::new());
    for visit in visits {
        match visit {
            Visit::Admitted(session) => sessions.push(*session),
            Visit::Refused(refused) => refusals.push(refused),
        }
    }
    (sessions, refusals)
}

pub async fn close_all(sessions: Vec<Session>) {
    join_all(sessions.into_iter().map(Session::close)).await;
}

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// An open WebSocket. Dropping it leaves without a goodbye.
pub struct Session {
    socket: WebSocketStream<Box<dyn Wire>>,
    pub worker: String,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Whether the worker on the other end still answers.
    pub async fn echoes(&mut self, text: &str) -> bool {
        let echo = async {
            self.socket.send(Message::text(text)).await.ok()?;
            self.socket.next().await?.ok()
        };
        let answer = tokio::time::timeout(PATIENCE, echo).await.ok().flatten();
        answer.is_some_and(|answer| answer.to_text().is_ok_and(|answer| answer == text))
    }

    /// Says goodbye and waits until the other side has, too. The end of the connection itself is
    /// not waited for: Envoy takes a second for that, in case the client has not read everything.
    pub async fn close(mut self) {
        let goodbye = async {
            let _ = self.socket.close(None).await;
            while let Some(Ok(message)) = self.socket.next().await
                && !message.is_close()
            {}
        };
        let _ = tokio::time::timeout(PATIENCE, goodbye).await;
    }
}

/// A client of one Envoy.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    envoy: SocketAddr,
}

impl Client {
    pub fn new(envoy: SocketAddr) -> Self {
        Self { envoy }
    }

    pub async fn websocket(&self, path: &str) -> Visit {
        self.websocket_with(path, HeaderMap::new()).await
    }

    pub async fn websocket_with(&self, path: &str, headers: HeaderMap) -> Visit {
        match tokio::time::timeout(PATIENCE, self.try_websocket(path, headers)).await {
            Ok(Ok(visit)) => visit,
            Ok(Err(error)) => panic!("no answer to a WebSocket upgrade: {error}"),
            Err(_) => panic!("no answer to a WebSocket upgrade within {PATIENCE:?}"),
        }
    }

    /// The same from an Envoy that may be gone.
    pub async fn visit(&self, path: &str) -> Result<Visit, Failure> {
        tokio::time::timeout(PATIENCE, self.try_websocket(path, HeaderMap::new())).await?
    }

    async fn try_websocket(&self, path: &str, headers: HeaderMap) -> Result<Visit, Failure> {
        let mut request = format!("ws://{}{path}", self.envoy).into_client_request()?;
        request.headers_mut().extend(headers);
        let stream = TcpStream::connect(self.envoy).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Wire> = Box::new(stream);
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, response)) => {
                let worker = worker_of(response.headers());
                Ok(Visit::Admitted(Box::new(Session { socket, worker })))
            }
            Err(Error::Http(response)) => {
                let body = response.body().as_deref().unwrap_or_default();
                Ok(Visit::Refused(Refused::new(
                    response.status(),
                    response.headers(),
                    body,
                )))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A WebSocket inside an HTTP/2 connection (RFC 8441).
    pub async fn websocket_over_http2(&self, path: &str) -> Result<Visit, Failure> {
        let stream = TokioIo::new(TcpStream::connect(self.envoy).await?);
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        tokio::spawn(connection);
        let uri = |path: &str| format!("http://{}{path}", self.envoy);
        // Only after a first answer it is sure that Envoy's settings, which allow the extended
        // CONNECT, have arrived.
        sender.ready().await?;
        sender
            .send_request(Request::get(uri("/settings")).body(Body::default())?)
            .await?;
        let request = Request::builder()
            .method(Method::CONNECT)
            .version(Version::HTTP_2)
            .uri(uri(path))
            .header("sec-websocket-version", "13")
            .extension(Protocol::from_static("websocket"))
            .body(Body::default())?;
        let response = sender.send_request(request).await?;
        if response.status() != StatusCode::OK {
            return Ok(Visit::Refused(Refused::new(
                response.status(),
                response.headers(),
                b"",
            )));
        }
        let worker = worker_of(response.headers());
        let stream: Box<dyn Wire> = Box::new(TokioIo::new(hyper::upgrade::on(response).await?));
        let socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
        Ok(Visit::Admitted(Box::new(Session { socket, worker })))
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.get_with(path, HeaderMap::new()).await
    }

    pub async fn get_with(&self, path: &str, headers: HeaderMap) -> Answer {
        match self.try_get_with(path, headers).await {
            Ok(answer) => answer,
            Err(error) => panic!("no answer to GET {path}: {error}"),
        }
    }

    /// The same from an Envoy that may be gone.
    pub async fn try_get(&self, path: &str) -> Result<Answer, Failure> {
        self.try_get_with(path, HeaderMap::new()).await
    }

    async fn try_get_with(&self, path: &str, headers: HeaderMap) -> Result<Answer, Failure> {
        let mut request = Request::new(Body::default());
        *request.uri_mut() = path.parse().unwrap_or_default();
        *request.headers_mut() = headers;
        http::send(&Target::from(self.envoy), request).await
    }

    /// A request that no HTTP library would send. The connection stays open until dropped.
    pub async fn raw(&self, request: &[u8]) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.envoy).await?;
        stream.write_all(request).await?;
        Ok(stream)
    }

    /// The status of the answer to a raw request; `None` when the connection was just closed.
    pub async fn raw_status(&self, request: &[u8]) -> std::io::Result<Option<u16>> {
        let mut stream = self.raw(request).await?;
        let mut head = [0; 12];
        match stream.read_exact(&mut head).await {
            Ok(_) => Ok(std::str::from_utf8(&head[9..])
                .ok()
                .and_then(|status| status.parse().ok())),
            Err(_) => Ok(None),
        }
    }
}

/// Which worker answered, by its own word.
pub fn worker_of(headers: &HeaderMap) -> String {
    let value = headers
        .get(WORKER_HEADER)
        .and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}
