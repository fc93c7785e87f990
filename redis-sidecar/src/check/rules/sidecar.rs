//! The way to the sidecar, and how long each waits for the next.

use crate::check::envoy::Plugin;
use crate::check::place::{Place, Spot};
use crate::check::rule::About::{Envoy, Settings};
use crate::check::rule::Severity::{Error, Warning};
use crate::check::rule::{Rule, Subject};
use admission::config::FilterConfig;
use admission::holder::{BEAT_US, BEATS_MIN, RETRY_US};

pub(in crate::check) const RULES: &[Rule] = &[
    Rule {
        id: "sidecar-cluster",
        severity: Error,
        about: Envoy,
        why: "The filter asks a cluster that does not exist: every request that needs a lease is an outage.",
        instead: "Name the cluster of the sidecar with the filter's sidecar, or take berth_sidecar from envoy/envoy.yaml.",
        find: sidecar_cluster,
    },
    Rule {
        id: "no-spare",
        severity: Warning,
        about: Envoy,
        why: "While the only sidecar is away, requests get 503, and after some 11 s the places of live sessions count as lost.",
        instead: "Give the cluster a second endpoint with priority 1, as in envoy/envoy.yaml.",
        find: no_spare,
    },
    Rule {
        id: "health-check",
        severity: Error,
        about: Envoy,
        why: "Nobody tells Envoy that the first sidecar is away, so the spare is never asked.",
        instead: "Take health_checks from envoy/envoy.yaml: /readyz every 0.5 s.",
        find: health_check,
    },
    Rule {
        id: "connect-timeout",
        severity: Warning,
        about: Envoy,
        why: "A sidecar that cannot be reached is told from a slow one only when its connection fails before the filter's ask_timeout_ms.",
        instead: "Write connect_timeout: 0.25s in the sidecar's cluster.",
        find: connect_timeout,
    },
    Rule {
        id: "watchdog",
        severity: Error,
        about: Envoy,
        why: "The watchdog answers requests before the sidecar's time is over, and an answer that comes later is not used: places are taken for nobody.",
        instead: "Let watchdog_ms be longer than ask_timeout_ms: 1000 and 300.",
        find: watchdog,
    },
    Rule {
        id: "budgets",
        severity: Error,
        about: Settings,
        why: "Who asks must wait longer than who answers, or answers come too late to be heard: places are taken and given back, and what went wrong is not told.",
        instead: "Let ask_timeout_ms (the filter's) be above answer_timeout_ms, and that above redis.timeout_ms: 300, 250, 150.",
        find: budgets,
    },
    Rule {
        id: "lease-ttl",
        severity: Error,
        about: Settings,
        why: "When a sidecar dies, the next beat must reach the spare before the places count as lost: a beat's time (a quarter of lease_ttl_ms, 3 s at most), the health check's, a repetition and an answer. Sessions that live would be given away.",
        instead: "Let lease_ttl_ms be longer than these together; the default is 15000.",
        find: lease_ttl,
    },
];

fn each(
    subject: &Subject<'_>,
    find: impl Fn(&Plugin<'_>, &FilterConfig) -> Option<Spot>,
) -> Vec<Spot> {
    let plugins = subject.envoy.plugins();
    let readable = plugins.filter_map(|(_, plugin)| Some((plugin, plugin.settings.as_ref().ok()?)));
    let found = readable.filter_map(|(plugin, settings)| find(plugin, settings));
    found.collect()
}

fn configuration(plugin: &Plugin<'_>, found: String) -> Option<Spot> {
    Some(plugin.config.get("configuration")?.spot(found))
}

fn sidecar_cluster(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |plugin, settings| {
        let name = &settings.sidecar;
        let gone = subject.envoy.knows_all_clusters() && subject.envoy.cluster(name).is_none();
        gone.then(|| {
            configuration(
                plugin,
                format!("names the cluster {name}, which does not exist"),
            )
        })?
    })
}

/// Endpoints that are written in the cluster itself; nothing for one that looks them up.
fn endpoints<'a>(cluster: &Place<'a>) -> Option<Vec<Place<'a>>> {
    let kind = cluster.text("type").unwrap_or("STATIC");
    let localities = cluster.items("load_assignment.endpoints");
    let all = localities
        .iter()
        .flat_map(|locality| locality.items("lb_endpoints"));
    (kind == "STATIC").then(|| all.collect())
}

