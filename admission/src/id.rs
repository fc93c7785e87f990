//! Names and ids. Each is parsed once, at the edge, and trusted from there on.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::str::FromStr;

/// Long enough for a Kubernetes name; short enough to stand in every Redis key.
const POOL_BYTES_MAX: usize = 64;
/// A Kubernetes pod name is at most 253 bytes, in practice far below; ids are stored per lease.
const WORKER_BYTES_MAX: usize = 128;
const INCARNATION_BYTES_MAX: usize = 64;
const PROXY_BYTES_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("{what} must have 1 to {max} characters, this has {bytes}")]
    Length {
        what: &'static str,
        max: usize,
        bytes: usize,
    },
    #[error("{what} may contain only {allowed}")]
    Character {
        what: &'static str,
        allowed: &'static str,
    },
    #[error("{what} must look like {shape}")]
    Shape {
        what: &'static str,
        shape: &'static str,
    },
}

const NAME_CHARACTERS: &str = "letters, digits, '.', '_' and '-'";

fn parse_name(what: &'static str, text: &str, max: usize) -> Result<String, IdError> {
    if text.is_empty() || text.len() > max {
        return Err(IdError::Length {
            what,
            max,
            bytes: text.len(),
        });
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if !text.bytes().all(allowed) {
        return Err(IdError::Character {
            what,
            allowed: NAME_CHARACTERS,
        });
    }
    Ok(text.to_owned())
}

/// A name type: text of a fixed alphabet and bounded length, checked when it is made.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(String);

        impl $type {
            pub fn parse(text: &str) -> Result<Self, IdError> {
                parse_name($what, text, $max).map(Self)
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        text_conversions!($type);

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// The conversions by which serde and clap reach `parse`.
macro_rules! text_conversions {
    ($type:ident) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.to_string())
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let Text(text) = Text::deserialize(deserializer)?;
                Self::parse(&text).map_err(D::Error::custom)
            }
        }

        impl FromStr for $type {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }
    };
}

// Below the macros that it uses.
mod epoch;

pub use epoch::{Epoch, EpochText};

/// Text where it stands, if that is possible: the filter reads several ids for each answer, and keeps no copies.
struct Text<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(text.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(text.to_owned().into()))
    }
}

name!(
    /// A pool's name. It is the hash tag of the pool's Redis keys.
    PoolName, "a pool name", POOL_BYTES_MAX
);
name!(
    /// A worker's name, stable over its restarts.
    WorkerId, "a worker id", WORKER_BYTES_MAX
);
name!(
    /// One life of a worker; a restart brings a new one.
    Incarnation, "an incarnation", INCARNATION_BYTES_MAX
);
name!(
    /// An Envoy, as operators know it.
    ProxyId, "a proxy id", PROXY_BYTES_MAX
);

impl ProxyId {
    /// Envoy's `node.id` may be any text: what does not fit is replaced rather than refused.
    pub fn lossy(text: &[u8]) -> Self {
        let name: String = text
            .iter()
            .take(PROXY_BYTES_MAX)
            .map(|&byte| match byte {
                b'.' | b'_' | b'-' => byte as char,
                _ if byte.is_ascii_alphanumeric() => byte as char,
                _ => '-',
            })
            .collect();
        Self(if name.is_empty() {
            "envoy".into()
        } else {
            name
        })
    }
}

/// What is kept of a client key or an affinity key: enough to tell it from others, not to read it. Never 0, so
/// that having none takes no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(NonZeroU64);

impl KeyHash {
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        let hash = NonZeroU64::new(u64::from_be_bytes(bytes));
        Self(hash.unwrap_or(NonZeroU64::MIN))
    }

    pub fn parse(text: &str) -> Result<Self, IdError> {
        let shape = IdError::Shape {
            what: "a key's hash",
            shape: "16 lower-case hexadecimal digits, not all of them 0",
        };
        let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 16 || !text.bytes().all(hexadecimal) {
            return Err(shape);
        }
        // As a hash of bytes never is: it would be a second spelling of another.
        let hash = u64::from_str_radix(text, 16).ok();
        hash.and_then(NonZeroU64::new).map(Self).ok_or(shape)
    }
}

