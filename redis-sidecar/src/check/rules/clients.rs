//! Who is the same client, and what else the filter trusts.

use crate::check::envoy::{Manager, Plugin};
use crate::check::place::{Place, Spot};
use crate::check::rule::About::{Envoy, Settings};
use crate::check::rule::Severity::{Error, Warning};
use crate::check::rule::{Rule, Subject};
use admission::config::{ClientSource, FilterConfig, OnOutage};

pub(in crate::check) const RULES: &[Rule] = &[
    Rule {
        id: "client-peer",
        severity: Error,
        about: Envoy,
        why: "Without use_remote_address Envoy believes the x-forwarded-for that a client sends: a client can be as many clients as it likes.",
        instead: "Write use_remote_address: true, and xff_num_trusted_hops with the number of proxies in front of this Envoy.",
        find: client_peer,
    },
    Rule {
        id: "client-header",
        severity: Warning,
        about: Envoy,
        why: "Nothing in this Envoy sets the header by which clients are told apart. If clients can send it themselves, they can be as many clients as they like.",
        instead: "Make sure that a hop in front sets it on every request, or tell clients apart by \"peer\" or by a claim of a verified token.",
        find: client_header,
    },
    Rule {
        id: "client-metadata",
        severity: Error,
        about: Envoy,
        why: "The filter that is to tell clients apart does not run before Berth's, so no request has a key, and all of them count as one client.",
        instead: "Put that filter before Berth's.",
        find: client_metadata,
    },
    Rule {
        id: "no-client",
        severity: Error,
        about: Settings,
        why: "The pool limits each client, and this filter tells no clients apart: for its requests those limits do not hold.",
        instead: "Give the filter a client, in every Envoy; docs/limits.md has the choices.",
        find: no_client,
    },
    Rule {
        id: "unknown-pool",
        severity: Error,
        about: Settings,
        why: "No sidecar with this file makes the pool that the filter asks for: every request that needs a lease is refused.",
        instead: "Add [pools.NAME] to berth.toml, or correct the filter's pool.",
        find: unknown_pool,
    },
    Rule {
        id: "outage-allow",
        severity: Warning,
        about: Envoy,
        why: "While nobody can be asked, requests go on without a lease, to a fallback that nobody counts.",
        instead: "Make sure that the fallback is not your workers; deny and local_share keep the limits (docs/outages.md).",
        find: outage_allow,
    },
    Rule {
        id: "admin-open",
        severity: Warning,
        about: Envoy,
        why: "Whoever reaches Envoy's admin interface can stop it and read its whole configuration.",
        instead: "Write address: 127.0.0.1, or a pipe.",
        find: admin_open,
    },
];

type Found<'m, 'a> = (&'m Manager<'a>, &'m Plugin<'a>, &'m FilterConfig);

fn readable<'m, 'a>(subject: &'m Subject<'a>) -> impl Iterator<Item = Found<'m, 'a>> {
    let plugins = subject.envoy.plugins();
    plugins.filter_map(|(manager, plugin)| Some((manager, plugin, plugin.settings.as_ref().ok()?)))
}

fn configuration(plugin: &Plugin<'_>, found: String) -> Option<Spot> {
    Some(plugin.config.get("configuration")?.spot(found))
}

fn client_peer(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, _, settings) in readable(subject) {
        let place = &manager.place;
        let detected = !place.items("original_ip_detection_extensions").is_empty();
        let trusted = place.is_true("use_remote_address") || detected;
        if settings.client == Some(ClientSource::Peer) && !trusted {
            spots.push(place.lacks("use_remote_address"));
        }
    }
    spots
}

/// The filters that a request meets before Berth's.
fn before<'m, 'a>(
    manager: &'m Manager<'a>,
    plugin: &Plugin<'a>,
) -> impl Iterator<Item = &'m Place<'a>> {
    manager.filters.iter().take(plugin.index)
}

fn client_header(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin, settings) in readable(subject) {
        let Some(ClientSource::Header(name)) = &settings.client else {
            continue;
        };
        let early = manager.place.get("early_header_mutation_extensions");
        let set = before(manager, plugin)
            .chain(early.as_ref())
            .any(|it| it.mentions(name));
        if !set {
            let found = format!("takes clients from the header {name}, which no filter sets");
            spots.extend(configuration(plugin, found));
        }
    }
    spots
}

fn client_metadata(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin, settings) in readable(subject) {
        let Some(ClientSource::Metadata { filter, .. }) = &settings.client else {
            continue;
        };
        // Whatever it is called in the list, its type has the last part of the name.
        let kind = filter.rsplit('.').next().unwrap_or(filter);
        if !before(manager, plugin).any(|it| it.mentions(kind)) {
            let found = format!("takes clients from {filter}, which does not run before it");
            spots.extend(configuration(plugin, found));
        }
    }
    spots
}

fn no_client(subject: &Subject<'_>) -> Vec<Spot> {
    let Some((_, sidecar)) = subject.sidecar() else {
        return Vec::new();
    };
    let limits = |filter: &FilterConfig| {
        let policy = sidecar.pools.get(&filter.pool)?;
        Some(policy.client.max_concurrent > 0 || policy.client.rate.is_some())
    };
    let unnamed = readable(subject)
        .filter(|(_, _, filter)| filter.client.is_none() && limits(filter) == Some(true));
    let spot = |(_, plugin, filter): Found<'_, '_>| {
        configuration(
            plugin,
            format!("has no client; the pool {} limits each", filter.pool),
        )
    };
    unnamed.filter_map(spot).collect()
}

fn unknown_pool(subject: &Subject<'_>) -> Vec<Spot> {
    let Some((file, sidecar)) = subject.sidecar() else {
        return Vec::new();
    };
    // A pool may have been made by `berth policy set` as well.
    let made = |filter: &FilterConfig| {
        (subject.redis.iter()).any(|redis| redis.pools.contains(&filter.pool))
    };
    let unknown = readable(subject)
        .filter(|(_, _, filter)| !sidecar.pools.contains_key(&filter.pool) && !made(filter));
    let spot = |(_, plugin, filter): Found<'_, '_>| {
        let found = format!(
            "asks for the pool {}, which is not in {}",
            filter.pool, file.file
        );
        configuration(plugin, found)
    };
    unknown.filter_map(spot).collect()
}

fn outage_allow(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin, settings) in readable(subject) {
        if settings.on_outage == OnOutage::Allow {
            let marked = manager
                .routes
                .iter()
                .any(|it| it.place.mentions("x-berth-fallback"));
            let found = if marked {
                "has on_outage allow"
            } else {
                "has on_outage allow, and no route matches x-berth-fallback"
            };
            spots.extend(configuration(plugin, found.to_owned()));
        }
    }
    spots
}

fn admin_open(subject: &Subject<'_>) -> Vec<Spot> {
    let open = |admin: &Place<'_>| {
        let address = admin.find("address.socket_address.address")?;
        let ip = address.value.as_str()?;
        let loopback = ip == "localhost"
            || ip
                .parse()
                .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        (!loopback).then(|| address.spot(format!("is {ip}")))
    };
    subject.envoy.admins.iter().filter_map(open).collect()
}
