//! The filter's configuration: JSON in envoy.yaml, parsed once per VM.

use crate::id::{PoolName, ProxyId, WorkerId};
use crate::message::{BATCH_MAX, Operation};
use serde::Deserialize;
use std::fmt;

/// Which requests need a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admit {
    /// WebSocket upgrades.
    Upgrades,
    /// Every request whose path starts with one of `paths`.
    Paths,
    Everything,
}

/// How Envoy is told the worker's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteBy {
    /// An ORIGINAL_DST cluster: workers need not be known to Envoy.
    OriginalDst,
    /// Envoy's stateful_session filter, strict, in an ordinary cluster that knows its workers.
    StatefulSession,
}

/// What happens to requests that need a lease while none can be had for technical reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnOutage {
    /// They are refused.
    Deny,
    /// They go, without a lease, where Envoy's routes send what the filter has marked.
    Allow,
    /// They take the places that sessions of this holder leave meanwhile; else they are refused.
    LocalShare,
}

/// What happens to live sessions whose places the store gives to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLeaseLost {
    /// They go on, above the limit if need be.
    Keep,
    /// They are closed, before their places are given away.
    Close,
}

/// Where the key comes from by which a client is told from others. Each is out of the client's own
/// hands, or must be made so.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClientSource {
    /// A header that a trusted hop sets, whatever the client sent.
    Header(String),
    /// The client's address as Envoy knows it; of an IPv6 address its first 64 bits. Envoy's
    /// `xff_num_trusted_hops` says how many proxies in front of it to look behind.
    Peer,
    /// What another filter found out, such as a claim of a verified token.
    Metadata {
        /// That filter's name, `envoy.filters.http.jwt_authn`.
        filter: String,
        path: Vec<String>,
    },
}

/// Where a request carries its affinity key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeySource {
    Header(String),
    Cookie(String),
    /// A parameter of the query string, compared as it is written.
    Query(String),
}

/// How a key gets its worker.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Bind {
    /// By the first request that carries it.
    Request,
    /// By the worker's answer, which carries it in this header.
    AnswerHeader(String),
}

/// Requests with the same key go to the same worker: see the policy's `affinity`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AffinityConfig {
    pub key: KeySource,
    #[serde(default = "default_bind")]
    pub bind: Bind,
    /// A request below one of these, once it is answered, unbinds its key.
    #[serde(default)]
    pub unbind_paths: Vec<String>,
    /// An answer with this header unbinds its request's key.
    #[serde(default)]
    pub unbind_header: Option<String>,
}

fn default_bind() -> Bind {
    Bind::Request
}

/// How a client comes to another worker than the one that this Envoy stands beside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Envoy routes the request there.
    #[default]
    Proxy,
    /// The client is told to go there, by a 307 with the worker's origin.
    Redirect,
}

/// What requests under a path do on their worker.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationRule {
    /// A prefix, compared as those of `paths` are: without the query string.
    pub path: String,
    pub operation: Operation,
}

/// A shared secret: it is sent, never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct Token(String);

impl Token {
    pub fn expose(&self) -> &str {
        &self.0
    }

    fn is_fit(&self) -> bool {
        self.0.len() >= 32 && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterConfig {
    pub pool: PoolName,
    /// The Envoy cluster that leads to the sidecar.
    #[serde(default = "default_sidecar")]
    pub sidecar: String,
    /// What the sidecar's listener asks for, if it does.
    #[serde(default)]
    pub sidecar_token: Option<Token>,
    #[serde(default = "default_admit")]
    pub admit: Admit,
    /// Prefixes, compared without the query string.
    #[serde(default)]
    pub paths: Vec<String>,
    /// What requests do, by their path; the first that fits counts.
    #[serde(default)]
    pub operations: Vec<OperationRule>,
    /// The worker this Envoy stands beside: it keeps the requests it can serve.
    #[serde(rename = "self", default)]
    pub own: Option<WorkerId>,
    #[serde(default)]
    pub mode: Mode,
    #[serde(default)]
    pub client: Option<ClientSource>,
    #[serde(default)]
    pub affinity: Option<AffinityConfig>,
    #[serde(default = "default_route_by")]
    pub route_by: RouteBy,
    /// The header that Envoy's stateful_session filter is configured with.
    #[serde(default = "default_address_header")]
    pub address_header: String,
    #[serde(default = "default_on_outage")]
    pub on_outage: OnOutage,
    #[serde(default = "default_on_lease_lost")]
    pub on_lease_lost: OnLeaseLost,
    /// How operators know this Envoy; its node id when absent.
    #[serde(default)]
    pub proxy_id: Option<ProxyId>,
    /// How long the sidecar may take to answer.
    #[serde(default = "default_ask_timeout_ms")]
    pub ask_timeout_ms: u64,
    /// A stream still waiting after this is answered without the sidecar.
    #[serde(default = "default_watchdog_ms")]
    pub watchdog_ms: u64,
    /// How long a release may wait for others to share its call.
    #[serde(default = "default_release_delay_ms")]
    pub release_delay_ms: u64,
    /// When a call with releases failed, how long until it is repeated.
    #[serde(default = "default_release_retry_ms")]
    pub release_retry_ms: u64,
    /// Releases kept while the sidecar cannot be reached; above that the oldest are dropped.
    #[serde(default = "default_release_backlog_max")]
    pub release_backlog_max: usize,
}

fn default_sidecar() -> String {
    "berth_sidecar".into()
}
fn default_admit() -> Admit {
    Admit::Upgrades
}
fn default_route_by() -> RouteBy {
    RouteBy::OriginalDst
}
fn default_address_header() -> String {
    "x-berth-address".into()
}
fn default_on_outage() -> OnOutage {
    OnOutage::Deny
}
fn default_on_lease_lost() -> OnLeaseLost {
    OnLeaseLost::Keep
}
fn default_ask_timeout_ms() -> u64 {
    300
}
fn default_watchdog_ms() -> u64 {
    1000
}
fn default_release_delay_ms() -> u64 {
    10
}
fn default_release_retry_ms() -> u64 {
    350
}
fn default_release_backlog_max() -> usize {
    10_000
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("the plugin configuration is not what Berth's filter reads: {0}")]
    Json(String),
    #[error("the plugin configuration's {setting} must be {rule}")]
    Value {
        setting: &'static str,
        rule: &'static str,
    },
}

impl FilterConfig {
    /// Whether a request's path is asked for anything; it is not read otherwise.
    pub fn reads_path(&self) -> bool {
        self.admit == Admit::Paths || !self.operations.is_empty() || self.affinity.is_some()
    }

