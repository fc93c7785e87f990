//! One HTTP request over one connection of its own.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// A server that does not answer in this time is not there.
const TIMEOUT: Duration = Duration::from_secs(5);

pub type Body = Full<Bytes>;
pub type Answer = Response<Bytes>;
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Where a server listens: `http://host:port` or `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Tcp(String),
    Unix(PathBuf),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        match text
            .strip_prefix("http://")
            .map(|rest| rest.trim_end_matches('/'))
        {
            Some(authority) if authority.contains(':') && !authority.contains('/') => {
                Ok(Self::Tcp(authority.to_owned()))
            }
            Some(_) | None => Err("expected http://host:port or unix:/path".into()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => write!(f, "http://{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl From<std::net::SocketAddr> for Target {
    fn from(address: std::net::SocketAddr) -> Self {
        Self::Tcp(address.to_string())
    }
}

pub async fn get(target: &Target, path: &str) -> Result<Answer, Failure> {
    send(target, Request::get(path).body(Body::default())?).await
}

pub async fn send_json(
    target: &Target,
    method: Method,
    path: &str,
    body: String,
) -> Result<Answer, Failure> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body))?;
    send(target, request).await
}

pub async fn send(target: &Target, request: Request<Body>) -> Result<Answer, Failure> {
    let exchange = async {
        match target {
            Target::Tcp(authority) => {
                let stream = TcpStream::connect(authority).await?;
                stream.set_nodelay(true)?;
                exchange(stream, authority, request).await
            }
            Target::Unix(path) => {
                exchange(UnixStream::connect(path).await?, "localhost", request).await
            }
        }
    };
    match tokio::time::timeout(TIMEOUT, exchange).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("{target} did not answer within {} s", TIMEOUT.as_secs()).into()),
    }
}

async fn exchange<S>(
    stream: S,
    authority: &str,
    mut request: Request<Body>,
) -> Result<Answer, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the sender, at the end of this function.
    tokio::spawn(connection);
    if !request.headers().contains_key(HOST) {
        request.headers_mut().insert(HOST, authority.parse()?);
    }
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}
