//! The sidecar's settings: one TOML file, overridden by environment variables. Unknown settings
//! and bad values stop the start with a message that names them.

use admission::id::PoolName;
use admission::policy::Policy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

pub use doors::{Api, Limits, Listener, Refused, Tls, TokenFiles, WorkerRules, WorkerToken};
pub(crate) use load::parse_value;
pub use load::{Loaded, load};
pub(crate) use redis::without_password;
pub use redis::{RedisSettings, SentinelLogin, TlsFiles};

mod doors;
mod load;
mod redis;
#[cfg(test)]
mod tests;
mod tokens;
pub(crate) mod words;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where the whole API is served to everybody on this host: `127.0.0.1:7070` or
    /// `unix:/run/berth/berth.sock`.
    pub listen: Vec<Listen>,
    /// Doors that ask who comes, or serve a part of the API.
    pub listeners: Vec<Listener>,
    pub tokens: TokenFiles,
    pub worker_tokens: Vec<WorkerToken>,
    pub workers: WorkerRules,
    pub limits: Limits,
    pub log_format: LogFormat,
    /// Threads that answer. One is enough for tens of thousands of admissions per second, and the cheapest:
    /// several wake each other up.
    pub threads: usize,
    /// How long a question may take; the filter waits 50 ms longer.
    pub answer_timeout_ms: u64,
    /// How often pools are looked after when nobody asks for a place.
    pub reap_ms: u64,
    /// How often pools are counted anew; 0 for never.
    pub audit_s: u64,
    pub redis: RedisSettings,
    pub pools: BTreeMap<PoolName, Policy>,
}

/// More than a host has that also runs an Envoy.
const THREADS_MAX: usize = 64;

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![Listen::default()],
            listeners: vec![],
            tokens: TokenFiles::default(),
            worker_tokens: vec![],
            workers: WorkerRules::default(),
            limits: Limits::default(),
            log_format: LogFormat::default(),
            threads: 1,
            answer_timeout_ms: 250,
            reap_ms: 500,
            audit_s: 60,
            redis: RedisSettings::default(),
            pools: BTreeMap::new(),
        }
    }
}

/// What a line of the log looks like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    #[default]
    Text,
    /// An object on each line.
    Json,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Listen {
    /// Whether other hosts can reach it.
    pub fn is_remote(&self) -> bool {
        match self {
            Self::Tcp(address) => !address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => false,
        }
    }
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
    #[error("{}{line}: {message}", path.display())]
    Syntax {
        path: PathBuf,
        line: String,
        message: String,
    },
    #[error("{variable}: {reason}")]
    Variable { variable: String, reason: String },
    #[error("settings: {0}")]
    Value(String),
}

impl Settings {
    fn validate(&self) -> Result<(), SettingsError> {
        let refuse = |message: String| Err(SettingsError::Value(message));
        self.validate_doors().map_err(SettingsError::Value)?;
        if !(1..=THREADS_MAX).contains(&self.threads) {
            return refuse(format!("threads must be between 1 and {THREADS_MAX}"));
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
        self.redis.validate().or_else(refuse)?;
        let (redis_ms, answer_ms) = (self.redis.timeout_ms, self.answer_timeout_ms);
        if redis_ms > answer_ms {
            return refuse(format!(
                "redis.timeout_ms is {redis_ms}, above answer_timeout_ms, {answer_ms}: every answer would be \
                 given up before Redis is; lower the one or raise the other"
            ));
        }
        for (pool, policy) in &self.pools {
            if let Err(error) = policy.validate() {
                return refuse(format!("pools.{pool}: {error}"));
            }
        }
        Ok(())
    }
}
