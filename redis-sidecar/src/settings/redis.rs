//! Where Redis is and how it is entered.

use crate::link::address::Topology;
use admission::message::GROUP_MAX;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RedisSettings {
    pub url: String,
    /// How long Redis may take to answer or to accept a connection.
    pub timeout_ms: u64,
    /// The user of Redis' access list; without one, the default user.
    pub user: Option<String>,
    /// Its first line is the password.
    pub password_file: Option<PathBuf>,
    /// How many replicas must have an admission before it is answered; 0: none is waited for.
    pub wait_replicas: u32,
    /// How many admissions to a pool, arriving at once, go to Redis by one call; 1: each by its own.
    pub group_max: usize,
    pub sentinel: SentinelLogin,
    pub tls: TlsFiles,
}

/// Sentinels have users of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SentinelLogin {
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
}

/// Files in PEM form.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsFiles {
    /// Who may have signed the server's certificate; without one, whom this machine trusts.
    pub ca_file: Option<PathBuf>,
    /// The sidecar's own certificate, for a server that asks for one.
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
}

impl Default for RedisSettings {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379".into(),
            timeout_ms: 150,
            user: None,
            password_file: None,
            wait_replicas: 0,
            group_max: GROUP_MAX,
            sentinel: SentinelLogin::default(),
            tls: TlsFiles::default(),
        }
    }
}

/// Without the password that may stand in the URL.
impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings")
            .field("url", &without_password(&self.url))
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl RedisSettings {
    pub(super) fn validate(&self) -> Result<(), String> {
        /// More than any primary has.
        const REPLICAS_MAX: u32 = 100;
        let shown = without_password(&self.url);
        let topology =
            Topology::parse(&self.url).map_err(|error| format!("redis.url: {shown:?}: {error}"))?;
        if !(1..=60_000).contains(&self.timeout_ms) {
            return Err("redis.timeout_ms must be between 1 and 60000".into());
        }
        if self.wait_replicas > REPLICAS_MAX {
            return Err(format!(
                "redis.wait_replicas must be at most {REPLICAS_MAX}"
            ));
        }
        if !(1..=GROUP_MAX).contains(&self.group_max) {
            return Err(format!("redis.group_max must be between 1 and {GROUP_MAX}"));
        }
        let written = self.user.is_some() || self.password_file.is_some();
        if written && topology.has_credentials() {
            return Err(
                "redis.url names a user or a password, and so do redis.user or \
                        redis.password_file: write them in one place"
                    .into(),
            );
        }
        if self.user.is_some() && self.password_file.is_none() {
            return Err("redis.user needs redis.password_file, the file with its password".into());
        }
        if self.sentinel.user.is_some() && self.sentinel.password_file.is_none() {
            return Err("redis.sentinel.user needs redis.sentinel.password_file".into());
        }
        if self.sentinel != SentinelLogin::default() && !matches!(topology, Topology::Sentinel(_)) {
            return Err(format!(
                "redis.sentinel is of no use to {shown:?}: write redis+sentinel://"
            ));
        }
        if self.tls.cert_file.is_some() != self.tls.key_file.is_some() {
            return Err("redis.tls.cert_file and redis.tls.key_file go together".into());
        }
        if self.tls != TlsFiles::default() && !topology.is_encrypted() {
            return Err(format!(
                "redis.tls is of no use to {shown:?}: write rediss://, rediss+sentinel:// or \
                 rediss+cluster://"
            ));
        }
        Ok(())
    }
}

/// A URL as it may be shown: `redis://user:secret@host` becomes `redis://user:***@host`, and what
/// follows a question mark, where a Unix socket's password stands, is left out. Of what is no URL nobody
/// knows where in it a password is.
pub(crate) fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (credentials, place) = match rest.rsplit_once('@') {
        Some((credentials, place)) => (Some(credentials), place),
        None => (None, rest),
    };
    let place = match place.split_once('?') {
        Some((place, _)) => format!("{place}?***"),
        None => place.to_owned(),
    };
    match credentials {
        Some(_) if scheme.is_empty() => format!("***@{place}"),
        Some(credentials) => {
            let user = credentials.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:***@{place}")
        }
        None if scheme.is_empty() => place,
        None => format!("{scheme}://{place}"),
    }
}
