//! Berth's filter, as it stands in a list of HTTP filters.

use super::super::place::Place;
use admission::config::{Admit, FilterConfig, RouteBy};

#[derive(Debug)]
pub(in crate::check) struct Plugin<'a> {
    /// Its number among the HTTP filters.
    pub(in crate::check) index: usize,
    /// The entry in the list.
    pub(in crate::check) filter: Place<'a>,
    /// Envoy's PluginConfig.
    pub(in crate::check) config: Place<'a>,
    /// What the filter itself would make of its configuration.
    pub(in crate::check) settings: Result<FilterConfig, String>,
}

impl<'a> Plugin<'a> {
    /// A Wasm filter is Berth's if one of its names says so, or if it names a pool.
    pub(super) fn read(index: usize, filter: &Place<'a>) -> Option<Self> {
        let Some(("Wasm", wasm)) = filter.typed_config() else {
            return None;
        };
        let config = wasm.get("config")?;
        let text = configuration(&config);
        let names = [
            filter.text("name"),
            config.text("name"),
            config.text("root_id"),
            config.text("vm_config.vm_id"),
        ];
        let named = names
            .into_iter()
            .flatten()
            .any(|name| name.contains("berth"));
        let names_pool = || text.as_ref().is_ok_and(|text| text.contains("\"pool\""));
        (named || names_pool()).then(|| Self {
            index,
            filter: filter.clone(),
            settings: text.and_then(|text| {
                FilterConfig::parse(text.as_bytes()).map_err(|error| error.to_string())
            }),
            config,
        })
    }

    pub(in crate::check) fn routes_by(&self, route_by: RouteBy) -> bool {
        (self.settings.as_ref()).is_ok_and(|settings| settings.route_by == route_by)
    }

    /// Whether sessions may be WebSockets only.
    pub(in crate::check) fn admits_upgrades_only(&self) -> bool {
        (self.settings.as_ref()).is_ok_and(|settings| settings.admit == Admit::Upgrades)
    }
}

/// The text that Envoy hands to the filter. Of anything but a text it hands over the bytes of the protobuf
/// message, of a Struct too, whatever its documentation says: tried with Envoy 1.36, 1.37 and 1.40.
fn configuration(config: &Place<'_>) -> Result<String, String> {
    let Some(configuration) = config.get("configuration") else {
        return Ok(String::new());
    };
    match configuration.text("@type").unwrap_or_default() {
        "type.googleapis.com/google.protobuf.StringValue" => {
            Ok(configuration.text("value").unwrap_or_default().to_owned())
        }
        kind => Err(format!(
            "it is of the type {kind:?}, which does not reach the filter as JSON; write a \
             google.protobuf.StringValue"
        )),
    }
}
