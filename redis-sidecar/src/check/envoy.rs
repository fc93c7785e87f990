//! What Envoy's files say, as far as Berth is concerned: listeners, routes, clusters, and where the filter
//! is. Bootstrap files are read, and files of resources (LDS, CDS, RDS).

mod plugin;
mod route;

pub(super) use plugin::Plugin;
pub(super) use route::Route;

use super::place::Place;

/// `Cluster.DiscoveryType`, by number.
const CLUSTER_TYPES: [&str; 5] = ["STATIC", "STRICT_DNS", "LOGICAL_DNS", "EDS", "ORIGINAL_DST"];

#[derive(Debug, Default)]
pub(super) struct Envoy<'a> {
    pub(super) files: Vec<&'a str>,
    pub(super) admins: Vec<Place<'a>>,
    pub(super) managers: Vec<Manager<'a>>,
    /// Clusters that TCP goes to without any HTTP filter.
    pub(super) tcp_proxies: Vec<Place<'a>>,
    clusters: Vec<Place<'a>>,
    /// Clusters come from elsewhere too, so one that is not here may be there.
    discovers_clusters: bool,
    listeners: Vec<Place<'a>>,
    route_configs: Vec<Place<'a>>,
}

/// One HttpConnectionManager.
#[derive(Debug)]
pub(super) struct Manager<'a> {
    pub(super) place: Place<'a>,
    pub(super) listener: Place<'a>,
    pub(super) filters: Vec<Place<'a>>,
    pub(super) plugins: Vec<Plugin<'a>>,
    pub(super) routes: Vec<Route<'a>>,
}

impl<'a> Envoy<'a> {
    pub(super) fn read(files: impl Iterator<Item = (&'a str, &'a serde_json::Value)>) -> Self {
        let mut envoy = Self::default();
        for (file, value) in files {
            envoy.files.push(file);
            envoy.collect(&Place::root(file, value));
        }
        for listener in std::mem::take(&mut envoy.listeners) {
            envoy.read_listener(&listener);
        }
        envoy
    }

    /// A resource is known by what it has: its `@type` is left out in a bootstrap file.
    fn collect(&mut self, place: &Place<'a>) {
        self.discovers_clusters |= place.find("dynamic_resources.cds_config").is_some();
        self.admins.extend(place.get("admin"));
        for list in ["static_resources.listeners", "static_resources.clusters"] {
            place.items(list).iter().for_each(|item| self.collect(item));
        }
        for resource in place.items("resources").into_iter().chain(place.elements()) {
            self.collect(&resource.get("resource").unwrap_or(resource));
        }
        let has = |names: &[&str]| names.iter().any(|name| place.get(name).is_some());
        if has(&["filter_chains", "default_filter_chain", "api_listener"]) {
            self.listeners.push(place.clone());
        } else if has(&["virtual_hosts"]) {
            self.route_configs.push(place.clone());
        } else if has(&["name"])
            && has(&["load_assignment", "connect_timeout", "lb_policy", "type"])
        {
            self.clusters.push(place.clone());
        }
    }

    fn read_listener(&mut self, listener: &Place<'a>) {
        let mut chains = listener.items("filter_chains");
        chains.extend(listener.get("default_filter_chain"));
        for filter in chains.iter().flat_map(|chain| chain.items("filters")) {
            match filter.typed_config() {
                Some(("HttpConnectionManager", place)) => {
                    let manager = self.manager(place, listener);
                    self.managers.push(manager);
                }
                Some(("TcpProxy", place)) => self.tcp_proxies.push(place),
                Some(_) | None => {}
            }
        }
    }

    fn manager(&self, place: Place<'a>, listener: &Place<'a>) -> Manager<'a> {
        let filters = place.items("http_filters");
        let plugins = (filters.iter().enumerate())
            .filter_map(|(index, filter)| Plugin::read(index, filter))
            .collect();
        let elsewhere = || {
            let name = place.text("rds.route_config_name")?;
            let mut configs = self.route_configs.iter();
            configs
                .find(|config| config.text("name") == Some(name))
                .cloned()
        };
        let route_config = place.get("route_config").or_else(elsewhere);
        Manager {
            routes: route_config.map(Route::read).unwrap_or_default(),
            listener: listener.clone(),
            filters,
            plugins,
            place,
        }
    }

    /// Every place where the filter is, with the manager it is in.
    pub(super) fn plugins(&self) -> impl Iterator<Item = (&Manager<'a>, &Plugin<'a>)> {
        let managers = self.managers.iter();
        managers.flat_map(|manager| manager.plugins.iter().map(move |plugin| (manager, plugin)))
    }

    pub(super) fn cluster(&self, name: &str) -> Option<&Place<'a>> {
        self.clusters
            .iter()
            .find(|cluster| cluster.text("name") == Some(name))
    }

    /// Whether a cluster that is not in these files is nowhere.
    pub(super) fn knows_all_clusters(&self) -> bool {
        !self.discovers_clusters && !self.clusters.is_empty()
    }

    pub(super) fn is_original_dst(&self, cluster: &str) -> bool {
        self.cluster(cluster)
            .and_then(|cluster| cluster.word("type", &CLUSTER_TYPES))
            .is_some_and(|kind| kind == "ORIGINAL_DST")
    }

    /// Routes of this manager that lead to workers: those that ask whether an address was named, and
    /// all others to the same clusters.
    pub(super) fn leased_routes<'m>(
        &self,
        manager: &'m Manager<'a>,
        plugin: &Plugin<'a>,
    ) -> Vec<&'m Route<'a>> {
        let workers = self.worker_clusters(manager, plugin);
        let leads = |route: &&Route<'a>| route.clusters().iter().any(|it| workers.contains(it));
        manager.routes.iter().filter(leads).collect()
    }

    /// The names of the clusters that requests with a lease are routed to.
    pub(super) fn worker_clusters(
        &self,
        manager: &Manager<'a>,
        plugin: &Plugin<'a>,
    ) -> Vec<&'a str> {
        let asks = |route: &&Route<'a>| route.asks_for_address(plugin);
        let asked = manager.routes.iter().filter(asks);
        let mut workers: Vec<&str> = asked.flat_map(|route| route.clusters()).collect();
        let all = manager.routes.iter().flat_map(|route| route.clusters());
        workers.extend(all.filter(|cluster| self.is_original_dst(cluster)));
        workers.sort_unstable();
        workers.dedup();
        workers
    }
}
