use super::{Setting, settings};

pub(super) const SETTINGS: &[Setting] = settings! {
    "pool", "a pool's name", "\"demo\"", "the pool whose workers get the requests";
    "sidecar", "a cluster's name", "\"berth_sidecar\"", "the cluster that leads to the sidecar";
    "sidecar_token", "32 visible ASCII characters or more", "\"6f1d…\"",
        "the token that the sidecar's listener asks for: [listeners.md](listeners.md)";
    "admit", "upgrades, paths, everything", "\"everything\"", "which requests need a lease";
    "paths", "prefixes", "[\"/ws\"]", "with `\"admit\": \"paths\"`: which those are";
    "operations", "a list of path and operation (query, execute, begin)",
        "[{\"path\": \"/tx\", \"operation\": \"begin\"}]",
        "what requests do, for strategies that ask; the first that fits counts";
    "self", "a worker's id", "\"db-1\"",
        "the worker that this Envoy stands beside: it keeps what it can serve";
    "mode", "proxy, redirect", "\"redirect\"",
        "how a client comes to another worker than `self`: routed, or by a 307 to its origin";
    "client", "\"peer\", {\"header\"}, {\"metadata\": {\"filter\", \"path\"}}", "{\"header\": \"x-tenant\"}",
        "who is the same client: [limits.md](limits.md)";
    "affinity", "{\"key\", \"bind\", \"unbind_paths\", \"unbind_header\"}", "{\"key\": {\"cookie\": \"sid\"}}",
        "which requests belong together: [limits.md](limits.md)";
    "route_by", "original_dst, stateful_session", "\"original_dst\"", "must fit Envoy's file";
    "address_header", "a header in lower case", "\"x-berth-address\"",
        "with `stateful_session`: the header that filter is configured with";
    "on_outage", "deny, allow, local_share", "\"local_share\"",
        "what happens while nobody can be asked: [outages.md](outages.md)";
    "on_lease_lost", "keep, close", "\"close\"", "what happens to sessions whose places go to others";
    "proxy_id", "letters, digits, '.', '_', '-'", "\"edge-1\"", "how operators know this Envoy";
    "ask_timeout_ms", "10 to 60000 ms", "300", "how long the sidecar may take to answer";
    "watchdog_ms", "10 to 60000 ms", "1000", "a request that still waits after this is answered without it";
    "release_delay_ms", "1 to 1000 ms", "10", "releases of this time share a call";
    "release_retry_ms", "10 to 60000 ms", "350", "when a call with releases failed, how long until the next";
    "release_backlog_max", "64 to 1000000", "10000", "releases kept while the sidecar cannot be reached";
};

/// What stands for a setting that is left out. The filter's settings are only ever read, so this says
/// it once more; a test compares.
pub(super) fn default_of(name: &str) -> String {
    let default = match name {
        "sidecar" => "\"berth_sidecar\"",
        "admit" => "\"upgrades\"",
        "paths" | "operations" => "[]",
        "mode" => "\"proxy\"",
        "route_by" => "\"original_dst\"",
        "address_header" => "\"x-berth-address\"",
        "on_outage" => "\"deny\"",
        "on_lease_lost" => "\"keep\"",
        "ask_timeout_ms" => "300",
        "watchdog_ms" => "1000",
        "release_delay_ms" => "10",
        "release_retry_ms" => "350",
        "release_backlog_max" => "10000",
        _ => return "–".to_owned(),
    };
    format!("`{default}`")
}
