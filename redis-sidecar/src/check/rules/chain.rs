//! The filter among its neighbours.

use crate::check::envoy::{Manager, Plugin};
use crate::check::place::{Place, Spot};
use crate::check::rule::About::Envoy;
use crate::check::rule::Severity::{Error, Warning};
use crate::check::rule::{Rule, Subject};
use admission::config::{FilterConfig, RouteBy};

/// Filters that may choose the route anew, or write what the filter has written, by a part of their type.
const REWRITERS: [&str; 8] = [
    ".http.lua.",
    ".http.ext_proc.",
    ".http.ext_authz.",
    ".http.header_mutation.",
    ".http.set_filter_state.",
    ".http.golang.",
    ".http.dynamic_modules.",
    ".http.wasm.",
];

pub(in crate::check) const RULES: &[Rule] = &[
    Rule {
        id: "upgrade-chain",
        severity: Error,
        about: Envoy,
        why: "Requests of this upgrade pass through these filters alone: none of them is asked for.",
        instead: "Leave filters out of upgrade_configs, or put Berth's filter there too.",
        find: upgrade_chain,
    },
    Rule {
        id: "upgrade-missing",
        severity: Warning,
        about: Envoy,
        why: "Envoy answers 403 to every WebSocket, and only WebSockets need a lease here: the filter has nothing to do.",
        instead: "Write upgrade_configs: [{upgrade_type: websocket}], or another admit.",
        find: upgrade_missing,
    },
    Rule {
        id: "filter-order",
        severity: Warning,
        about: Envoy,
        why: "A filter between Berth's and the router may choose another route or address after the place was taken.",
        instead: "Put such filters before Berth's, unless you know that they change neither.",
        find: filter_order,
    },
    Rule {
        id: "stateful-session",
        severity: Error,
        about: Envoy,
        why: "Only a strict stateful_session filter directly after Berth's, reading the filter's address_header, sends a request to the worker that has its place; otherwise any worker may get it.",
        instead: "Take the filter stateful_session from envoy/stateful-session.yaml.",
        find: stateful_session,
    },
    Rule {
        id: "normalize-path",
        severity: Warning,
        about: Envoy,
        why: "The filter compares paths as prefixes, byte by byte: //run and /x/../run would not be /run.",
        instead: "Write normalize_path: true and merge_slashes: true.",
        find: normalize_path,
    },
];

fn is_websocket(upgrade: &Place<'_>) -> bool {
    (upgrade.text("upgrade_type")).is_some_and(|it| it.eq_ignore_ascii_case("websocket"))
}

fn upgrade_chain(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin) in subject.envoy.plugins() {
        let name = plugin.filter.text("name");
        for upgrade in manager.place.items("upgrade_configs") {
            let filters = upgrade.items("filters");
            if !filters.is_empty() && !filters.iter().any(|filter| filter.text("name") == name) {
                let place = upgrade.get("filters").unwrap_or(upgrade);
                spots.push(place.spot("is a chain without Berth's filter"));
            }
        }
    }
    spots
}

/// Whether WebSockets pass this manager, on any route or on one that leads to workers.
pub(super) fn has_websockets(
    subject: &Subject<'_>,
    manager: &Manager<'_>,
    plugin: &Plugin<'_>,
) -> bool {
    let off = |upgrade: &Place<'_>| {
        upgrade
            .get("enabled")
            .is_some_and(|it| it.value.as_bool() == Some(false))
    };
    let on = |upgrades: Vec<Place<'_>>| upgrades.iter().any(|it| is_websocket(it) && !off(it));
    let routes = subject.envoy.leased_routes(manager, plugin);
    on(manager.place.items("upgrade_configs"))
        || (routes.iter()).any(|route| on(route.place.items("route.upgrade_configs")))
}

fn upgrade_missing(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin) in subject.envoy.plugins() {
        if plugin.admits_upgrades_only() && !has_websockets(subject, manager, plugin) {
            spots.push(manager.place.lacks("upgrade_configs"));
        }
    }
    spots
}

fn filter_order(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin) in subject.envoy.plugins() {
        for filter in manager.filters.iter().skip(plugin.index + 1) {
            let Some((kind, _)) = filter.extension() else {
                continue;
            };
            let ours = manager
                .plugins
                .iter()
                .any(|it| it.filter.path == filter.path);
            if REWRITERS.iter().any(|part| kind.contains(part)) && !ours {
                let name = filter.text("name").unwrap_or(kind);
                spots.push(filter.spot(format!("is {name}, after Berth's filter")));
            }
        }
    }
    spots
}

fn stateful_session(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin) in subject.envoy.plugins() {
        let Ok(settings) = &plugin.settings else {
            continue;
        };
        if !plugin.routes_by(RouteBy::StatefulSession) {
            continue;
        }
        let next = manager.filters.get(plugin.index + 1);
        match next.and_then(|next| Some((next, next.typed_config()?))) {
            Some((next, ("StatefulSession", config))) => {
                spots.extend(unfit(&config, settings));
                let name = next.text("name").unwrap_or_default();
                for route in subject.envoy.leased_routes(manager, plugin) {
                    let told = route.told(name).into_iter();
                    spots.extend(told.map(|told| told.spot("overrides it on a route to workers")));
                }
            }
            Some(_) | None => {
                spots.push(plugin.filter.spot("is not followed by stateful_session"));
            }
        }
    }
    spots
}

/// What of the stateful_session filter does not fit Berth's.
fn unfit(config: &Place<'_>, settings: &FilterConfig) -> Option<Spot> {
    if !config.is_true("strict") {
        return Some(match config.get("strict") {
            Some(strict) => strict.spot("is not true"),
            None => config.lacks("strict"),
        });
    }
    let Some((kind, state)) = config.get("session_state").and_then(|it| it.typed_config()) else {
        return Some(config.lacks("session_state"));
    };
    let header = state.text("name").unwrap_or_default();
    if kind != "HeaderBasedSessionState" {
        return Some(state.spot(format!(
            "is {kind}: not a header, which the filter could set"
        )));
    }
    let wanted = &settings.address_header;
    (!header.eq_ignore_ascii_case(wanted)).then(|| {
        state.spot(format!(
            "reads {header:?}; the filter's address_header is {wanted:?}"
        ))
    })
}

fn normalize_path(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin) in subject.envoy.plugins() {
        let Ok(settings) = &plugin.settings else {
            continue;
        };
        let unbinds = |it: &admission::config::AffinityConfig| !it.unbind_paths.is_empty();
        let compares = !settings.paths.is_empty()
            || !settings.operations.is_empty()
            || settings.affinity.as_ref().is_some_and(unbinds);
        let missing = ["normalize_path", "merge_slashes"]
            .into_iter()
            .find(|name| !manager.place.is_true(name));
        if let (true, Some(missing)) = (compares, missing) {
            spots.push(manager.place.lacks(missing));
        }
    }
    spots
}
