//! docker/: what the images carry is what is shipped and checked.

use harness::envoy::validate;
use harness::paths;
use serde_json::{Value, json};
use std::process::Command;

fn yaml(file: &str) -> Value {
    let text = std::fs::read_to_string(paths::top().join(file)).unwrap();
    match serde_saphyr::from_str(&text) {
        Ok(value) => value,
        Err(error) => panic!("{file}: {error}"),
    }
}

fn list<'a>(value: &'a mut Value, name: &str) -> &'a mut Vec<Value> {
    value[name].as_array_mut().expect("a list")
}

fn named<'a>(items: &'a mut [Value], name: &str) -> &'a mut Value {
    let item = items.iter_mut().find(|item| item["name"] == name);
    item.unwrap_or_else(|| panic!("nothing is named {name}"))
}

fn manager(config: &mut Value) -> &mut Value {
    &mut config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
}

/// Takes out of both what is to differ; what remains is equal.
fn without_differences(mut config: Value) -> Value {
    config.as_object_mut().unwrap().remove("node");
    let berth = manager(&mut config);
    let routes = list(&mut berth["route_config"]["virtual_hosts"][0], "routes");
    let unleased = named(routes, "unleased").as_object_mut().unwrap();
    unleased.retain(|field, _| field == "name" || field == "match");
    let plugin = &mut named(list(berth, "http_filters"), "berth")["typed_config"]["config"];
    plugin["vm_config"]["code"]["local"]["filename"] = json!("the filter");
    plugin["configuration"]["value"] = json!("its settings");
    let statics = &mut config["static_resources"];
    statics["listeners"][0]["address"] = json!("any");
    list(statics, "listeners").truncate(1);
    let clusters = list(statics, "clusters");
    clusters.retain(|cluster| cluster["name"] != "passthrough" && cluster["name"] != "admin");
    let sidecar = named(clusters, "berth_sidecar");
    sidecar["type"] = json!("any");
    sidecar["load_assignment"] = json!("any");
    let sidecar = sidecar.as_object_mut().unwrap();
    sidecar.retain(|field, _| !field.starts_with("dns_"));
    let protocol = &mut sidecar["typed_extension_protocol_options"];
    let protocol = protocol
        .as_object_mut()
        .unwrap()
        .values_mut()
        .next()
        .unwrap();
    protocol["explicit_http_config"]["http2_protocol_options"] = json!({});
    config
}

#[test]
fn envoy_in_the_image_is_the_shipped_one_but_for_addresses() {
    let ours = without_differences(yaml("docker/envoy.yaml"));
    assert_eq!(ours, without_differences(yaml("envoy/envoy.yaml")));
}

#[test]
fn envoy_accepts_the_image_s_file() {
    let mut config = yaml("docker/envoy.yaml");
    let plugin = list(manager(&mut config), "http_filters");
    let plugin = &mut named(plugin, "berth")["typed_config"]["config"];
    let filename = &mut plugin["vm_config"]["code"]["local"]["filename"];
    assert_eq!(*filename, "/usr/local/lib/berth/filter.wasm");
    *filename = json!(paths::filter_wasm());
    assert_eq!(validate(&config), Ok(()));
}

/// .dockerignore lets through only what it names.
#[test]
fn what_builds_the_images_is_sent_to_the_engine() {
    let read = |file: &str| std::fs::read_to_string(paths::top().join(file)).unwrap();
    let (builds, sent) = (read("docker/build.sh"), read(".dockerignore"));
    let words = builds.split(|letter: char| letter.is_whitespace() || letter == '"');
    let scripts: Vec<&str> = words.filter(|word| word.starts_with("scripts/")).collect();
    assert!(scripts.len() >= 2, "{scripts:?}");
    for script in scripts {
        // A comment names one that runs outside.
        let outside = script.starts_with("scripts/images.sh");
        assert!(
            outside || sent.contains(&format!("!/{script}\n")),
            "{script}"
        );
    }
}

#[test]
fn berth_check_finds_nothing_in_the_images_files() {
    let checked = Command::new(paths::program("berth"))
        .args(["check", "--offline", "--envoy", "docker/envoy.yaml"])
        .args(["--config", "docker/berth.toml"])
        .current_dir(paths::top())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{said}");
    assert!(said.contains(": 0 errors, 0 warnings"), "{said}");
}
