//! A door of the sidecar that asks who comes, as docs/listeners.md shows it.

use crate::{certificates, docs};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Where the examples have their files.
const SHOWN_DIRECTORY: &str = "/etc/berth";

#[derive(Debug)]
pub(super) struct Guarded {
    sidecar: Value,
    /// Of Envoy's cluster that leads to the sidecar.
    pub(super) transport: Option<Value>,
    pub(super) filter: Value,
    directory: PathBuf,
}

impl Guarded {
    /// Takes the example of this name, and makes the files that it names.
    pub(super) fn of(name: &str, directory: &Path) -> Self {
        if let Err(error) = certificates::write(directory, &["berth", "envoy"]) {
            panic!("certificates: {error}");
        }
        let here = |text: String| text.replace(SHOWN_DIRECTORY, &directory.display().to_string());
        let block = |language| docs::block("docs/listeners.md", name, language).map(here);
        let sidecar = block("toml").map(|text| toml::from_str(&text));
        let Some(Ok(sidecar)) = sidecar else {
            panic!("docs/listeners.md has no settings {name}: {sidecar:?}");
        };
        let transport = block("yaml").map(|text| match serde_saphyr::from_str::<Value>(&text) {
            Ok(config) => config["transport_socket"].clone(),
            Err(error) => panic!("the example {name} is not YAML: {error}"),
        });
        let filter = block("json").map_or(json!({}), |text| match serde_json::from_str(&text) {
            Ok(filter) => filter,
            Err(error) => panic!("the example {name} is not JSON: {error}"),
        });
        let guarded = Self {
            sidecar,
            transport,
            filter,
            directory: directory.to_owned(),
        };
        guarded.write_tokens();
        guarded
    }

    /// Whether it is for workers; else it is for Envoys.
    pub(super) fn serves_workers(&self) -> bool {
        self.sidecar["listeners"][0]["serves"] == json!(["worker"])
    }

    fn write_tokens(&self) {
        let filter = self.filter["sidecar_token"].as_str();
        for (name, token) in [("filter", filter), ("browsers", Some(WORKER_TOKEN))] {
            let file = self.directory.join(format!("{name}.tokens"));
            if let Some(token) = token
                && let Err(error) = std::fs::write(&file, token)
            {
                panic!("{}: {error}", file.display());
            }
        }
    }

    /// The sidecar's settings, with its door at this address.
    pub(super) fn settings_at(&self, address: SocketAddr) -> Value {
        let mut settings = self.sidecar.clone();
        let listener = &mut settings["listeners"][0];
        listener["address"] = json!(address);
        if self.serves_workers() {
            // The workers of a test are on loopback, and speak no TLS.
            if let Some(listener) = listener.as_object_mut() {
                listener.remove("tls");
            }
            settings["worker_tokens"][0]["cidrs"] = json!(["127.0.0.0/8"]);
        }
        settings
    }
}

/// What workers show where they are asked.
pub const WORKER_TOKEN: &str = "5d2f8a1c9e7b4063a1d8c2f4b6e09375";
