//! The Redis that runs.

use crate::check::place::Spot;
use crate::check::redis::Info;
use crate::check::rule::About::Redis;
use crate::check::rule::Severity::Error;
use crate::check::rule::{Rule, Subject};

/// The first with functions that live in libraries.
const VERSION_MIN: u64 = 7;

pub(in crate::check) const RULES: &[Rule] = &[
    Rule {
        id: "eviction",
        severity: Error,
        about: Redis,
        why: "When memory runs short, Redis forgets leases and counts by itself, and places are given twice.",
        instead: "Write maxmemory-policy noeviction in redis.conf: then Redis refuses to write, which is told and denies.",
        find: eviction,
    },
    Rule {
        id: "redis-version",
        severity: Error,
        about: Redis,
        why: "Redis before 7.0 has no functions, in which all of Berth's decisions are made.",
        instead: "Use Redis 7.0 or later.",
        find: version,
    },
    Rule {
        id: "replica",
        severity: Error,
        about: Redis,
        why: "A replica takes no writes, and what it shows is late.",
        instead: "Let redis.url name the primary.",
        find: replica,
    },
];

fn told(subject: &Subject<'_>, field: &str, is_wrong: impl Fn(&str) -> bool) -> Vec<Spot> {
    let spot = |redis: &Info| {
        let value = redis.get(field)?;
        is_wrong(value).then(|| Spot {
            file: redis.name.clone(),
            path: field.to_owned(),
            found: format!("is {value}"),
        })
    };
    subject.redis.iter().filter_map(spot).collect()
}

fn eviction(subject: &Subject<'_>) -> Vec<Spot> {
    told(subject, "maxmemory_policy", |policy| policy != "noeviction")
}

fn version(subject: &Subject<'_>) -> Vec<Spot> {
    told(subject, "redis_version", |version| {
        let major = version.split('.').next().and_then(|it| it.parse().ok());
        major.is_some_and(|major: u64| major < VERSION_MIN)
    })
}

fn replica(subject: &Subject<'_>) -> Vec<Spot> {
    told(subject, "role", |role| role != "master")
}
