//! The only place where Redis keys are spelled. The braces are the Redis Cluster hash tag: all keys
//! of one pool live on one shard, so that one script can reach them.

use admission::id::{Epoch, PoolName};

/// The keys of a pool, in the order that `lua/lib/keys.lua` names them.
pub fn pool_keys(pool: &PoolName) -> [String; 22] {
    [
        "pool",
        "workers",
        "reports",
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
        "clients",
        "client_rates",
        "affinity",
        "affinity_expiry",
        "shadow_index",
        "shadow_index:2",
        "shadow_index:3",
        "shadows",
    ]
    .map(|name| format!("ws:{{{pool}}}:{name}"))
}

/// One holder in a pool, with its leases: the key after the pool's own.
pub(crate) fn holder_key(pool: &PoolName, epoch: &Epoch) -> String {
    format!("ws:{{{pool}}}:holder:{epoch}")
}
