//! The cluster of the workers.

use crate::check::place::{Place, Spot};
use crate::check::rule::About::Envoy;
use crate::check::rule::Severity::{Error, Warning};
use crate::check::rule::{Rule, Subject};
use admission::config::RouteBy;
use admission::policy::Policy;

pub(in crate::check) const RULES: &[Rule] = &[
    Rule {
        id: "worker-cluster",
        severity: Error,
        about: Envoy,
        why: "The filter's route_by and Envoy's routes do not fit together: what has a lease does not reach the worker that was chosen.",
        instead: "Take routes and the cluster berth_workers from envoy/envoy.yaml (original_dst) or envoy/stateful-session.yaml.",
        find: worker_cluster,
    },
    Rule {
        id: "header-routing",
        severity: Warning,
        about: Envoy,
        why: "The cluster obeys a header, which only Envoy before 1.37 needs; the filter removes a client's own, but each way around the filter would let clients choose any address.",
        instead: "Write use_http_header: false, and let the route match filter_state.",
        find: header_routing,
    },
    Rule {
        id: "custom-header",
        severity: Error,
        about: Envoy,
        why: "The cluster obeys a header of another name, which the filter neither sets nor removes: clients choose their destination.",
        instead: "Leave http_header_name out.",
        find: custom_header,
    },
    Rule {
        id: "port-override",
        severity: Error,
        about: Envoy,
        why: "Every worker is reached at this port, whatever port it registered: sessions come to others than those that were chosen.",
        instead: "Leave upstream_port_override out.",
        find: port_override,
    },
    Rule {
        id: "connection-reuse",
        severity: Warning,
        about: Envoy,
        why: "Plain requests share connections here: a worker that was started anew is judged, and ejected, by what happens to a connection of its former life.",
        instead: "Write max_requests_per_connection: 1 in the cluster's common_http_protocol_options.",
        find: connection_reuse,
    },
    Rule {
        id: "circuit-breakers",
        severity: Warning,
        about: Envoy,
        why: "Envoy's own limits, 1024 of each for every proxy, get in the way: of sessions that have a place, or of questions to the sidecar.",
        instead: "Write max_connections, max_pending_requests and max_requests of 1000000, as in envoy/envoy.yaml.",
        find: circuit_breakers,
    },
    Rule {
        id: "worker-timeout",
        severity: Warning,
        about: Envoy,
        why: "A worker that swallows connections is ejected when the first of them fails. A client that was sent there just before fails when the exile is over already, and comes to the same worker again.",
        instead: "Let the connect_timeout of the workers' cluster be shorter than the pool's ejection_ms: 0.5s and 1000.",
        find: worker_timeout,
    },
];

/// What Envoy waits where nothing is written.
const CONNECT_TIMEOUT_MS: f64 = 5000.0;

/// Where HTTP options of a cluster stand.
const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// The clusters of workers that are in these files.
fn clusters<'m>(subject: &'m Subject<'m>) -> Vec<&'m Place<'m>> {
    let plugins = subject.envoy.plugins();
    let names =
        plugins.flat_map(|(manager, plugin)| subject.envoy.worker_clusters(manager, plugin));
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    let known = names
        .into_iter()
        .filter_map(|name| subject.envoy.cluster(name));
    known.collect()
}

fn worker_cluster(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin) in subject.envoy.plugins() {
        // Routes that come from elsewhere are not judged.
        if plugin.settings.is_err() || manager.routes.is_empty() {
            continue;
        }
        let workers = subject.envoy.worker_clusters(manager, plugin);
        if workers.is_empty() {
            let routes = manager.place.get("route_config");
            let place = routes.as_ref().unwrap_or(&manager.place);
            spots.push(place.spot("has no route that asks whether the filter named an address"));
        }
        for name in workers {
            let Some(cluster) = subject.envoy.cluster(name) else {
                continue;
            };
            let follows = subject.envoy.is_original_dst(name);
            if plugin.routes_by(RouteBy::OriginalDst) != follows {
                let fits = if follows { "is" } else { "is not" };
                spots.push(cluster.spot(format!("{fits} of the type ORIGINAL_DST")));
            }
        }
    }
    spots
}

