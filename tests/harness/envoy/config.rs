//! The shipped configuration, with the addresses of one test.

use super::{Filter, RouteBy, Settings};
use crate::http::Target;
use crate::paths;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;

pub(super) fn configuration(settings: &Settings, adjust: impl FnOnce(&mut Value)) -> Value {
    let file = paths::top().join("envoy").join(settings.route_by.file());
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => panic!("{}: {error}", file.display()),
    };
    let parse = |text: &str| -> Value {
        match serde_saphyr::from_str(text) {
            Ok(config) => config,
            Err(error) => panic!("{}: {error}", file.display()),
        }
    };
    let mut config = parse(&text);
    if settings.route_by == RouteBy::LuaFilter {
        set_addresses(&mut config, settings);
        adjust_constants(lua_code_of(&mut config), adjust);
        return config;
    }
    let plugin = adjusted_plugin(plugin_of(&mut config), adjust);
    let falls_back = plugin["on_outage"] == "allow";
    if falls_back {
        config = parse(&with_fallback(&text));
    }
    set_addresses(&mut config, settings);
    let statics = &mut config["static_resources"];
    let clusters = &mut statics["clusters"];
    set_endpoints(clusters, "passthrough", vec![socket(settings.passthrough)]);
    if falls_back {
        // The same backend: it shows the filter's mark, and Envoy counts by cluster.
        set_endpoints(clusters, "fallback", vec![socket(settings.passthrough)]);
    }
    if let Some(listen) = settings.least_request {
        add_least_request(statics, listen, &settings.workers);
    }
    if settings.verify_tokens {
        let manager = manager(&mut statics["listeners"][0]);
        insert_first(&mut manager["http_filters"], super::tokens::filter());
    }
    let config_of_plugin = plugin_of(&mut config);
    let filename = &mut config_of_plugin["vm_config"]["code"]["local"]["filename"];
    // It is replaced, so no Envoy here would notice a shipped path that leads nowhere.
    assert_eq!(
        *filename,
        paths::shipped_filter_wasm(),
        "{}",
        file.display()
    );
    *filename = match settings.filter {
        Filter::Shipped => json!(paths::filter_wasm()),
        Filter::Poisonable => json!(paths::poison_wasm()),
    };
    config_of_plugin["configuration"]["value"] = json!(plugin.to_string());
    config
}

/// What every shipped configuration has.
fn set_addresses(config: &mut Value, settings: &Settings) {
    config["node"]["id"] = json!(settings.name);
    config["admin"]["address"] = socket(settings.admin);
    let statics = &mut config["static_resources"];
    statics["listeners"][0]["address"] = socket(settings.listen);
    let clusters = &mut statics["clusters"];
    set_endpoints(clusters, "berth_sidecar", vec![door(&settings.sidecar)]);
    if let Some(transport) = &settings.sidecar_transport {
        named(clusters, "berth_sidecar")["transport_socket"] = transport.clone();
    }
    if let Some(spare) = &settings.spare {
        add_spare(named(clusters, "berth_sidecar"), spare);
    }
    if settings.route_by != RouteBy::OriginalDst {
        let workers = settings.workers.iter().copied().map(socket).collect();
        set_endpoints(clusters, "berth_workers", workers);
    }
}

fn lua_code_of(config: &mut Value) -> &mut Value {
    let manager = manager(&mut config["static_resources"]["listeners"][0]);
    let filter = named(&mut manager["http_filters"], "envoy.filters.http.lua");
    &mut filter["typed_config"]["default_source_code"]["inline_string"]
}

fn plugin_of(config: &mut Value) -> &mut Value {
    let manager = manager(&mut config["static_resources"]["listeners"][0]);
    &mut named(&mut manager["http_filters"], "berth")["typed_config"]["config"]
}

/// The shipped text with the route and the cluster that it has in comments, ready to use.
fn with_fallback(text: &str) -> String {
    const FIRST: &str = "#   - name: fallback";
    let mut uncommented = String::new();
    let mut inside = false;
    for line in text.lines() {
        let comment = line.trim_start();
        inside = comment == FIRST || inside && comment.starts_with("#     ");
        let line = if inside {
            line.replacen("#   ", "", 1)
        } else {
            line.to_owned()
        };
        uncommented += &line;
        uncommented.push('\n');
    }
    assert_eq!(uncommented.matches("\n    - name: fallback\n").count(), 1);
    uncommented
}

/// A second sidecar, for the time in which the first fails its health check.
fn add_spare(cluster: &mut Value, spare: &Target) {
    let endpoint = json!({"endpoint": {"address": door(spare)}});
    let endpoints = &mut cluster["load_assignment"]["endpoints"];
    push(
        endpoints,
        json!({"priority": 1, "lb_endpoints": [endpoint]}),
    );
}

/// Moves the listeners out of the configuration, which then says in which file they are.
pub(super) fn take_listeners(config: &mut Value, file: &Path) -> Value {
    let mut listeners = config["static_resources"]["listeners"].take();
    if let Some(statics) = config["static_resources"].as_object_mut() {
        statics.remove("listeners");
    }
    config["dynamic_resources"] = json!({"lds_config": {
        "resource_api_version": "V3",
        "path_config_source": {"path": file},
    }});
    for listener in listeners.as_array_mut().into_iter().flatten() {
        listener["@type"] = json!("type.googleapis.com/envoy.config.listener.v3.Listener");
    }
    json!({"resources": listeners})
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

fn insert_first(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.insert(0, item),
        None => panic!("the shipped configuration has no list where it should"),
    }
}

/// The plugin's configuration is JSON inside a string.
fn adjusted_plugin(plugin: &Value, adjust: impl FnOnce(&mut Value)) -> Value {
    let text = &plugin["configuration"]["value"];
    let parsed = text.as_str().map(serde_json::from_str::<Value>);
    let Some(Ok(mut plugin)) = parsed else {
        panic!("the plugin configuration is not JSON: {text}");
    };
    adjust(&mut plugin);
    plugin
}

/// The Lua filter's settings are lines of its code: `local NAME = 1`, or a text.
fn adjust_constants(code: &mut Value, adjust: impl FnOnce(&mut Value)) {
    let Some(text) = code.as_str() else {
        panic!("the Lua filter has no code: {code}");
    };
    let constant = |line: &str| {
        let (name, value) = line.strip_prefix("local ")?.split_once(" = ")?;
        Some((name.to_owned(), serde_json::from_str::<Value>(value).ok()?))
    };
    let mut constants: Value = text.lines().filter_map(constant).collect();
    let known = constants.as_object().map_or(0, serde_json::Map::len);
    adjust(&mut constants);
    let now = constants.as_object().map_or(0, serde_json::Map::len);
    assert_eq!(known, now, "not all are constants of the code: {constants}");
    let adjusted = text.lines().map(|line| match constant(line) {
        Some((name, _)) => format!("local {name} = {}\n", constants[&name]),
        None => format!("{line}\n"),
    });
    *code = json!(adjusted.collect::<String>());
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
