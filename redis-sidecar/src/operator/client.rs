//! The sidecar's API from the other side: one request over one connection of its own.

use crate::doors::tls::{self, Identity};
use crate::settings::Listen;
use admission::message::{ErrorAnswer, SIDECAR_HEADER};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// A sidecar answers within its own budget, a quarter of a second by default; a policy change in a
/// large pool takes as long again. One that is silent for this long will not speak.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Where a sidecar listens. Unlike what it listens on itself, this may be a host's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Tcp(String),
    /// The same with TLS: `https://host:port`.
    Tls(String),
    Unix(PathBuf),
}

impl Default for Address {
    /// Where a sidecar listens when its settings do not say.
    fn default() -> Self {
        match Listen::default() {
            Listen::Tcp(address) => Self::Tcp(address.to_string()),
            Listen::Unix(path) => Self::Unix(path),
        }
    }
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let path = text.strip_prefix("unix:").unwrap_or(text);
        if path.starts_with('/') {
            return Ok(Self::Unix(path.into()));
        }
        let (authority, kind): (_, fn(String) -> Self) = match text.strip_prefix("https://") {
            Some(authority) => (authority, Self::Tls),
            None => (text.strip_prefix("http://").unwrap_or(text), Self::Tcp),
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        match authority.rsplit_once(':') {
            Some((host, port)) if is_host(host) && port.parse::<u16>().is_ok() => {
                Ok(kind(authority.to_owned()))
            }
            Some(_) | None => Err("expected host:port, https://host:port, unix:/path or /path"),
        }
    }
}

fn is_host(text: &str) -> bool {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !text.is_empty() && !text.contains([':', '/', ' ']),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => f.write_str(authority),
            Self::Tls(authority) => write!(f, "https://{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error(
        "no sidecar answers at {address} ({reason}): start one with `berth serve`, or name another \
         with --sidecar or BERTH_SIDECAR; a door with TLS is https://host:port, and may ask for --cert-file \
         and --key-file; if its certificate is for another name, give that by --server-name"
    )]
    Unreachable { address: Address, reason: String },
    #[error(
        "what answers at {address} is no sidecar that this program knows ({reason}): name another \
         with --sidecar or BERTH_SIDECAR"
    )]
    Stranger { address: Address, reason: String },
    /// The sidecar said no; its own sentence says why.
    #[error("{}", .0.message)]
    Refused(ErrorAnswer),
    /// The same, and what to give this program so that it says yes.
    #[error("{}; name a file with an operator's token by --token-file or BERTH_TOKEN_FILE", .0.message)]
    Unauthorized(ErrorAnswer),
    /// What was given at the terminal cannot be used.
    #[error("{what}: {reason}")]
    Input { what: String, reason: String },
}

#[derive(Clone)]
pub struct Client {
    address: Address,
    /// The header's value, marked as secret.
    authorization: Option<HeaderValue>,
    tls: Option<TlsConnector>,
    /// The name that the sidecar's certificate is for, where it is not the host's.
    server_name: Option<String>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.address).finish()
    }
}

/// The files that an operator's command may need.
#[derive(Debug, Clone, Default)]
pub(crate) struct Credentials {
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) identity: Option<Identity>,
    pub(crate) server_name: Option<String>,
}

impl Client {
    pub fn new(address: Address) -> Self {
        Self {
            address,
            authorization: None,
            tls: None,
            server_name: None,
        }
    }

