//! What ends sessions, or keeps them for ever.

use crate::check::envoy::{Manager, Plugin};
use crate::check::place::{Place, Spot};
use crate::check::rule::About::Envoy;
use crate::check::rule::Severity::{Error, Warning};
use crate::check::rule::{Rule, Subject};
use crate::check::rules::chain::has_websockets;

/// Envoy's default: no WebSocket may be quiet for this long.
const IDLE_DEFAULT_MS: f64 = 300_000.0;

pub(in crate::check) const RULES: &[Rule] = &[
    Rule {
        id: "idle-timeout",
        severity: Error,
        about: Envoy,
        why: "Envoy ends every WebSocket on which nobody speaks for 5 minutes, or for the shorter time that is written: sessions die, and their clients come again for another place.",
        instead: "Write stream_idle_timeout: 0s, and let keepalive find clients that vanished; or a time in which every session speaks.",
        find: idle_timeout,
    },
    Rule {
        id: "keepalive",
        severity: Warning,
        about: Envoy,
        why: "Quiet sessions are allowed here, so a client that vanished without a word keeps its place for ever.",
        instead: "Take the listener's socket_options from envoy/envoy.yaml: TCP keepalive finds out within a minute.",
        find: keepalive,
    },
    Rule {
        id: "plain-timeout",
        severity: Warning,
        about: Envoy,
        why: "Plain requests need a lease here, and Envoy ends those that take longer than the route's timeout, 15 s if there is none: the place is free while the worker may still be busy. WebSockets are not concerned.",
        instead: "Write timeout: 0s in the route to the workers, or a time that your workers keep as well.",
        find: plain_timeout,
    },
];

/// The idle timeout of each route to workers, and where it is said; 5 minutes where nobody says.
fn idle_timeouts<'a>(
    subject: &Subject<'a>,
    manager: &Manager<'a>,
    plugin: &Plugin<'a>,
) -> Vec<(f64, Option<Place<'a>>)> {
    let name = "stream_idle_timeout";
    let general = || (manager.place.duration_ms(name), manager.place.get(name));
    let own = |route: &Place<'a>| {
        let name = "route.idle_timeout";
        (route.duration_ms(name), route.find(name))
    };
    let routes = subject.envoy.leased_routes(manager, plugin);
    let mut found: Vec<_> = routes
        .iter()
        .map(|route| match own(&route.place) {
            (None, _) => general(),
            own => own,
        })
        .collect();
    if found.is_empty() {
        found.push(general());
    }
    let or_default = |(ms, place): (Option<f64>, _)| (ms.unwrap_or(IDLE_DEFAULT_MS), place);
    found.into_iter().map(or_default).collect()
}

fn idle_timeout(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin) in subject.envoy.plugins() {
        if !has_websockets(subject, manager, plugin) {
            continue;
        }
        for (ms, place) in idle_timeouts(subject, manager, plugin) {
            if ms > 0.0 && ms <= IDLE_DEFAULT_MS {
                spots.push(match place {
                    Some(place) => place.spot(format!("is {} s", ms / 1000.0)),
                    None => manager.place.lacks("stream_idle_timeout"),
                });
            }
        }
    }
    spots.dedup();
    spots
}

fn keepalive(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin) in subject.envoy.plugins() {
        // Level 1, name 9: SO_KEEPALIVE of Linux.
        let keeps = |option: &Place<'_>| {
            let is = |name: &str, number| {
                option.get(name).and_then(|it| it.value.as_i64()) == Some(number)
            };
            is("level", 1) && is("name", 9) && is("int_value", 1)
        };
        let listener = &manager.listener;
        let kept = listener.get("tcp_keepalive").is_some()
            || listener.items("socket_options").iter().any(keeps);
        let timeouts = idle_timeouts(subject, manager, plugin);
        if !kept && timeouts.iter().any(|(ms, _)| *ms == 0.0) {
            spots.push(listener.lacks("socket_options"));
        }
    }
    spots
}

fn plain_timeout(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin) in subject.envoy.plugins() {
        if plugin.settings.is_err() || plugin.admits_upgrades_only() {
            continue;
        }
        for route in subject.envoy.leased_routes(manager, plugin) {
            match route.place.find("route.timeout") {
                None => spots.push(route.place.lacks("route.timeout")),
                Some(_) if route.place.duration_ms("route.timeout") == Some(0.0) => {}
                Some(timeout) => {
                    let ends = timeout.value.as_str().unwrap_or_default();
                    spots.push(timeout.spot(format!("is {ends}")));
                }
            }
        }
    }
    spots
}