fn no_spare(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |_, settings| {
        let cluster = subject.envoy.cluster(&settings.sidecar)?;
        let alone = endpoints(cluster)?.len() < 2;
        alone.then(|| cluster.spot("has no second endpoint"))
    })
}

fn health_check(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |_, settings| {
        let cluster = subject.envoy.cluster(&settings.sidecar)?;
        let spared = endpoints(cluster).is_none_or(|all| all.len() > 1);
        let checked = !cluster.items("health_checks").is_empty();
        (spared && !checked).then(|| cluster.lacks("health_checks"))
    })
}

fn connect_timeout(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |_, settings| {
        let cluster = subject.envoy.cluster(&settings.sidecar)?;
        let ask_ms = settings.ask_timeout_ms as f64;
        match (
            cluster.duration_ms("connect_timeout"),
            cluster.get("connect_timeout"),
        ) {
            (Some(ms), Some(_)) if ms < ask_ms => None,
            (Some(ms), Some(place)) => {
                Some(place.spot(format!("is {ms} ms; ask_timeout_ms is {ask_ms}")))
            }
            (_, place) => Some(place.map_or_else(
                || cluster.lacks("connect_timeout"),
                |place| place.spot("is no duration"),
            )),
        }
    })
}

fn watchdog(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |plugin, settings| {
        let (ask_ms, watchdog_ms) = (settings.ask_timeout_ms, settings.watchdog_ms);
        let found = format!("has ask_timeout_ms {ask_ms} and watchdog_ms {watchdog_ms}");
        (ask_ms >= watchdog_ms).then(|| configuration(plugin, found))?
    })
}

fn budgets(subject: &Subject<'_>) -> Vec<Spot> {
    let Some((file, settings)) = subject.sidecar() else {
        return Vec::new();
    };
    let (answer_ms, redis_ms) = (settings.answer_timeout_ms, settings.redis.timeout_ms);
    let mut spots = each(subject, |plugin, filter| {
        let ask_ms = filter.ask_timeout_ms;
        let found =
            format!("has ask_timeout_ms {ask_ms}; the sidecar's answer_timeout_ms is {answer_ms}");
        (ask_ms <= answer_ms).then(|| configuration(plugin, found))?
    });
    if answer_ms <= redis_ms {
        let found = format!("is {answer_ms}; redis.timeout_ms is {redis_ms}");
        spots.push(file.spot("answer_timeout_ms", found));
    }
    spots
}

fn lease_ttl(subject: &Subject<'_>) -> Vec<Spot> {
    let Some((file, settings)) = subject.sidecar() else {
        return Vec::new();
    };
    let mut spots = Vec::new();
    for (pool, policy) in &settings.pools {
        let plugins = subject.envoy.plugins();
        let filters = plugins.filter_map(|(_, plugin)| plugin.settings.as_ref().ok());
        let slowest = filters
            .filter(|filter| filter.pool == *pool)
            .map(|filter| failover_ms(subject, filter) + filter.ask_timeout_ms as f64)
            .fold(0.0, f64::max);
        let ttl_ms = policy.lease_ttl_ms;
        // Beats come a fifth earlier or later.
        let beat_ms = 1.2 * (BEAT_US / 1000).min(ttl_ms / BEATS_MIN) as f64;
        let needed_ms = beat_ms + slowest + (RETRY_US / 1000) as f64;
        if ttl_ms as f64 <= needed_ms {
            let found = format!("is {ttl_ms}; a beat by way of the spare takes {needed_ms:.0} ms");
            spots.push(file.spot(format!("pools.{pool}.lease_ttl_ms"), found));
        }
    }
    spots
}

/// How long Envoy goes on asking a sidecar that is gone.
fn failover_ms(subject: &Subject<'_>, filter: &FilterConfig) -> f64 {
    let cluster = subject.envoy.cluster(&filter.sidecar);
    let checks = cluster.map(|cluster| cluster.items("health_checks"));
    let slow = |check: &Place<'_>| {
        let threshold = check
            .get("unhealthy_threshold")
            .and_then(|it| it.value.as_f64());
        let interval_ms = check.duration_ms("interval").unwrap_or(0.0);
        interval_ms * threshold.unwrap_or(1.0) + check.duration_ms("timeout").unwrap_or(0.0)
    };
    let all = checks.unwrap_or_default();
    all.iter().map(slow).fold(0.0, f64::max)
}