    pub(crate) fn with(self, credentials: &Credentials) -> Result<Self, OperatorError> {
        let input = |what: &str, reason: String| OperatorError::Input {
            what: what.to_owned(),
            reason,
        };
        let tls = match (&self.address, &credentials.ca_file) {
            (Address::Tls(_), Some(ca)) => {
                let config = tls::client(ca, credentials.identity.as_ref());
                let config = config.map_err(|reason| input("TLS", reason))?;
                Some(TlsConnector::from(Arc::new(config)))
            }
            (Address::Tls(_), None) => {
                let reason = "https needs --ca-file: the CA that signed the sidecar's certificate";
                return Err(input("--sidecar", reason.into()));
            }
            (Address::Tcp(_) | Address::Unix(_), _) => None,
        };
        let authorization = (credentials.token_file.as_deref())
            .map(|file| bearer(file).map_err(|reason| input("--token-file", reason)))
            .transpose()?;
        Ok(Self {
            authorization,
            tls,
            server_name: credentials.server_name.clone(),
            ..self
        })
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, OperatorError> {
        self.call(Request::get(path).body(Full::default())).await
    }

    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, OperatorError> {
        let body = serde_json::to_vec(body).map_err(|error| OperatorError::Input {
            what: path.to_owned(),
            reason: error.to_string(),
        })?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, "application/json");
        self.call(request.body(Full::from(body))).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        request: Result<Request<Full<Bytes>>, hyper::http::Error>,
    ) -> Result<T, OperatorError> {
        let unreachable = |reason: String| OperatorError::Unreachable {
            address: self.address.clone(),
            reason,
        };
        let exchange = async {
            let mut request = request?;
            if let Some(value) = &self.authorization {
                request.headers_mut().insert(AUTHORIZATION, value.clone());
            }
            self.exchange(request).await
        };
        let response = tokio::time::timeout(SILENCE_MAX, exchange)
            .await
            .map_err(|_| unreachable(format!("silent for {} s", SILENCE_MAX.as_secs())))?
            .map_err(|error| unreachable(error.to_string()))?;
        self.read(&response)
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, Failure> {
        match &self.address {
            Address::Tcp(authority) => {
                let stream = TcpStream::connect(authority).await?;
                exchange(stream, authority, request).await
            }
            Address::Tls(authority) => {
                let connector = (self.tls.as_ref()).ok_or("https needs --ca-file")?;
                let stream = TcpStream::connect(authority).await?;
                let host = authority.rsplit_once(':').map_or("", |(host, _)| host);
                let host = host.trim_matches(['[', ']']);
                let host = self.server_name.as_deref().unwrap_or(host).to_owned();
                let stream = connector.connect(host.try_into()?, stream).await?;
                exchange(stream, authority, request).await
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                exchange(stream, "localhost", request).await
            }
        }
    }

    fn read<T: DeserializeOwned>(&self, response: &Response<Bytes>) -> Result<T, OperatorError> {
        let stranger = |reason: String| OperatorError::Stranger {
            address: self.address.clone(),
            reason,
        };
        if !response.headers().contains_key(SIDECAR_HEADER) {
            return Err(stranger(format!(
                "{} without {SIDECAR_HEADER}",
                response.status()
            )));
        }
        let unreadable = |error: serde_json::Error| stranger(error.to_string());
        if response.status().is_success() {
            serde_json::from_slice(response.body()).map_err(unreadable)
        } else {
            let refusal = serde_json::from_slice(response.body()).map_err(unreadable)?;
            Err(match response.status() {
                StatusCode::UNAUTHORIZED => OperatorError::Unauthorized(refusal),
                _ => OperatorError::Refused(refusal),
            })
        }
    }
}

/// The first token of the file, as a header's value.
fn bearer(file: &Path) -> Result<HeaderValue, String> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut lines = text.lines().map(str::trim);
    let token = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let token = token.ok_or_else(|| format!("{}: there is no token in it", file.display()))?;
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| format!("{}: its token is not of visible ASCII", file.display()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// What can go wrong on the way there and back; for people only.
type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn exchange<S>(
    stream: S,
    host: &str,
    mut request: Request<Full<Bytes>>,
) -> Result<Response<Bytes>, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the sender, at the end of this function.
    tokio::spawn(connection);
    request.headers_mut().insert(HOST, host.parse()?);
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_every_form_that_people_write() {
        let tcp = |text: &str| Ok(Address::Tcp(text.into()));
        for (text, address) in [
            ("127.0.0.1:7070", tcp("127.0.0.1:7070")),
            ("localhost:7070", tcp("localhost:7070")),
            ("http://sidecar:7070/", tcp("sidecar:7070")),
            ("[::1]:7070", tcp("[::1]:7070")),
            ("https://h:1/", Ok(Address::Tls("h:1".into()))),
            ("unix:/run/b.sock", Ok(Address::Unix("/run/b.sock".into()))),
            ("/run/b.sock", Ok(Address::Unix("/run/b.sock".into()))),
        ] {
            assert_eq!(text.parse(), address, "{text}");
        }
        for wrong in ["", "7070", ":7070", "host", "host:port", "host:70700"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
        for wrong in [
            "https://host",
            "http://host:7070/v1",
            "::1:7070",
            "unix:b.sock",
        ] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_default_is_where_a_sidecar_listens_by_default() {
        let shown = Address::default().to_string();
        assert_eq!(shown, "127.0.0.1:7070");
        assert_eq!(shown.parse(), Ok(Address::default()));
    }
}
