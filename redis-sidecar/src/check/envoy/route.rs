//! Routes, with what they inherit.

use super::super::place::Place;
use super::Plugin;

/// The filter state by which Envoy 1.37 and later are told the address, and the header for those before.
const ORIGINAL_DST_STATE: &str = "envoy.network.transport_socket.original_dst_address";
const ORIGINAL_DST_HEADER: &str = "x-envoy-original-dst-host";

#[derive(Debug)]
pub(in crate::check) struct Route<'a> {
    pub(in crate::check) place: Place<'a>,
    pub(in crate::check) virtual_host: Place<'a>,
    pub(in crate::check) config: Place<'a>,
}

impl<'a> Route<'a> {
    pub(super) fn read(config: Place<'a>) -> Vec<Self> {
        let mut routes = Vec::new();
        for virtual_host in config.items("virtual_hosts") {
            for place in virtual_host.items("routes") {
                routes.push(Self {
                    place,
                    virtual_host: virtual_host.clone(),
                    config: config.clone(),
                });
            }
        }
        routes
    }

    /// The route, its virtual host and its configuration: the nearest first.
    pub(in crate::check) fn levels(&self) -> [&Place<'a>; 3] {
        [&self.place, &self.virtual_host, &self.config]
    }

    /// The clusters that requests of this route may go to.
    pub(in crate::check) fn clusters(&self) -> Vec<&'a str> {
        let weighted = self.place.items("route.weighted_clusters.clusters");
        let weighted = weighted.iter().filter_map(|cluster| cluster.text("name"));
        self.place
            .text("route.cluster")
            .into_iter()
            .chain(weighted)
            .collect()
    }

    /// Where a header of the request says which cluster it goes to.
    pub(in crate::check) fn cluster_headers(&self) -> Vec<Place<'a>> {
        let weighted = self.place.items("route.weighted_clusters.clusters");
        let weighted = weighted.iter().filter_map(|it| it.get("cluster_header"));
        let own = self.place.find("route.cluster_header");
        own.into_iter().chain(weighted).collect()
    }

    /// Whether only requests get here for which the filter named an address.
    pub(in crate::check) fn asks_for_address(&self, plugin: &Plugin<'a>) -> bool {
        let settings = plugin.settings.as_ref().ok();
        let header = settings.map_or("x-berth-address", |settings| &settings.address_header);
        let states = self.place.items("match.filter_state");
        let headers = self.place.items("match.headers");
        let named = |matcher: &Place<'a>| {
            let name = matcher.text("name").unwrap_or_default();
            let absent = matcher
                .get("present_match")
                .is_some_and(|it| it.value.as_bool() == Some(false));
            let known =
                name.eq_ignore_ascii_case(header) || name.eq_ignore_ascii_case(ORIGINAL_DST_HEADER);
            known && !absent && !matcher.is_true("invert_match")
        };
        states
            .iter()
            .any(|state| state.text("key") == Some(ORIGINAL_DST_STATE))
            || headers.iter().any(named)
    }

    /// What a filter is told on this route, at each level that says something.
    pub(in crate::check) fn told(&self, filter: &str) -> Vec<Place<'a>> {
        let levels = self.levels().into_iter();
        levels
            .filter_map(|level| level.get("typed_per_filter_config")?.get(filter))
            .collect()
    }

    /// Whether a header is taken away before Envoy's router looks at the request.
    pub(in crate::check) fn removes(&self, header: &str) -> bool {
        let removed = |level: &&Place<'a>| {
            let names = level.items("request_headers_to_remove");
            names.iter().any(|name| {
                name.value
                    .as_str()
                    .is_some_and(|it| it.eq_ignore_ascii_case(header))
            })
        };
        self.levels().iter().any(removed)
    }
}
