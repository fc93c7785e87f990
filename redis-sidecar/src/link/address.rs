//! `redis.url`: where Redis is, and in which shape.

use super::sentinel::Sentinels;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisResult};
use std::fmt;

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_SENTINEL_PORT: u16 = 26379;

/// Of a cluster nobody knows beforehand how many primaries it has. Most have fewer.
const PRIMARIES_EXPECTED: usize = 16;

/// What is expected, for whoever wrote something else.
pub(crate) const FORMS: &str = "redis://host:port[/db], rediss://host:port[/db], redis+unix:///path, \
     redis+sentinel://host:port,host:port/primary-name[?db=n] or redis+cluster://host:port,host:port \
     (with TLS: rediss+sentinel, rediss+cluster)";

/// A server, as other servers name it too.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encryption {
    Plain,
    Tls,
}

/// Some servers of a cluster: whoever answers tells of the others.
#[derive(Debug, Clone)]
pub(crate) struct Seeds {
    pub(crate) nodes: Vec<Node>,
    pub(crate) encryption: Encryption,
}

impl Seeds {
    pub(super) fn primaries_expected(&self) -> usize {
        self.nodes.len().max(PRIMARIES_EXPECTED)
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Topology {
    Single(ConnectionInfo),
    Sentinel(Sentinels),
    Cluster(Seeds),
}

impl Topology {
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let (encryption, shape) = match scheme.split_once('+') {
            Some(("redis", shape)) => (Encryption::Plain, shape),
            Some(("rediss", shape)) => (Encryption::Tls, shape),
            _ => (Encryption::Plain, ""),
        };
        if rest.contains('#') {
            return Err(
                "nothing may follow a #: #insecure would take anybody for this Redis, so name the \
                        authority that signed its certificate by redis.tls.ca_file; in a password write %23"
                    .into(),
            );
        }
        if !["sentinel", "cluster"].contains(&shape) {
            let info = url.into_connection_info();
            return info
                .map(Self::Single)
                .map_err(|error| format!("{error}; expected {FORMS}"));
        }
        if rest.contains('@') {
            return Err(
                "credentials of several servers are written as redis.user and \
                        redis.password_file"
                    .into(),
            );
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        if shape == "cluster" {
            let nodes = nodes(hosts, DEFAULT_PORT)?;
            return match (path, query) {
                ("" | "0", "") => Ok(Self::Cluster(Seeds { nodes, encryption })),
                _ => Err("a cluster has no databases: nothing follows its servers".into()),
            };
        }
        if path.is_empty() || path.contains('/') {
            return Err("after the Sentinels comes the primary's name: \
                        redis+sentinel://host:port,host:port/primary-name"
                .into());
        }
        Ok(Self::Sentinel(Sentinels {
            nodes: nodes(hosts, DEFAULT_SENTINEL_PORT)?,
            encryption,
            primary: path.to_owned(),
            db: database(query)?,
        }))
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        match self {
            Self::Single(info) => matches!(info.addr(), ConnectionAddr::TcpTls { .. }),
            Self::Sentinel(Sentinels { encryption, .. })
            | Self::Cluster(Seeds { encryption, .. }) => *encryption == Encryption::Tls,
        }
    }

    /// Whether the URL itself names a user or a password.
    pub(crate) fn has_credentials(&self) -> bool {
        match self {
            Self::Single(info) => {
                let login = info.redis_settings();
                login.username().is_some() || login.password().is_some()
            }
            Self::Sentinel(_) | Self::Cluster(_) => false,
        }
    }

    /// How many connections there may be at once, if each server in use takes so many.
    pub(crate) fn connections_max(&self, of_each: usize) -> usize {
        match self {
            Self::Single(_) => of_each,
            // All of them are asked at once.
            Self::Sentinel(sentinels) => of_each + sentinels.nodes.len(),
            Self::Cluster(seeds) => of_each * seeds.primaries_expected() + seeds.nodes.len(),
        }
    }

    pub(crate) fn db(&self) -> i64 {
        match self {
            Self::Single(info) => info.redis_settings().db(),
            Self::Sentinel(sentinels) => sentinels.db,
            Self::Cluster(_) => 0,
        }
    }
}

fn database(query: &str) -> Result<i64, String> {
    let number = match query {
        "" => return Ok(0),
        query => query.strip_prefix("db=").unwrap_or(query),
    };
    let number = number.parse().ok().filter(|number: &i64| *number >= 0);
    number.ok_or_else(|| "after the question mark only db=n is known".into())
}

fn nodes(hosts: &str, default_port: u16) -> Result<Vec<Node>, String> {
    hosts
        .split(',')
        .map(|text| Node::parse(text, default_port))
        .collect()
}

impl Node {
    /// `host`, `host:port` or `[ipv6]:port`.
    fn parse(text: &str, default_port: u16) -> Result<Self, String> {
        let refuse = || format!("{text:?} is not host:port");
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| refuse())?)
            }
            _ => (text, default_port),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(|c: char| c.is_whitespace()) {
            return Err(refuse());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }

