//! Where requests go, with a lease and without.

use crate::check::envoy::Route;
use crate::check::place::{Place, Spot};
use crate::check::rule::About::Envoy;
use crate::check::rule::Severity::Error;
use crate::check::rule::{Rule, Subject};

pub(in crate::check) const RULES: &[Rule] = &[
    Rule {
        id: "retries",
        severity: Error,
        about: Envoy,
        why: "A second attempt is a second session on the one place that was given, at a worker that may still serve the first.",
        instead: "Leave retry_policy out of the route to the workers and of its virtual host; clients may come again, and get a place of their own.",
        find: retries,
    },
    Rule {
        id: "hedging",
        severity: Error,
        about: Envoy,
        why: "A hedged request goes out twice at once: two sessions on one place.",
        instead: "Leave hedge_policy out of the route to the workers and of its virtual host.",
        find: hedging,
    },
    Rule {
        id: "client-retries",
        severity: Error,
        about: Envoy,
        why: "Clients that Envoy calls internal may ask for retries with a header, x-envoy-retry-on, and get several sessions for one place; without use_remote_address, a forged x-forwarded-for makes anyone internal.",
        instead: "Leave internal_address_config out, or write request_headers_to_remove: [x-envoy-retry-on, x-envoy-retry-grpc-on] in the route to the workers.",
        find: client_retries,
    },
    Rule {
        id: "bypass",
        severity: Error,
        about: Envoy,
        why: "Requests come to the workers on this way without a lease, above every limit.",
        instead: "Let routes to the workers' cluster ask whether an address was named, as in envoy/*.yaml, and lead everything else to another cluster.",
        find: bypass,
    },
    Rule {
        id: "original-dst-listener",
        severity: Error,
        about: Envoy,
        why: "With this listener filter, a request for which no address was named goes to whatever address its client connected to.",
        instead: "Leave the listener filter original_dst out.",
        find: original_dst_listener,
    },
];

fn leased<'m>(subject: &'m Subject<'m>) -> impl Iterator<Item = &'m Route<'m>> {
    let plugins = subject.envoy.plugins();
    plugins.flat_map(|(manager, plugin)| subject.envoy.leased_routes(manager, plugin))
}

/// A policy of each route to workers: its own, or else that of its virtual host.
fn policies<'m>(subject: &'m Subject<'m>, name: &str) -> Vec<Place<'m>> {
    let nearest = |route: &Route<'m>| {
        let own = route.place.get("route").and_then(|action| action.get(name));
        own.or_else(|| route.virtual_host.get(name))
    };
    leased(subject).filter_map(nearest).collect()
}

fn retries(subject: &Subject<'_>) -> Vec<Spot> {
    let never = |policy: &Place<'_>| {
        let retries = policy.get("num_retries").and_then(|it| it.value.as_u64());
        retries == Some(0) || policy.text("retry_on").unwrap_or_default().is_empty()
    };
    let policies = policies(subject, "retry_policy").into_iter();
    let mut spots: Vec<Spot> = policies
        .filter(|policy| !never(policy))
        .map(|policy| {
            let on = policy.text("retry_on").unwrap_or_default();
            policy.spot(format!("retries on {on}"))
        })
        .collect();
    spots.dedup();
    spots
}

fn hedging(subject: &Subject<'_>) -> Vec<Spot> {
    let hedges = |policy: &Place<'_>| {
        let several = |name: &str| policy.get(name).is_some();
        policy.is_true("hedge_on_per_try_timeout")
            || several("initial_requests")
            || several("additional_request_chance")
    };
    let policies = policies(subject, "hedge_policy").into_iter();
    let hedging = policies.filter(hedges);
    let mut spots: Vec<Spot> = hedging.map(|policy| policy.spot("hedges")).collect();
    spots.dedup();
    spots
}

