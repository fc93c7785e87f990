//! Counts and rates for callers without the filter, such as Envoy's own Lua: what `/redis/atomic`
//! reads and answers. A fixed list of operations; whatever else is asked is refused by name.

use admission::id::IdError;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// Long enough for a path or an IPv6 address with a prefix; it stands in every key.
const KEY_BYTES_MAX: usize = 128;
/// A request id has 36 bytes; what an owner holds is stored under its name.
const OWNER_BYTES_MAX: usize = 128;
/// Exact in the scripts' numbers, and more than anybody counts.
const LIMIT: RangeInclusive<u64> = 0..=1_000_000_000;
/// From what a network's delay does not use up to what a lost owner may keep: a day.
const TTL_MS: RangeInclusive<u64> = 100..=86_400_000;
const WINDOW_S: RangeInclusive<u64> = 1..=86_400;

/// What is counted, in the caller's words. It is the hash tag of the count's Redis keys.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct CountKey(String);

impl CountKey {
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let what = "a key";
        check_length(what, KEY_BYTES_MAX, text)?;
        let allowed = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':' | b'/')
        };
        if text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError::Character {
                what,
                allowed: "letters, digits, '.', '_', '-', ':' and '/'",
            })
        }
    }
}

impl TryFrom<String> for CountKey {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Self::parse(&text)
    }
}

impl fmt::Display for CountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// On whose account something is held: a proxy, a request, whatever may be lost. Any text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Owner(String);

impl Owner {
    pub fn parse(text: &str) -> Result<Self, IdError> {
        check_length("an owner", OWNER_BYTES_MAX, text)?;
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Owner {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Self::parse(&text)
    }
}

fn check_length(what: &'static str, max: usize, text: &str) -> Result<(), IdError> {
    let bytes = text.len();
    if (1..=max).contains(&bytes) {
        Ok(())
    } else {
        Err(IdError::Length { what, max, bytes })
    }
}

/// An owner, and how long it may be silent before what it holds is taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenure {
    pub owner: Owner,
    pub ttl_ms: u64,
}

/// What is asked, with all that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    CheckAndIncrement { limit: u64, tenure: Option<Tenure> },
    Decrement { owner: Option<Owner> },
    Renew { owner: Owner, ttl_ms: Option<u64> },
    CheckRateLimit { limit: u64, window_s: u64 },
    Get,
}

impl Operation {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::CheckAndIncrement { .. } => "check_and_increment",
            Self::Decrement { .. } => "decrement",
            Self::Renew { .. } => "renew",
            Self::CheckRateLimit { .. } => "check_rate_limit",
            Self::Get => "get",
        }
    }

    /// What gives back what this took, if nobody hears that it did. A rate is not given back.
    pub(crate) fn undone(self) -> Option<Self> {
        match self {
            Self::CheckAndIncrement { tenure, .. } => Some(Self::Decrement {
                owner: tenure.map(|tenure| tenure.owner),
            }),
            Self::Decrement { .. }
            | Self::Renew { .. }
            | Self::CheckRateLimit { .. }
            | Self::Get => None,
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    CheckAndIncrement,
    Decrement,
    Renew,
    CheckRateLimit,
    Get,
}

/// The body of a request, not yet held to what its operation needs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtomicRequest {
    operation: Word,
    key: CountKey,
    #[serde(default, deserialize_with = "by_name")]
    args: Args,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    limit: Option<u64>,
    owner: Option<Owner>,
    ttl_ms: Option<u64>,
    window_s: Option<u64>,
}

impl AtomicRequest {
    /// What is asked of which key, or a sentence that begins with the field that is wrong.
    pub fn checked(self) -> Result<(CountKey, Operation), String> {
        let mut args = self.args;
        let operation = match self.operation {
            Word::CheckAndIncrement => Operation::CheckAndIncrement {
                limit: needed("limit", args.limit.take(), LIMIT)?,
                tenure: tenure(args.owner.take(), args.ttl_ms.take())?,
            },
            Word::Decrement => Operation::Decrement {
                owner: args.owner.take(),
            },
            Word::Renew => Operation::Renew {
                owner: (args.owner.take())
                    .ok_or("args.owner: is needed, whose time begins anew")?,
                ttl_ms: (args.ttl_ms.take())
                    .map(|ttl_ms| within("ttl_ms", ttl_ms, TTL_MS))
                    .transpose()?,
            },
            Word::CheckRateLimit => Operation::CheckRateLimit {
                limit: needed("limit", args.limit.take(), LIMIT)?,
                window_s: needed("window_s", args.window_s.take(), WINDOW_S)?,
            },
            Word::Get => Operation::Get,
        };
        match args.first() {
            Some(name) => {
                let operation = operation.as_str();
                Err(format!("args.{name}: {operation} has no such argument"))
            }
            None => Ok((self.key, operation)),
        }
    }
}

impl Args {
    fn first(&self) -> Option<&'static str> {
        let there = [
            ("limit", self.limit.is_some()),
            ("owner", self.owner.is_some()),
            ("ttl_ms", self.ttl_ms.is_some()),
            ("window_s", self.window_s.is_some()),
        ];
        there
            .iter()
            .find(|(_, there)| *there)
            .map(|(name, _)| *name)
    }
}

fn tenure(owner: Option<Owner>, ttl_ms: Option<u64>) -> Result<Option<Tenure>, String> {
    match (owner, ttl_ms) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err("args.ttl_ms: is an owner's, and needs args.owner".into()),
        (Some(owner), ttl_ms) => Ok(Some(Tenure {
            owner,
            ttl_ms: needed("ttl_ms", ttl_ms, TTL_MS)?,
        })),
    }
}

fn needed(name: &str, value: Option<u64>, range: RangeInclusive<u64>) -> Result<u64, String> {
    match value {
        Some(value) => within(name, value, range),
        None => Err(format!(
            "args.{name}: is needed, {} to {}",
            range.start(),
            range.end()
        )),
    }
}

fn within(name: &str, value: u64, range: RangeInclusive<u64>) -> Result<u64, String> {
    if range.contains(&value) {
        return Ok(value);
    }
    let (min, max) = range.into_inner();
    Err(format!("args.{name}: must be {min} to {max}, not {value}"))
}

/// Serde would read a list as the fields in their order.
fn by_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Args, D::Error> {
    struct ByName;

    impl<'de> Visitor<'de> for ByName {
        type Value = Args;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object with the arguments by their names")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Args, A::Error> {
            Args::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_map(ByName)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum AtomicAnswer {
    /// check_and_increment
    Checked {
        allowed: bool,
        count: u64,
        /// Why not.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<Refusal>,
    },
    /// check_rate_limit
    Rated {
        allowed: bool,
        count: u64,
        retry_after_ms: u64,
    },
    /// renew
    Renewed { count: u64, held: u64 },
    /// decrement, get
    Counted { count: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    LimitExceeded,
    TooManyOwners,
}

/// How an operation ended, for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Allowed,
    Denied,
    Done,
    /// A decrement or renewal of what is not held, or no longer.
    Unheld,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Done => "done",
            Self::Unheld => "unheld",
        }
    }
}

/// What came of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    pub answer: AtomicAnswer,
    pub outcome: Outcome,
    /// How many were taken back from owners whose time was over.
    pub taken_back: u64,
}