fn each(subject: &Subject<'_>, find: impl Fn(&Place<'_>) -> Option<Spot>) -> Vec<Spot> {
    clusters(subject).into_iter().filter_map(find).collect()
}

fn header_routing(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |cluster| {
        let header = cluster.find("original_dst_lb_config.use_http_header")?;
        let obeys = header.value.as_bool() == Some(true) && custom_name(cluster).is_none();
        obeys.then(|| header.spot("is true"))
    })
}

fn custom_header(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |cluster| {
        let header = custom_name(cluster)?;
        Some(header.spot(format!("is {}", header.value)))
    })
}

fn custom_name<'a>(cluster: &Place<'a>) -> Option<Place<'a>> {
    let header = cluster.find("original_dst_lb_config.http_header_name")?;
    let name = header.value.as_str().unwrap_or_default();
    let usual = name.is_empty() || name.eq_ignore_ascii_case("x-envoy-original-dst-host");
    (!usual).then_some(header)
}

fn port_override(subject: &Subject<'_>) -> Vec<Spot> {
    each(subject, |cluster| {
        let port = cluster.find("original_dst_lb_config.upstream_port_override")?;
        Some(port.spot(format!("is {}", port.value)))
    })
}

fn connection_reuse(subject: &Subject<'_>) -> Vec<Spot> {
    let mut plugins = subject.envoy.plugins();
    if !plugins.any(|(_, plugin)| plugin.settings.is_ok() && !plugin.admits_upgrades_only()) {
        return Vec::new();
    }
    each(subject, |cluster| {
        let options = cluster.get("typed_extension_protocol_options");
        let options = options.and_then(|options| options.get(HTTP_OPTIONS));
        let most = options
            .as_ref()
            .and_then(|it| it.find("common_http_protocol_options.max_requests_per_connection"));
        match most {
            Some(most) if most.value.as_u64() == Some(1) => None,
            Some(most) => Some(most.spot(format!("is {}", most.value))),
            None => Some(cluster.lacks("typed_extension_protocol_options")),
        }
    })
}

fn circuit_breakers(subject: &Subject<'_>) -> Vec<Spot> {
    let plugins = subject.envoy.plugins();
    let sidecars = plugins.filter_map(|(_, plugin)| {
        let settings = plugin.settings.as_ref().ok()?;
        subject.envoy.cluster(&settings.sidecar)
    });
    let mut all: Vec<&Place<'_>> = clusters(subject).into_iter().chain(sidecars).collect();
    all.dedup_by_key(|cluster| cluster.path.clone());
    let raised = |threshold: &Place<'_>| {
        let priority = threshold.text("priority").unwrap_or("DEFAULT");
        let all = ["max_connections", "max_pending_requests", "max_requests"];
        priority == "DEFAULT" && all.iter().all(|name| threshold.get(name).is_some())
    };
    all.into_iter()
        .filter(|cluster| {
            !cluster
                .items("circuit_breakers.thresholds")
                .iter()
                .any(raised)
        })
        .map(|cluster| cluster.lacks("circuit_breakers.thresholds"))
        .collect()
}

fn worker_timeout(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin) in subject.envoy.plugins() {
        let Ok(filter) = &plugin.settings else {
            continue;
        };
        let pools = subject.sidecar().map(|(_, settings)| &settings.pools);
        let policy = pools.and_then(|pools| pools.get(&filter.pool));
        let exile_ms = policy.map_or(Policy::default().ejection_ms, |policy| policy.ejection_ms);
        let names = subject.envoy.worker_clusters(manager, plugin);
        for cluster in names
            .into_iter()
            .filter_map(|name| subject.envoy.cluster(name))
        {
            let timeout_ms = cluster.duration_ms("connect_timeout");
            if timeout_ms.unwrap_or(CONNECT_TIMEOUT_MS) < exile_ms as f64 {
                continue;
            }
            spots.push(match (timeout_ms, cluster.get("connect_timeout")) {
                (Some(ms), Some(place)) => {
                    place.spot(format!("is {ms} ms; ejection_ms is {exile_ms}"))
                }
                (None, Some(place)) => place.spot("is no duration"),
                (_, None) => cluster.lacks("connect_timeout"),
            });
        }
    }
    spots.dedup();
    spots
}
