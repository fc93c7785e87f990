//! The doors beside Berth's own: the same listener with other filters, in the same Envoy.

use crate::answerer::DESTINATION_HEADER;
use harness::ports;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Door {
    /// Nobody is asked.
    Plain,
    /// Envoy's ext_authz filter and a service that answers at once.
    ExtAuthzTrivial,
    /// The same, and a service that takes a lease.
    ExtAuthz,
    /// Envoy's Lua filter takes a lease at the sidecar, and does not give it back.
    LuaAdmitOnly,
    /// The same, and gives it back when the response has passed.
    Lua,
    /// The filter, before the cluster that the peers have.
    Berth,
    /// The same, and between filter and sidecar a Unix socket.
    BerthUnixSocket,
    /// Nobody is asked, and every request has a connection of its own to the backend.
    PlainConnectionEach,
    /// The filter as envoy/envoy.yaml has it: every lease with a connection of its own to its worker.
    BerthAsShipped,
}

impl Door {
    pub(super) const ALL: [Self; 9] = [
        Self::Plain,
        Self::ExtAuthzTrivial,
        Self::ExtAuthz,
        Self::LuaAdmitOnly,
        Self::Lua,
        Self::Berth,
        Self::BerthUnixSocket,
        Self::PlainConnectionEach,
        Self::BerthAsShipped,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::ExtAuthzTrivial => "ext_authz_trivial",
            Self::ExtAuthz => "ext_authz",
            Self::LuaAdmitOnly => "lua_admit_only",
            Self::Lua => "lua",
            Self::Berth => "berth",
            Self::BerthUnixSocket => "berth_unix_socket",
            Self::PlainConnectionEach => "plain_connection_each",
            Self::BerthAsShipped => "berth_as_shipped",
        }
    }
}

/// Where each listens.
pub(super) struct Doors(BTreeMap<Door, SocketAddr>);

impl Doors {
    /// The shipped listener is one of them.
    pub(super) fn beside(shipped: SocketAddr) -> Self {
        let address = |door| match door {
            Door::BerthAsShipped => shipped,
            Door::Plain
            | Door::ExtAuthzTrivial
            | Door::ExtAuthz
            | Door::LuaAdmitOnly
            | Door::Lua
            | Door::Berth
            | Door::BerthUnixSocket
            | Door::PlainConnectionEach => ports::free(),
        };
        Self(Door::ALL.map(|door| (door, address(door))).into())
    }

    pub(super) fn address(&self, door: Door) -> SocketAddr {
        self.0[&door]
    }
}

/// Whom the peers ask.
pub(super) struct Services {
    /// Berth's own sidecar, by its Unix socket.
    pub(super) by_socket: PathBuf,
    pub(super) lua_sidecar: SocketAddr,
    pub(super) authz: SocketAddr,
    pub(super) trivial: SocketAddr,
}

/// Requests go where a header says, which only the peers' filters set. Connections are kept.
const NAMED: &str = "named_by_header";
/// The cluster of Berth's workers, connections kept.
const KEPT: &str = "berth_workers_kept";
const WORKERS: &str = "berth_workers";
const PLAIN: &str = "passthrough";
const PLAIN_CONNECTION_EACH: &str = "passthrough_connection_each";
const BY_SOCKET: &str = "berth_sidecar_by_socket";

