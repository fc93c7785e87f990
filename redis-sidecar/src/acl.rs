//! What the sidecar's user of Redis needs, and nothing else: `berth acl`.

use crate::link::address::Topology;
use crate::settings::RedisSettings;

/// The user's name where the settings say none.
const USER: &str = "berth";

/// All keys begin with this: see `keys`.
const KEYS: &str = "~ws:*";

/// What the sidecar itself sends.
const SENT: [&str; 3] = ["fcall", "function|load", "info"];

/// What functions run, with the permissions of whoever calls them. A test compares with the scripts.
const RUN: [&str; 25] = [
    "del",
    "get",
    "hdel",
    "hexists",
    "hget",
    "hgetall",
    "hincrby",
    "hkeys",
    "hlen",
    "hmget",
    "hscan",
    "hset",
    "persist",
    "pexpireat",
    "set",
    "time",
    "unlink",
    "zadd",
    "zcard",
    "zcount",
    "zmscore",
    "zrange",
    "zrem",
    "zscan",
    "zscore",
];

/// The commands that a sidecar with these settings uses.
pub fn commands(settings: &RedisSettings) -> Result<Vec<&'static str>, String> {
    let topology = Topology::parse(&settings.url)?;
    let mut commands = [&SENT[..], &RUN[..]].concat();
    match topology {
        Topology::Cluster(_) => commands.extend(["asking", "cluster|info", "cluster|slots"]),
        Topology::Single(_) | Topology::Sentinel(_) => {}
    }
    if topology.db() != 0 {
        commands.push("select");
    }
    if settings.wait_replicas > 0 {
        commands.push("wait");
    }
    Ok(commands)
}

/// The line, as a file of users or redis.conf has it. The password is left for whoever enters it.
pub fn line(settings: &RedisSettings) -> Result<String, String> {
    let user = settings.user.as_deref().unwrap_or(USER);
    let commands = commands(settings)?.join(" +");
    Ok(format!(
        "user {user} on >PASSWORD resetchannels resetkeys {KEYS} -@all +{commands}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::{Library, VERBS};
    use std::collections::BTreeSet;

    #[test]
    fn the_list_has_what_the_scripts_run_and_nothing_else() {
        let library = Library::new(&VERBS);
        let calls = library.text().split("redis.call(").skip(1);
        let run: BTreeSet<String> = calls
            .map(|rest| {
                let name = rest
                    .strip_prefix('\'')
                    .and_then(|rest| rest.split('\'').next());
                name.expect("a command by its name").to_lowercase()
            })
            .collect();
        assert_eq!(run, RUN.map(str::to_owned).into());
        assert!(!library.text().contains("redis.pcall("));
    }

    #[test]
    fn only_a_cluster_is_asked_for_its_slots() {
        let mut settings = RedisSettings::default();
        assert!(!line(&settings).unwrap().contains("cluster"));
        settings.url = "redis+cluster://a:1".into();
        (settings.user, settings.wait_replicas) = (Some("u".into()), 1);
        let line = line(&settings).unwrap();
        assert!(line.starts_with("user u on >PASSWORD "), "{line}");
        assert!(
            line.contains("+asking +cluster|info +cluster|slots +wait"),
            "{line}"
        );
    }
}