text_conversions!(KeyHash);

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Where clients reach a worker themselves: scheme, host and perhaps a port, `https://db-1.example.com`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin(String);

const ORIGIN_BYTES_MAX: usize = 200;

impl Origin {
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let host = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"));
        let allowed = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']')
        };
        match host {
            Some(host)
                if !host.is_empty()
                    && text.len() <= ORIGIN_BYTES_MAX
                    && host.bytes().all(allowed) =>
            {
                Ok(Self(text.to_owned()))
            }
            Some(_) | None => Err(IdError::Shape {
                what: "an origin",
                shape: "https://host[:port], without a path, in at most 200 characters",
            }),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

text_conversions!(Origin);

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One filter VM's life: which proxy, and which epoch of it. Written `proxy/epoch`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HolderId {
    pub proxy: ProxyId,
    pub epoch: Epoch,
}

impl HolderId {
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let (proxy, epoch) = text.split_once('/').ok_or(IdError::Shape {
            what: "a holder",
            shape: "proxy/epoch",
        })?;
        Ok(Self {
            proxy: ProxyId::parse(proxy)?,
            epoch: Epoch::parse(epoch)?,
        })
    }
}

text_conversions!(HolderId);

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.proxy, self.epoch)
    }
}

/// A lease's id, minted by the filter before it asks, so that asking twice is asking once.
/// Written `epoch.seq`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseId {
    pub epoch: Epoch,
    pub seq: u64,
}

/// A lease's number says after which beat of its holder it was minted, in the bits from here up. So a
/// beat speaks for every number below its own, and nobody has to tell which those are.
pub const BEAT_SHIFT: u32 = 24;

/// The beat after which a lease was minted; 0 before the first.
pub fn beat_of(number: u64) -> u64 {
    number >> BEAT_SHIFT
}

impl LeaseId {
    /// Redis scripts hold numbers as doubles: above this two ids would become one.
    const SEQ_MAX: u64 = 1 << 53;

    pub fn numbered(epoch: Epoch, seq: u64) -> Result<Self, IdError> {
        if seq > Self::SEQ_MAX {
            return Err(IdError::Shape {
                what: "a lease's number",
                shape: "a whole number up to 2^53",
            });
        }
        Ok(Self { epoch, seq })
    }

    pub fn parse(text: &str) -> Result<Self, IdError> {
        let shape = IdError::Shape {
            what: "a lease id",
            shape: "epoch.seq",
        };
        let (epoch, seq) = text.split_once('.').ok_or_else(|| shape.clone())?;
        // `u64::parse` accepts a sign and leading zeros: two spellings of one id would be two ids.
        let digits = seq.bytes().all(|byte| byte.is_ascii_digit());
        let seq: u64 = seq
            .parse()
            .ok()
            .filter(|number: &u64| digits && *number <= Self::SEQ_MAX && number.to_string() == seq)
            .ok_or(shape)?;
        Ok(Self {
            epoch: Epoch::parse(epoch)?,
            seq,
        })
    }
}

text_conversions!(LeaseId);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", &*self.epoch.text(), self.seq)
    }
}

/// Where a worker listens: an IP address and a port. Names are not accepted, because Envoy is told
/// this very address and must not resolve it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address(SocketAddr);

impl Address {
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let shape = IdError::Shape {
            what: "an address",
            shape: "10.0.0.7:8080 or [fd00::7]:8080",
        };
        let address: SocketAddr = text.parse().map_err(|_| shape.clone())?;
        // An IPv4 address may be written as an IPv6 one, and leads to the same place.
        if address.port() == 0 || address.ip().to_canonical().is_unspecified() {
            return Err(shape);
        }
        Ok(Self(address))
    }

    pub fn socket(self) -> SocketAddr {
        self.0
    }
}

text_conversions!(Address);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests;
