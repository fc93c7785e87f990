//! Who is let in where: listeners, tokens, what workers may register, how much is served at once.

use super::{Listen, Settings};
use admission::id::PoolName;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// A part of the HTTP API. Health is told everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// What the filter asks and tells, and `/redis/atomic`.
    Data,
    /// Registration, heartbeats, drains and removals of workers.
    Worker,
    /// Pools, policies, leases, explanations.
    Operator,
    /// `/metrics`
    Metrics,
}

impl Api {
    pub const ALL: [Self; 4] = [Self::Data, Self::Worker, Self::Operator, Self::Metrics];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Worker => "worker",
            Self::Operator => "operator",
            Self::Metrics => "metrics",
        }
    }

    /// Where its tokens are named.
    pub(super) fn token_setting(self) -> &'static str {
        match self {
            Self::Data => "tokens.filter_file",
            Self::Worker => "[[worker_tokens]]",
            Self::Operator => "tokens.operator_file",
            Self::Metrics => "tokens.metrics_file",
        }
    }
}

/// A door of its own: what it serves, and to whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    pub address: Listen,
    #[serde(default = "everything")]
    pub serves: Vec<Api>,
    /// Asks for the token of a role wherever one is configured.
    #[serde(default = "asked")]
    pub tokens: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

fn everything() -> Vec<Api> {
    Api::ALL.to_vec()
}

fn asked() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
    /// Only clients with a certificate signed by one of these are let in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca_file: Option<PathBuf>,
}

/// Files with one token on each line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokenFiles {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics_file: Option<PathBuf>,
}

/// What whoever has one of these tokens may register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerToken {
    /// Whose it is. A worker's name belongs to who registered it, whatever the token was then.
    pub name: String,
    pub file: PathBuf,
    /// Empty: every pool.
    #[serde(default)]
    pub pools: Vec<PoolName>,
    /// Empty: every address.
    #[serde(default)]
    pub cidrs: Vec<IpNet>,
}

/// What any worker may register.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkerRules {
    /// Networks allowed although they are loopback, link-local or the like.
    pub allow: Vec<IpNet>,
    /// Never allowed: Envoy's own addresses, its admin interface, Redis.
    pub refuse: Vec<Refused>,
    pub weight_max: f64,
}

impl Default for WorkerRules {
    fn default() -> Self {
        Self {
            allow: vec![],
            refuse: vec![],
            weight_max: 1000.0,
        }
    }
}

/// An address, one port of it, or a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Refused {
    Socket(SocketAddr),
    Network(IpNet),
}

impl Refused {
    pub(crate) fn covers(self, address: SocketAddr) -> bool {
        match self {
            Self::Socket(refused) => {
                refused.ip().to_canonical() == address.ip() && refused.port() == address.port()
            }
            Self::Network(network) => network.contains(&address.ip()),
        }
    }
}

/// `::ffff:10.0.0.0/104` is `10.0.0.0/8`: addresses are compared in that form.
fn canonical(network: IpNet) -> IpNet {
    const MAPPED_BITS: u8 = 96;
    let address = network.addr().to_canonical();
    match network.prefix_len().checked_sub(MAPPED_BITS) {
        Some(bits) if address.is_ipv4() && network.addr().is_ipv6() => {
            IpNet::new(address, bits).unwrap_or(network)
        }
        _ => network,
    }
}

impl TryFrom<String> for Refused {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Ok(network) = text.parse() {
            return Ok(Self::Network(canonical(network)));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Network(address.to_canonical().into()));
        }
        (text.parse().map(Self::Socket))
            .map_err(|_| format!("{text:?} is neither ip, ip:port nor network/bits"))
    }
}

impl From<Refused> for String {
    fn from(refused: Refused) -> String {
        refused.to_string()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(address) => address.fmt(f),
            Self::Network(network) => network.fmt(f),
        }
    }
}

