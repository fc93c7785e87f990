//! The only place where Redis keys are spelled. The braces are the Redis Cluster hash tag: all keys
//! of one pool live on one shard, so that one script can reach them.

use crate::atomic::CountKey;
use admission::id::{Epoch, PoolName};

pub(crate) type PoolKeys = [String; 19];

/// The keys of a pool, in the order that `lua/lib/keys.lua` names them.
pub fn pool_keys(pool: &PoolName) -> PoolKeys {
    [
        "pool",
        "live",
        "heartbeats",
        "absent",
        "ejected",
        "tombstones",
        "index",
        "index:2",
        "index:3",
        "former",
        "latencies",
        "holders",
        "awaited",
        "keys",
        "rate_expiry",
        "affinity_expiry",
        "shadow_index",
        "shadow_index:2",
        "shadow_index:3",
    ]
    .map(|name| ["ws:{", pool.as_str(), "}:", name].concat())
}

/// One holder in a pool, with its leases: the key after the pool's own.
pub(crate) fn holder_key(pool: &PoolName, epoch: &Epoch) -> String {
    ["ws:{", pool.as_str(), "}:holder:", &epoch.text()].concat()
}

/// The keys of a count, in the order that `lua/lib/count.lua` names them. A pool's keys begin with
/// `ws:{`, so none of these is one.
pub(crate) fn count_keys(key: &CountKey) -> Vec<String> {
    ["count", "owners", "deadlines"]
        .map(|name| format!("ws:atomic:{{{key}}}:{name}"))
        .into()
}

/// The present window of a rate, one for each length of windows.
pub(crate) fn rate_key(key: &CountKey, window_s: u64) -> String {
    format!("ws:atomic:{{{key}}}:rate_limit:{window_s}")
}
