//! One real Envoy, with the configuration that is shipped: only addresses, names and the filter's
//! own settings are replaced.

use crate::client::Client;
use crate::http::{self, Target};
use crate::paths;
use crate::process::Process;
use crate::wait::eventually;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Which of the shipped configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteBy {
    OriginalDst,
    StatefulSession,
}

impl RouteBy {
    fn file(self) -> &'static str {
        match self {
            Self::OriginalDst => "envoy.yaml",
            Self::StatefulSession => "stateful-session.yaml",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub name: String,
    pub route_by: RouteBy,
    pub listen: SocketAddr,
    /// A second listener, without Berth: Envoy's own LEAST_REQUEST chooses among `workers`.
    pub least_request: Option<SocketAddr>,
    pub admin: SocketAddr,
    pub sidecar: Target,
    /// Where requests without a lease go.
    pub passthrough: SocketAddr,
    /// The members of the worker cluster, where Envoy must know them.
    pub workers: Vec<SocketAddr>,
    pub concurrency: u32,
}

#[derive(Debug)]
pub struct Envoy {
    pub process: Process,
    settings: Settings,
}

impl Envoy {
    /// `adjust` may change the filter's settings.
    pub fn start(settings: Settings, adjust: impl FnOnce(&mut Value), directory: &Path) -> Self {
        let name = &settings.name;
        let file = directory.join(format!("{name}.json"));
        let config = configuration(&settings, adjust);
        if let Err(error) = std::fs::write(&file, format!("{config:#}")) {
            panic!("{}: {error}", file.display());
        }
        let mut command = Command::new(paths::envoy());
        command
            .arg("--config-path")
            .arg(&file)
            .args(["--concurrency", &settings.concurrency.to_string()])
            // Several Envoys on one machine would otherwise fight over one shared memory region.
            .arg("--disable-hot-restart")
            .args(["--log-level", "warning"])
            .current_dir(directory);
        let process = Process::start(name, &mut command, directory.join(format!("{name}.log")));
        Self { process, settings }
    }

    pub fn listen(&self) -> SocketAddr {
        self.settings.listen
    }

    /// The listener without Berth, if there is one.
    pub fn least_request(&self) -> Option<SocketAddr> {
        self.settings.least_request
    }

    pub fn admin(&self) -> SocketAddr {
        self.settings.admin
    }

    pub fn client(&self) -> Client {
        Client::new(self.settings.listen)
    }

    pub async fn ready(&self) {
        let admin = Target::from(self.settings.admin);
        let what = format!("{} says it is ready", self.settings.name);
        eventually(&what, async || {
            self.process.expect_running();
            http::get(&admin, "/ready")
                .await
                .is_ok_and(|answer| answer.status() == 200)
        })
        .await;
    }

    /// Every counter and gauge whose name contains `part`.
    pub async fn stats(&self, part: &str) -> Vec<(String, u64)> {
        let answer = http::get(&Target::from(self.settings.admin), "/stats").await;
        let text = answer.map(|answer| String::from_utf8_lossy(answer.body()).into_owned());
        let text = text.unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.rsplit_once(": "));
        pairs
            .filter(|(name, _)| name.contains(part))
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
            .collect()
    }

    /// The sum of all counters and gauges whose name contains `part`.
    pub async fn stat(&self, part: &str) -> u64 {
        self.stats(part)
            .await
            .into_iter()
            .map(|(_, value)| value)
            .sum()
    }
}

