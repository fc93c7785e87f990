//! The sidecar's settings: one TOML file, overridden by environment variables. Unknown settings
//! and bad values stop the start with a message that names them.

use admission::id::PoolName;
use admission::policy::Policy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

pub(crate) use load::parse_value;
pub use load::{Loaded, load};

mod load;
#[cfg(test)]
mod tests;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where to listen: `127.0.0.1:7070` or `unix:/run/berth/berth.sock`.
    pub listen: Vec<Listen>,
    /// Whoever reaches the API can take and release every place, so an address that others can
    /// reach must be asked for twice.
    pub allow_remote: bool,
    /// How long a question may take; the filter waits 50 ms longer.
    pub answer_timeout_ms: u64,
    /// How often pools are looked after when nobody asks for a place.
    pub reap_ms: u64,
    /// How often pools are counted anew; 0 for never.
    pub audit_s: u64,
    pub redis: RedisSettings,
    pub pools: BTreeMap<PoolName, Policy>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RedisSettings {
    pub url: String,
    /// How long Redis may take to answer or to accept a connection.
    pub timeout_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![Listen::default()],
            allow_remote: false,
            answer_timeout_ms: 250,
            reap_ms: 500,
            audit_s: 60,
            redis: RedisSettings::default(),
            pools: BTreeMap::new(),
        }
    }
}

impl Default for RedisSettings {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379".into(),
            timeout_ms: 150,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Default for Listen {
    fn default() -> Self {
        Self::Tcp(SocketAddr::from(([127, 0, 0, 1], 7070)))
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(_) => Err(format!("{text:?}: a Unix socket needs an absolute path")),
            None => text
                .parse()
                .map(Self::Tcp)
                .map_err(|_| format!("{text:?} is neither ip:port nor unix:/path")),
        }
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> String {
        listen.to_string()
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("cannot read {}: {error}", path.display())]
    Read {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("{}: {error}", path.display())]
    Syntax {
        path: PathBuf,
        error: toml::de::Error,
    },
    #[error("{variable}: {reason}")]
    Variable { variable: String, reason: String },
    #[error("settings: {0}")]
    Value(String),
}

impl Settings {
    fn validate(&self) -> Result<(), SettingsError> {
        let refuse = |message: String| Err(SettingsError::Value(message));
        if self.listen.is_empty() {
            return refuse("listen must name at least one address".into());
        }
        for listen in &self.listen {
            if let Listen::Tcp(address) = listen
                && !address.ip().is_loopback()
                && !self.allow_remote
            {
                return refuse(format!(
                    "listen: {address} can be reached from other hosts, and whoever reaches the \
                     API can take and release every place; listen on loopback or a Unix socket, \
                     or set allow_remote = true on a network you trust"
                ));
            }
        }
        if !(10..=60_000).contains(&self.answer_timeout_ms) {
            return refuse("answer_timeout_ms must be between 10 and 60000".into());
        }
        // The pool's clock takes no step above 0.7 s: slower reaping would slow the clock.
        if !(1..=600).contains(&self.reap_ms) {
            return refuse("reap_ms must be between 1 and 600".into());
        }
        if self.audit_s > 86_400 {
            return refuse("audit_s must be at most 86400".into());
        }
        if redis::parse_redis_url(&self.redis.url).is_none() {
            return refuse(format!(
                "redis.url: {:?} is neither redis://[user:password@]host:port[/db] nor \
                 redis+unix:///path",
                without_password(&self.redis.url)
            ));
        }
        if !(1..=60_000).contains(&self.redis.timeout_ms) {
            return refuse("redis.timeout_ms must be between 1 and 60000".into());
        }
        for (pool, policy) in &self.pools {
            if let Err(error) = policy.validate() {
                return refuse(format!("pools.{pool}: {error}"));
            }
        }
        Ok(())
    }
}

/// A URL as it may be shown: `redis://user:secret@host` becomes `redis://user:***@host`, and what
/// follows a question mark, where a Unix socket's password stands, is left out.
pub(crate) fn without_password(url: &str) -> String {
    let (url, query) = match url.split_once('?') {
        Some((url, _)) => (url, "?***"),
        None => (url, ""),
    };
    let shown = match url.split_once("://").and_then(|(scheme, rest)| {
        let (credentials, host) = rest.rsplit_once('@')?;
        Some((
            scheme,
            credentials.split(':').next().unwrap_or_default(),
            host,
        ))
    }) {
        Some((scheme, user, host)) => format!("{scheme}://{user}:***@{host}"),
        None => url.to_owned(),
    };
    shown + query
}