pub(super) fn add(config: &mut Value, doors: &Doors, services: &Services) {
    let statics = &mut config["static_resources"];
    let shipped = statics["listeners"][0].clone();
    let listener = |door: Door, filters: Vec<Value>, cluster: &str| {
        let mut listener = shipped.clone();
        listener["name"] = json!(door.name());
        listener["address"] = socket(doors.address(door));
        let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
        let router = manager["http_filters"][1].clone();
        manager["http_filters"] = filters.into_iter().chain([router]).collect();
        manager["route_config"]["virtual_hosts"][0]["routes"] =
            json!([{"match": {"prefix": "/"}, "route": {"cluster": cluster, "timeout": "0s"}}]);
        listener
    };
    let listeners = [
        listener(Door::Plain, vec![], PLAIN),
        listener(Door::PlainConnectionEach, vec![], PLAIN_CONNECTION_EACH),
        listener(Door::ExtAuthz, vec![ext_authz("authz")], NAMED),
        listener(Door::ExtAuthzTrivial, vec![ext_authz("trivial")], NAMED),
        listener(Door::LuaAdmitOnly, vec![lua(LUA_ADMIT)], NAMED),
        listener(
            Door::Lua,
            vec![lua(&format!("{LUA_ADMIT}{LUA_RELEASE}"))],
            NAMED,
        ),
        berth_kept(&shipped, Door::Berth, doors),
        by_socket(berth_kept(&shipped, Door::BerthUnixSocket, doors)),
    ];
    let sidecar = named(&statics["clusters"], "berth_sidecar");
    let service = |name: &str, address: Value| {
        let mut cluster = sidecar.clone();
        cluster["name"] = json!(name);
        cluster["load_assignment"] = json!({
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        });
        cluster
    };
    // The answerers have no /readyz, and nobody stands in for them.
    let unchecked = |mut cluster: Value| {
        cluster["health_checks"] = json!([]);
        cluster
    };
    let workers = named(&statics["clusters"], WORKERS);
    let kept = |name: &str| {
        let mut cluster = workers.clone();
        cluster["name"] = json!(name);
        let options = &mut cluster["typed_extension_protocol_options"];
        options["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]["common_http_protocol_options"]
            ["max_requests_per_connection"] = json!(0);
        cluster
    };
    // As the shipped cluster of workers has it.
    let mut connection_each = named(&statics["clusters"], PLAIN);
    connection_each["name"] = json!(PLAIN_CONNECTION_EACH);
    let options = "typed_extension_protocol_options";
    connection_each[options] = workers[options].clone();
    let mut by_header = kept(NAMED);
    by_header["original_dst_lb_config"] = json!({"use_http_header": true});
    let clusters = [
        service("lua_sidecar", socket(services.lua_sidecar)),
        service(BY_SOCKET, json!({"pipe": {"path": services.by_socket}})),
        unchecked(service("authz", socket(services.authz))),
        unchecked(service("trivial", socket(services.trivial))),
        by_header,
        connection_each,
        kept(KEPT),
    ];
    extend(&mut statics["listeners"], listeners);
    extend(&mut statics["clusters"], clusters);
}

/// The shipped listener with another cluster behind it.
fn berth_kept(shipped: &Value, door: Door, doors: &Doors) -> Value {
    let mut listener = shipped.clone();
    listener["name"] = json!(door.name());
    listener["address"] = socket(doors.address(door));
    let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
    let leased = &mut manager["route_config"]["virtual_hosts"][0]["routes"][0];
    assert_eq!(leased["route"]["cluster"], WORKERS, "the shipped route");
    leased["route"]["cluster"] = json!(KEPT);
    listener
}

/// The filter's settings are JSON in a text.
fn by_socket(mut listener: Value) -> Value {
    let filters = &mut listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"];
    let text = &mut filters[0]["typed_config"]["config"]["configuration"]["value"];
    let settings = text.as_str().map(serde_json::from_str::<Value>);
    let Some(Ok(mut settings)) = settings else {
        panic!("the filter's settings are not where they should be: {text}");
    };
    settings["sidecar"] = json!(BY_SOCKET);
    *text = json!(settings.to_string());
    listener
}

fn ext_authz(cluster: &str) -> Value {
    json!({
        "name": "envoy.filters.http.ext_authz",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
            "http_service": {
                "server_uri": {"uri": "http://answerer", "cluster": cluster, "timeout": "10s"},
                "authorization_response": {
                    "allowed_upstream_headers": {"patterns": [{"exact": DESTINATION_HEADER}]},
                },
            },
        },
    })
}

fn lua(code: &str) -> Value {
    json!({
        "name": "envoy.filters.http.lua",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
            "default_source_code": {"inline_string": code},
        },
    })
}

/// The filter's own question, asked by Lua. Each door has an epoch of its own, and the epoch of a Lua
/// state is its address: two of them must not mint one id.
const LUA_ADMIT: &str = r#"
local EPOCH = string.format("%032x", tonumber(tostring({}):match("0x(%x+)"), 16))
local HOLDER = "lua/" .. EPOCH
local minted = 0
local function headers(path)
  return { [":method"] = "POST", [":path"] = path, [":authority"] = "berth",
    ["content-type"] = "application/json" }
end
local ADMIT, RELEASE = headers("/v1/admit"), headers("/v1/release")

function envoy_on_request(handle)
  minted = minted + 1
  local lease = EPOCH .. "." .. minted
  local _, body = handle:httpCall("lua_sidecar", ADMIT,
    '{"pool":"demo","holder":"' .. HOLDER .. '","lease":"' .. lease .. '"}', 10000)
  local address = body and body:match('"address":"([^"]+)"')
  if not address then
    return handle:respond({ [":status"] = "503" }, body)
  end
  handle:headers():replace("x-envoy-original-dst-host", address)
  handle:streamInfo():dynamicMetadata():set("berth", "lease", lease)
end
"#;

/// As envoy/lua-filter.yaml does it: nobody waits for the answer.
const LUA_RELEASE: &str = r#"
function envoy_on_response(handle)
  local held = handle:streamInfo():dynamicMetadata():get("berth")
  if held then
    for _ in handle:bodyChunks() do end
    handle:httpCall("lua_sidecar", RELEASE,
      '{"pool":"demo","holder":"' .. HOLDER .. '","releases":[{"lease":"' .. held["lease"]
        .. '","use":"used","outcome":"success"}]}', { timeout_ms = 10000, asynchronous = true })
  end
end
"#;

fn socket(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip(), "port_value": address.port()}})
}

fn named(list: &Value, name: &str) -> Value {
    let items = list.as_array().into_iter().flatten();
    match items.into_iter().find(|item| item["name"] == name) {
        Some(item) => item.clone(),
        None => panic!("the shipped configuration has nothing named {name} where it should"),
    }
}

fn extend(list: &mut Value, items: impl IntoIterator<Item = Value>) {
    match list.as_array_mut() {
        Some(list) => list.extend(items),
        None => panic!("the shipped configuration has no list where it should"),
    }
}