fn client_retries(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (manager, plugin) in subject.envoy.plugins() {
        let Some(internal) = manager.place.get("internal_address_config") else {
            continue;
        };
        let names_some =
            internal.is_true("unix_sockets") || !internal.items("cidr_ranges").is_empty();
        let removed = |route: &&Route<'_>| {
            route.removes("x-envoy-retry-on") && route.removes("x-envoy-retry-grpc-on")
        };
        if names_some
            && !subject
                .envoy
                .leased_routes(manager, plugin)
                .iter()
                .all(removed)
        {
            spots.push(internal.spot("lets clients ask for retries"));
        }
    }
    spots
}

fn bypass(subject: &Subject<'_>) -> Vec<Spot> {
    let envoy = &subject.envoy;
    let plugins = envoy.plugins();
    let workers: Vec<&str> = plugins
        .flat_map(|(manager, plugin)| envoy.worker_clusters(manager, plugin))
        .collect();
    let mut spots = Vec::new();
    for manager in &envoy.managers {
        for route in &manager.routes {
            let asks = manager
                .plugins
                .iter()
                .any(|plugin| route.asks_for_address(plugin));
            let open = |cluster: &&str| {
                workers.contains(cluster)
                    && !is_closed(subject, cluster, manager.plugins.is_empty())
            };
            let clusters = route.clusters();
            if let (false, Some(cluster)) = (asks, clusters.iter().find(|it| open(it))) {
                spots.push(
                    route
                        .place
                        .spot(format!("leads to {cluster} without a lease")),
                );
            }
            if let (false, Some(cluster)) = (asks, workers.iter().find(|it| open(it))) {
                let told = route.cluster_headers().into_iter();
                spots.extend(told.map(|header| named_by(&header, cluster)));
            }
            for mirror in route.place.items("route.request_mirror_policies") {
                if let Some(cluster) = mirror.text("cluster").filter(|it| workers.contains(it)) {
                    spots.push(mirror.spot(format!("sends a copy to {cluster}")));
                }
                if let (Some(header), Some(cluster)) =
                    (mirror.get("cluster_header"), workers.first())
                {
                    spots.push(named_by(&header, cluster));
                }
            }
        }
    }
    for proxy in &envoy.tcp_proxies {
        let weighted = proxy.items("weighted_clusters.clusters");
        let weighted = weighted.iter().filter_map(|cluster| cluster.text("name"));
        let mut clusters = proxy.text("cluster").into_iter().chain(weighted);
        if let Some(cluster) = clusters.find(|it| workers.contains(it)) {
            spots.push(proxy.spot(format!("leads to {cluster} without a lease")));
        }
    }
    spots
}

/// A header that a client may send says where the request goes.
fn named_by(header: &Place<'_>, cluster: &str) -> Spot {
    let name = header.value.as_str().unwrap_or_default();
    header.spot(format!(
        "is {name}: whoever sends that header may name {cluster}, without a lease"
    ))
}

/// Whether a cluster serves nobody for whom no address was named. One of the type ORIGINAL_DST answers
/// 503, unless it obeys a header that no filter removes.
fn is_closed(subject: &Subject<'_>, cluster: &str, unfiltered: bool) -> bool {
    let obeys = |cluster: &Place<'_>| cluster.is_true("original_dst_lb_config.use_http_header");
    let obeys = subject.envoy.cluster(cluster).is_some_and(obeys);
    subject.envoy.is_original_dst(cluster) && !(obeys && unfiltered)
}

fn original_dst_listener(subject: &Subject<'_>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for manager in &subject.envoy.managers {
        let clusters = manager.routes.iter().flat_map(|route| route.clusters());
        let mut clusters = clusters.filter(|cluster| subject.envoy.is_original_dst(cluster));
        let filters = manager.listener.items("listener_filters");
        let original = filters.iter().find(|filter| {
            let typed = filter.typed_config();
            typed.is_some_and(|(kind, _)| kind == "OriginalDst")
                || filter.text("name") == Some("envoy.filters.listener.original_dst")
        });
        if let (Some(filter), Some(cluster)) = (original, clusters.next()) {
            spots.push(filter.spot(format!("leads around the filter to {cluster}")));
        }
    }
    spots.dedup();
    spots
}
