//! How a holder tells what it holds: beats, and the presence that ends when the holder does.

use crate::id::{Address, HolderId, Incarnation, KeyHash, PoolName, WorkerId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const RENEW_PATH: &str = "/v1/renew";
pub const PRESENCE_PATH: &str = "/v1/presence";

/// Who is present, and the how manieth call of that holder this is.
pub const POOL_HEADER: &str = "x-berth-pool";
pub const HOLDER_HEADER: &str = "x-berth-holder";
pub const PRESENCE_HEADER: &str = "x-berth-presence";

/// How many lease numbers `asking` and `ended` may have together: one call of a script can take
/// that many. With more under way, a beat goes out without `ended` and `held`: it keeps the holder
/// alive, and what is held is compared by a later one. Questions beyond this many are cancelled.
pub const UNDER_WAY_MAX: usize = 4000;

/// One beat. It speaks for every lease with a number below `beat << BEAT_SHIFT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewRequest {
    pub pool: PoolName,
    pub holder: HolderId,
    /// Higher than that of every beat before.
    pub beat: u64,
    /// Leases asked for, without an answer yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asking: Vec<u64>,
    /// Leases that ended, while their release is not known to have arrived.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<u64>,
    /// The rebuild that was heard of, once all that was asked for before is answered: what is asked
    /// for since cannot have been given and lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<u64>,
    /// All others that have not ended; left out when too much is under way to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// The same one by one, when the last answer asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leases: Option<Vec<Place>>,
}

/// A set of leases in two numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub count: u64,
    /// Sum of `mix(number)` over the leases, modulo 2^32.
    pub digest: u32,
}

impl Held {
    pub fn add(&mut self, number: u64) {
        self.count = self.count.saturating_add(1);
        self.digest = self.digest.wrapping_add(mix(number));
    }

    pub fn remove(&mut self, number: u64) {
        self.count = self.count.saturating_sub(1);
        self.digest = self.digest.wrapping_sub(mix(number));
    }
}

/// A lease number, shuffled: sums of neighbours must differ. The scripts do the same with their
/// 32-bit operations (xorshift; never 0).
pub fn mix(number: u64) -> u32 {
    const SALT: u32 = 0x9e37_79b9;
    let low = u32::try_from(number & 0xffff_ffff).unwrap_or_default();
    let high = u32::try_from(number >> 32).unwrap_or_default();
    let mut mixed = low ^ high.rotate_left(16) ^ SALT;
    mixed ^= mixed << 13;
    mixed ^= mixed >> 17;
    mixed ^= mixed << 5;
    mixed
}

/// One worker's life and the leases that a holder has on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub worker: WorkerId,
    pub incarnation: Incarnation,
    pub address: Address,
    /// Number and lifetime number of each.
    pub leases: Vec<(u64, u64)>,
    /// Whom those of these numbers are counted for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clients: BTreeMap<u64, KeyHash>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewAnswer {
    pub verdict: Verdict,
    /// The holder's places had been given to others when this beat came.
    #[serde(default)]
    pub lost: bool,
    /// The store may have lost data and waits for this holder to tell all: beat again soon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<u64>,
    /// How long the holder is believed without a further beat.
    pub lease_ttl_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Holder and store hold the same.
    Kept,
    /// They do not: the next beat is to list the leases.
    List,
    /// A later beat was there before.
    Stale,
}

impl Verdict {
    pub const ALL: [Self; 3] = [Self::Kept, Self::List, Self::Stale];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::List => "list",
            Self::Stale => "stale",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|verdict| verdict.as_str() == text)
    }
}
