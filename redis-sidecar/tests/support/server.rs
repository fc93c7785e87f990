//! A sidecar as its settings make it, in this process, and a caller that sends what it likes.

use redis_sidecar::serve::{ServeError, serve};
use redis_sidecar::settings::Settings;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct Server {
    stop: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), ServeError>>,
}

impl Server {
    pub(crate) fn start(settings: Settings) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        Self {
            stop,
            task: tokio::spawn(async move { serve(&settings, stopped).await }),
        }
    }

    pub(crate) async fn end(self) -> Result<(), ServeError> {
        self.stop.cancel();
        self.task.await.expect("no panic")
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case, as one text.
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// Sends these bytes over a connection of its own, and reads until it is closed; nothing is `None`.
pub(crate) async fn send(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    bytes: &[u8],
) -> Option<Answer> {
    let mut heard = Vec::new();
    let exchange = async {
        // Who is refused may be told before it has said all.
        let _ = stream.write_all(bytes).await;
        let _ = stream.read_to_end(&mut heard).await;
    };
    let ended = tokio::time::timeout(super::DEADLINE, exchange).await;
    ended.expect("the connection ends");
    let text = String::from_utf8_lossy(&heard);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer {
        status,
        head: head.to_lowercase(),
        body: serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.into())),
    })
}

/// A whole request, of which the connection is the last.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: berth\r\nconnection: close\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    let length = body.len();
    text += &format!("content-length: {length}\r\n\r\n{body}");
    text.into_bytes()
}

/// Through a Unix socket, with a token if there is one.
pub(crate) async fn call(
    socket: &Path,
    token: Option<&str>,
    method: &str,
    path: &str,
    body: &str,
) -> Answer {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = (bearer.iter())
        .map(|value| ("authorization", value.as_str()))
        .collect();
    let stream = UnixStream::connect(socket).await.expect("a sidecar");
    let answer = send(stream, &request(method, path, &headers, body)).await;
    answer.expect("an answer")
}

/// An address on loopback that nobody uses, below those that outgoing connections take.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 2000) as u16;
    loop {
        let port = 12_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 3000;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if std::net::TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Longer than anything that is to happen at once, shorter than the deadline of anything else.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(5);