fn configuration(settings: &Settings, adjust: impl FnOnce(&mut Value)) -> Value {
    let file = paths::top().join("envoy").join(settings.route_by.file());
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => panic!("{}: {error}", file.display()),
    };
    let mut config: Value = match serde_saphyr::from_str(&text) {
        Ok(config) => config,
        Err(error) => panic!("{}: {error}", file.display()),
    };
    config["node"]["id"] = json!(settings.name);
    config["admin"]["address"] = socket(settings.admin);
    let statics = &mut config["static_resources"];
    statics["listeners"][0]["address"] = socket(settings.listen);
    let clusters = &mut statics["clusters"];
    set_endpoints(clusters, "berth_sidecar", vec![door(&settings.sidecar)]);
    set_endpoints(clusters, "passthrough", vec![socket(settings.passthrough)]);
    if settings.route_by == RouteBy::StatefulSession {
        let workers = settings.workers.iter().copied().map(socket).collect();
        set_endpoints(clusters, "berth_workers", workers);
    }
    if let Some(listen) = settings.least_request {
        add_least_request(statics, listen, &settings.workers);
    }
    let manager = manager(&mut statics["listeners"][0]);
    let filter = named(&mut manager["http_filters"], "berth");
    let plugin = &mut filter["typed_config"]["config"];
    let filename = &mut plugin["vm_config"]["code"]["local"]["filename"];
    // It is replaced, so no Envoy here would notice a shipped path that leads nowhere.
    assert_eq!(
        *filename,
        paths::shipped_filter_wasm(),
        "{}",
        file.display()
    );
    *filename = json!(paths::filter_wasm());
    adjust_plugin(&mut plugin["configuration"]["value"], adjust);
    config
}

fn manager(listener: &mut Value) -> &mut Value {
    &mut listener["filter_chains"][0]["filters"][0]["typed_config"]
}

/// What Berth is compared with: the shipped listener without its filter, before an ordinary cluster
/// that keeps its connections, as it would be without Berth.
fn add_least_request(statics: &mut Value, listen: SocketAddr, workers: &[SocketAddr]) {
    const NAME: &str = "least_request";
    let mut listener = statics["listeners"][0].clone();
    listener["name"] = json!(NAME);
    listener["address"] = socket(listen);
    let manager = manager(&mut listener);
    let router = named(&mut manager["http_filters"], "envoy.filters.http.router").clone();
    manager["http_filters"] = json!([router]);
    manager["route_config"]["virtual_hosts"][0]["routes"] =
        json!([{"match": {"prefix": "/"}, "route": {"cluster": NAME}}]);
    let cluster = json!({
        "name": NAME,
        "type": "STATIC",
        "lb_policy": "LEAST_REQUEST",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": NAME},
    });
    push(&mut statics["listeners"], listener);
    push(&mut statics["clusters"], cluster);
    let workers = workers.iter().copied().map(socket).collect();
    set_endpoints(&mut statics["clusters"], NAME, workers);
}

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => panic!("the shipped configuration has no list where it should"),
    }
}

/// The plugin's configuration is JSON inside a string.
fn adjust_plugin(text: &mut Value, adjust: impl FnOnce(&mut Value)) {
    let parsed = text.as_str().map(serde_json::from_str::<Value>);
    let Some(Ok(mut plugin)) = parsed else {
        panic!("the plugin configuration is not JSON: {text}");
    };
    adjust(&mut plugin);
    *text = json!(plugin.to_string());
}

fn named<'a>(list: &'a mut Value, name: &str) -> &'a mut Value {
    let items = list.as_array_mut().into_iter().flatten();
    match items.into_iter().find(|item| item["name"] == name) {
        Some(item) => item,
        None => panic!("the shipped configuration has nothing named {name} where it should"),
    }
}

fn socket(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip(), "port_value": address.port()}})
}

fn door(sidecar: &Target) -> Value {
    match sidecar {
        Target::Unix(path) => json!({"pipe": {"path": path}}),
        Target::Tcp(authority) => match authority.parse() {
            Ok(address) => socket(address),
            Err(error) => panic!("{authority}: {error}"),
        },
    }
}

fn set_endpoints(clusters: &mut Value, name: &str, addresses: Vec<Value>) {
    let endpoint = |address: Value| json!({"endpoint": {"address": address}});
    let endpoints: Vec<Value> = addresses.into_iter().map(endpoint).collect();
    named(clusters, name)["load_assignment"]["endpoints"] = json!([{"lb_endpoints": endpoints}]);
}