    pub fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        let config: Self =
            serde_json::from_slice(json).map_err(|error| ConfigError::Json(error.to_string()))?;
        config.validate()?;
        Ok(config)
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let value = |setting, rule| Err(ConfigError::Value { setting, rule });
        let header = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if self.sidecar.is_empty() {
            return value(
                "sidecar",
                "the name of the Envoy cluster that leads to the sidecar",
            );
        }
        if self.sidecar_token.as_ref().is_some_and(|it| !it.is_fit()) {
            return value(
                "sidecar_token",
                "a line of the sidecar's tokens.filter_file: 32 visible ASCII characters or more",
            );
        }
        if (self.admit == Admit::Paths) == self.paths.is_empty() {
            return value("paths", "given with \"admit\": \"paths\", and only then");
        }
        if !self.paths.iter().all(|path| is_prefix(path)) {
            return value("paths", PREFIXES);
        }
        if !self.operations.iter().all(|rule| is_prefix(&rule.path)) {
            return value("operations", PREFIXES);
        }
        if hides_another(&self.operations) {
            return value(
                "operations",
                "in an order in which no path hides a longer one below it",
            );
        }
        let is_header = |name: &str| !name.is_empty() && name.bytes().all(header);
        if !is_header(&self.address_header) {
            return value("address_header", "a header name in lower case");
        }
        match &self.client {
            Some(ClientSource::Header(name)) if !is_header(name) => {
                return value("client.header", "a header name in lower case");
            }
            Some(ClientSource::Metadata { filter, path })
                if filter.is_empty() || path.is_empty() =>
            {
                return value(
                    "client.metadata",
                    "a filter's name and a path in its metadata",
                );
            }
            Some(ClientSource::Header(_) | ClientSource::Peer | ClientSource::Metadata { .. })
            | None => {}
        }
        if let Some(affinity) = &self.affinity {
            affinity.validate(is_header)?;
        }
        if self.mode == Mode::Redirect && self.own.is_none() {
            return value(
                "self",
                "given with \"mode\": \"redirect\": every worker else is another one",
            );
        }
        if !(10..=60_000).contains(&self.ask_timeout_ms) {
            return value("ask_timeout_ms", "between 10 and 60000");
        }
        if !(10..=60_000).contains(&self.watchdog_ms) {
            return value("watchdog_ms", "between 10 and 60000");
        }
        if !(1..=1000).contains(&self.release_delay_ms) {
            return value("release_delay_ms", "between 1 and 1000");
        }
        if !(10..=60_000).contains(&self.release_retry_ms) {
            return value("release_retry_ms", "between 10 and 60000");
        }
        if !(BATCH_MAX..=1_000_000).contains(&self.release_backlog_max) {
            return value("release_backlog_max", "between 64 and 1000000");
        }
        Ok(())
    }
}

impl AffinityConfig {
    fn validate(&self, is_header: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
        let value = |setting, rule| Err(ConfigError::Value { setting, rule });
        let named = match &self.key {
            KeySource::Header(name) => is_header(name),
            KeySource::Cookie(name) | KeySource::Query(name) => {
                !name.is_empty() && !name.contains([';', '=', '&', ' '])
            }
        };
        if !named {
            return value(
                "affinity.key",
                "the name of a header (in lower case), cookie or parameter",
            );
        }
        let answer = match &self.bind {
            Bind::Request => None,
            Bind::AnswerHeader(name) => Some(name),
        };
        if !(answer.into_iter().chain(&self.unbind_header)).all(|name| is_header(name)) {
            return value(
                "affinity.bind.answer_header and affinity.unbind_header",
                "header names in lower case",
            );
        }
        if !self.unbind_paths.iter().all(|path| is_prefix(path)) {
            return value("affinity.unbind_paths", PREFIXES);
        }
        Ok(())
    }
}

const PREFIXES: &str = "path prefixes that start with '/', without a query string";

/// A prefix with a query string would never be met: paths are compared without theirs.
fn is_prefix(path: &str) -> bool {
    path.starts_with('/') && !path.contains('?')
}

/// The first rule that fits counts, so one below a rule with a shorter prefix is never asked.
fn hides_another(rules: &[OperationRule]) -> bool {
    let hides = |rule: &OperationRule, below: &[OperationRule]| {
        (below.iter()).any(|lower| lower.path.starts_with(&rule.path))
    };
    let mut rest = rules;
    while let [rule, below @ ..] = rest {
        if hides(rule, below) {
            return true;
        }
        rest = below;
    }
    false
}

#[cfg(test)]
mod tests;