/// How much is served at once, and how long a caller may take to say what it wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections of each listener; an Envoy has a few for each of its threads.
    pub connections_max: usize,
    /// Questions to Redis under way; those above are answered 503 at once.
    pub requests_max: usize,
    /// From the connection, or the last answer over HTTP/1.1, to a whole header.
    pub header_timeout_ms: u64,
    /// From the header to the whole body, and from an answer until its caller has taken it.
    pub body_timeout_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            requests_max: 1024,
            header_timeout_ms: 10_000,
            body_timeout_ms: 5000,
        }
    }
}

impl Settings {
    pub(super) fn validate_doors(&self) -> Result<(), String> {
        if self.listen.is_empty() && self.listeners.is_empty() {
            return Err("listen must name at least one address, or [[listeners]] one".into());
        }
        for listen in &self.listen {
            if listen.is_remote() {
                return Err(format!(
                    "listen: {listen} can be reached from other hosts, and `listen` lets everybody in, to \
                     take and release every place; write it as [[listeners]] address = \"{listen}\", with \
                     tokens or tls.client_ca_file: docs/listeners.md"
                ));
            }
        }
        for listener in &self.listeners {
            self.validate_listener(listener)?;
        }
        self.validate_workers()?;
        self.validate_tokens()?;
        let Limits {
            connections_max,
            requests_max,
            header_timeout_ms,
            body_timeout_ms,
        } = self.limits;
        within("limits.connections_max", connections_max, 1, 1_000_000)?;
        within("limits.requests_max", requests_max, 1, 1_000_000)?;
        within("limits.header_timeout_ms", header_timeout_ms, 10, 600_000)?;
        within("limits.body_timeout_ms", body_timeout_ms, 10, 600_000)
    }

    fn validate_listener(&self, listener: &Listener) -> Result<(), String> {
        let address = &listener.address;
        if listener.serves.is_empty() {
            return Err(format!(
                "listeners: {address} must serve something: data, worker, operator, metrics"
            ));
        }
        if listener.tls.is_some() && matches!(address, Listen::Unix(_)) {
            return Err(format!(
                "listeners: {address} needs no tls: nobody else can read a Unix socket"
            ));
        }
        let certified = (listener.tls.as_ref()).is_some_and(|tls| tls.client_ca_file.is_some());
        let open = |api: &&Api| !(certified || listener.tokens && self.asks(**api));
        if address.is_remote()
            && let Some(api) = listener.serves.iter().find(open)
        {
            return Err(format!(
                "listeners: {address} can be reached from other hosts and would serve {api} to everybody: \
                 set {} (and leave tokens = true), or tls.client_ca_file, or take \"{api}\" out of serves: \
                 docs/listeners.md",
                api.token_setting(),
                api = api.as_str(),
            ));
        }
        Ok(())
    }

    /// Whether there is a token to ask for.
    fn asks(&self, api: Api) -> bool {
        let TokenFiles {
            filter_file,
            operator_file,
            metrics_file,
        } = &self.tokens;
        match api {
            Api::Data => filter_file.is_some(),
            Api::Worker => !self.worker_tokens.is_empty(),
            Api::Operator => operator_file.is_some(),
            Api::Metrics => metrics_file.is_some() || operator_file.is_some(),
        }
    }

    fn validate_workers(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for WorkerToken { name, .. } in &self.worker_tokens {
            // It is stored with each worker.
            if PoolName::parse(name).is_err() {
                return Err(format!(
                    "worker_tokens: the name {name:?} must be of letters, digits, '.', '_' and '-'"
                ));
            }
            if !names.insert(name) {
                return Err(format!("worker_tokens: the name {name} is there twice"));
            }
        }
        let weight_max = self.workers.weight_max;
        if !(0.001..=1000.0).contains(&weight_max) {
            return Err("workers.weight_max must be between 0.001 and 1000".into());
        }
        Ok(())
    }
}

fn within<T: PartialOrd + Copy + fmt::Display>(
    name: &str,
    value: T,
    min: T,
    max: T,
) -> Result<(), String> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(format!("{name} must be between {min} and {max}"))
    }
}
