//! The sidecar's file by itself.

use crate::check::place::Spot;
use crate::check::rule::About::Settings;
use crate::check::rule::Severity::{Error, Warning};
use crate::check::rule::{Rule, Subject};
use admission::id::PoolName;
use admission::policy::Policy;

/// How often workers are asked to send heartbeats; three must fit.
const HEARTBEAT_MS: u64 = 5_000;

pub(in crate::check) const RULES: &[Rule] = &[
    Rule {
        id: "settings",
        severity: Error,
        about: Settings,
        why: "The sidecar does not start with these settings.",
        instead: "Correct the setting that is named; docs/settings.md has all of them.",
        find: settings,
    },
    Rule {
        id: "rebuild-off",
        severity: Error,
        about: Settings,
        why: "After Redis lost its data, places are given anew at once, before the proxies have told which are taken: workers get sessions above their limits.",
        instead: "Leave rebuild_ms out: 1500.",
        find: rebuild_off,
    },
    Rule {
        id: "heartbeat-ttl",
        severity: Warning,
        about: Settings,
        why: "Workers send a heartbeat every 5 s: with less than three of them in heartbeat_ttl_ms, one that is late takes a worker out of service.",
        instead: "Let heartbeat_ttl_ms be 15000 or more, unless your workers send them more often.",
        find: heartbeat_ttl,
    },
    Rule {
        id: "shadow",
        severity: Warning,
        about: Settings,
        why: "A limit in the shadow counts, and denies nobody.",
        instead: "Take it out of shadow when you have seen enough.",
        find: shadow,
    },
];

fn settings(subject: &Subject<'_>) -> Vec<Spot> {
    let error = |file: crate::check::rule::SettingsFile<'_>| {
        let error = file.settings.err()?;
        Some(file.spot("", format!("is refused: {error}")))
    };
    subject.settings.and_then(error).into_iter().collect()
}

fn each(
    subject: &Subject<'_>,
    setting: &str,
    find: impl Fn(&PoolName, &Policy) -> Option<String>,
) -> Vec<Spot> {
    let Some((file, settings)) = subject.sidecar() else {
        return Vec::new();
    };
    let spot = |(pool, policy)| {
        let found = find(pool, policy)?;
        Some(file.spot(format!("pools.{pool}.{setting}"), found))
    };
    settings.pools.iter().filter_map(spot).collect()
}

fn rebuild_off(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, "rebuild_ms", |_, policy| {
        (policy.rebuild_ms == 0).then(|| "is 0".to_owned())
    })
}

fn heartbeat_ttl(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, "heartbeat_ttl_ms", |_, policy| {
        let ttl_ms = policy.heartbeat_ttl_ms;
        (ttl_ms < 3 * HEARTBEAT_MS).then(|| format!("is {ttl_ms}"))
    })
}

fn shadow(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, "shadow", |_, policy| {
        let limits = serde_json::to_string(&policy.shadow).unwrap_or_default();
        (!policy.shadow.is_empty()).then(|| format!("is {limits}"))
    })
}
