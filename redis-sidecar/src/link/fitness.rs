//! What a server tells of itself, and what it must not be.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Functions came with this version.
const VERSION_MIN: (u32, u32) = (7, 0);

/// A server as its `INFO` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    /// Which one this is: drawn whenever it starts, so one that was started anew, or another than before,
    /// may have lost data.
    pub(super) run_id: Arc<str>,
    pub(super) unfit: Option<Unfit>,
}

/// Why a server is not one to keep leases in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// It has no functions.
    TooOld { version: String },
    /// It knows where Redis is, and is none.
    Sentinel,
    /// It is not the primary.
    Replica { primary: String },
    /// It is still reading its file.
    Loading,
    /// With its `maxmemory-policy` it may throw leases away.
    Evicts { policy: String },
}

impl Unfit {
    /// For metrics: every word there is.
    pub const REASONS: [&'static str; 5] = ["too_old", "sentinel", "replica", "loading", "evicts"];

    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooOld { .. } => "too_old",
            Self::Sentinel => "sentinel",
            Self::Replica { .. } => "replica",
            Self::Loading => "loading",
            Self::Evicts { .. } => "evicts",
        }
    }

    /// Whether there is no use in asking it anything. One that evicts still takes back what is given back.
    pub(super) fn is_useless(&self) -> bool {
        match self {
            Self::TooOld { .. } | Self::Sentinel | Self::Replica { .. } | Self::Loading => true,
            Self::Evicts { .. } => false,
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooOld { version } => write!(
                f,
                "Redis {version} has no functions: run Redis 7.0 or later, or Valkey"
            ),
            Self::Sentinel => write!(
                f,
                "this is a Sentinel and no Redis: write redis+sentinel://host:port/primary-name"
            ),
            Self::Replica { primary } => write!(
                f,
                "this Redis is a replica of {primary}: name the primary in redis.url, or write \
                 redis+sentinel:// or redis+cluster://"
            ),
            Self::Loading => write!(f, "Redis is still reading its file"),
            Self::Evicts { policy } => write!(
                f,
                "maxmemory-policy of Redis is {policy}, so it may throw leases away and nobody is admitted: \
                 type CONFIG SET maxmemory-policy noeviction, and write the same in redis.conf"
            ),
        }
    }
}

impl Server {
    /// `None`: this is not the answer of a Redis.
    pub(super) fn read(info: &str) -> Option<Self> {
        let lines = info.lines().filter_map(|line| line.trim().split_once(':'));
        let told: HashMap<&str, &str> = lines.collect();
        let run_id = told.get("run_id").copied()?.into();
        let unfit = unfit(&told);
        Some(Self { run_id, unfit })
    }
}

/// What is not told is taken for well: some providers hide parts.
fn unfit(told: &HashMap<&str, &str>) -> Option<Unfit> {
    let of = |name| told.get(name).copied();
    let version = of("redis_version").unwrap_or_default();
    if parse_version(version).is_some_and(|version| version < VERSION_MIN) {
        let version = version.to_owned();
        return Some(Unfit::TooOld { version });
    }
    if of("redis_mode") == Some("sentinel") {
        return Some(Unfit::Sentinel);
    }
    if of("role") == Some("slave") {
        let host = of("master_host").unwrap_or("?");
        let port = of("master_port").unwrap_or("?");
        let primary = format!("{host}:{port}");
        return Some(Unfit::Replica { primary });
    }
    if of("loading") == Some("1") {
        return Some(Unfit::Loading);
    }
    let policy = of("maxmemory_policy").filter(|policy| *policy != "noeviction")?;
    let policy = policy.to_owned();
    Some(Unfit::Evicts { policy })
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str]) -> Server {
        let info = format!("# Server\r\nrun_id:abc\r\n{}\r\n", lines.join("\r\n"));
        Server::read(&info).unwrap()
    }

    #[test]
    fn a_primary_that_keeps_everything_is_fit() {
        let fit = [
            "redis_version:7.0.15",
            "role:master",
            "maxmemory_policy:noeviction",
            "loading:0",
        ];
        let server = told(&fit);
        assert_eq!((&*server.run_id, server.unfit), ("abc", None));
        assert_eq!(Server::read("# Server\r\nredis_version:7.0.15"), None);
    }

    #[test]
    fn what_is_unfit_says_what_to_do() {
        for (lines, reason, part) in [
            (
                ["redis_version:6.2.5", "role:master"],
                "too_old",
                "Redis 7.0",
            ),
            (
                ["redis_version:10.0.0", "loading:1"],
                "loading",
                "reading its file",
            ),
            (
                ["redis_version:7.0.15", "redis_mode:sentinel"],
                "sentinel",
                "redis+sentinel://",
            ),
            (
                ["role:slave", "master_host:db"],
                "replica",
                "redis+sentinel://",
            ),
            (
                ["redis_version:7.2.4", "maxmemory_policy:allkeys-lru"],
                "evicts",
                "noeviction",
            ),
        ] {
            let unfit = told(&lines).unfit.unwrap();
            assert_eq!(unfit.reason(), reason);
            assert!(Unfit::REASONS.contains(&reason));
            assert!(unfit.to_string().contains(part), "{unfit}");
        }
    }
}
