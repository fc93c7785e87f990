//! Which parts make each script. A script is one text for Redis, so the parts are joined here, at
//! compile time, in the order they build on each other.

use redis::Script;

/// A verb's script: its name, what it is made of, and the whole text.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    pub verb: &'static str,
    pub parts: &'static [&'static str],
    pub code: &'static str,
}

/// `#!lua` at byte 0 makes Redis refuse keys of another shard. The flags say what a script may do when
/// Redis is full: to give back and to tidy up must go on, or it would stay full.
macro_rules! source {
    ($verb:literal $flags:literal: $($part:literal)+) => {
        Source {
            verb: $verb,
            parts: &[$($part),+],
            code: concat!(
                "#!lua", $flags, "\n",
                $(include_str!(concat!("../../lua/", $part, ".lua")), "\n",)+
                include_str!(concat!("../../lua/", $verb, ".lua")),
            ),
        }
    };
}

/// Every script starts from the pool's keys, its strategies, its policy, its head and its workers.
macro_rules! pool_source {
    ($verb:literal $flags:literal: $($part:literal)*) => {
        source!($verb $flags: "lib/keys" "lib/rank" "lib/dice" "lib/estimate"
            "strategies/lifetime_first" "strategies/round_robin" "strategies/least_connections"
            "strategies/random" "strategies/sewt"
            "lib/policy" "lib/pool" "lib/worker" "lib/index" $($part)*)
    };
}

pub const ADMIT: Source =
    pool_source!("admit" "": "lib/former" "lib/lease" "lib/ejection" "lib/sweep");
pub const RELEASE: Source = pool_source!("release" " flags=allow-oom": "lib/former" "lib/lease" "lib/ejection" "lib/report");
pub const OBSERVE: Source = pool_source!("observe" " flags=allow-oom": "lib/former" "lib/lease" "lib/ejection" "lib/report");
pub const REGISTER: Source = pool_source!("register" "": "lib/former" "lib/advice");
pub const HEARTBEAT: Source = pool_source!("heartbeat" " flags=allow-oom": "lib/advice");
pub const DRAIN: Source = pool_source!("drain" " flags=allow-oom": "lib/advice");
pub const REMOVE: Source = pool_source!("remove" " flags=allow-oom":);
pub const REAP: Source = pool_source!("reap" " flags=allow-oom": "lib/sweep");
pub const POLICY: Source = pool_source!("policy" "":);
pub const VIEW: Source = pool_source!("view" " flags=no-writes": "lib/report");

pub const ALL: [Source; 10] = [
    ADMIT, RELEASE, OBSERVE, REGISTER, HEARTBEAT, DRAIN, REMOVE, REAP, POLICY, VIEW,
];

/// The scripts with their hashes, ready to be called.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) admit: Script,
    pub(crate) release: Script,
    pub(crate) observe: Script,
    pub(crate) register: Script,
    pub(crate) heartbeat: Script,
    pub(crate) drain: Script,
    pub(crate) remove: Script,
    pub(crate) reap: Script,
    pub(crate) policy: Script,
    pub(crate) view: Script,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        let script = |source: Source| Script::new(source.code);
        Self {
            admit: script(ADMIT),
            release: script(RELEASE),
            observe: script(OBSERVE),
            register: script(REGISTER),
            heartbeat: script(HEARTBEAT),
            drain: script(DRAIN),
            remove: script(REMOVE),
            reap: script(REAP),
            policy: script(POLICY),
            view: script(VIEW),
        }
    }
}