    /// As a server of a cluster writes another's address; without a host it means its own.
    pub(super) fn told_by(asked: &Self, text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Some(asked.beside(host, port.parse().ok()?))
    }

    /// The same with host and port apart.
    pub(super) fn beside(&self, host: &str, port: u16) -> Self {
        let host = match host {
            "" | "?" => self.host.clone(),
            host => host.to_owned(),
        };
        Self { host, port }
    }

    pub(super) fn info(&self, encryption: Encryption) -> RedisResult<ConnectionInfo> {
        let host = self.host.clone();
        match encryption {
            Encryption::Plain => ConnectionAddr::Tcp(host, self.port),
            Encryption::Tls => ConnectionAddr::TcpTls {
                host,
                port: self.port,
                insecure: false,
                tls_params: None,
            },
        }
        .into_connection_info()
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(nodes: &[Node]) -> Vec<String> {
        nodes.iter().map(Node::to_string).collect()
    }

    #[test]
    fn the_scheme_says_the_shape() {
        let Ok(Topology::Sentinel(sentinels)) =
            Topology::parse("rediss+sentinel://a:1,b,[::1]:3/main?db=2")
        else {
            panic!("not Sentinels");
        };
        assert_eq!(shown(&sentinels.nodes), ["a:1", "b:26379", "::1:3"]);
        assert_eq!((sentinels.primary.as_str(), sentinels.db), ("main", 2));
        assert_eq!(sentinels.encryption, Encryption::Tls);
        let Ok(Topology::Cluster(seeds)) = Topology::parse("redis+cluster://a:1,b") else {
            panic!("not a cluster");
        };
        assert_eq!(shown(&seeds.nodes), ["a:1", "b:6379"]);
        for url in ["redis://a:1/3", "rediss://a", "redis+unix:///s"] {
            let single = Topology::parse(url);
            assert!(matches!(single, Ok(Topology::Single(_))), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said() {
        for (url, part) in [
            ("redis+sentinel://a:1,b:2", "primary's name"),
            ("redis+sentinel://a:1/main?x=1", "db=n"),
            ("redis+sentinel://u:secret@a:1/main", "redis.password_file"),
            ("redis+cluster://a:x", "host:port"),
            ("redis+cluster://a:1,,b:2", "host:port"),
            ("redis+cluster://a:1/3", "no databases"),
            ("rediss://a:1/#insecure", "redis.tls.ca_file"),
            ("rediss+cluster://a:1/#insecure", "redis.tls.ca_file"),
            ("rediss+sentinel://a:1/main#insecure", "redis.tls.ca_file"),
            ("http://a", "redis+sentinel://"),
            ("", "redis+cluster://"),
        ] {
            let refused = Topology::parse(url).unwrap_err();
            assert!(refused.contains(part), "{url}: {refused}");
            assert!(!refused.contains("secret"), "{url}: {refused}");
        }
    }
}
