//! What the filter's module may call of Envoy, and be called for: `capability_restriction_config`. That a
//! fleet works with it is shown by every other test: no Envoy may log a call that is not allowed.

use harness::envoy::{RESTRICTED, validate};
use harness::paths;
use redis_sidecar::check::CAPABILITIES;
use serde_json::Value;
use std::collections::BTreeSet;

/// Linked because the SDK offers them; the filter never calls them.
const UNCALLED: [&str; 16] = [
    "environ_get",
    "environ_sizes_get",
    "fd_write",
    "proc_exit",
    "proxy_add_header_map_value",
    "proxy_done",
    "proxy_get_header_map_pairs",
    "proxy_get_shared_data",
    "proxy_get_status",
    "proxy_grpc_call",
    "proxy_grpc_close",
    "proxy_resolve_shared_queue",
    "proxy_set_buffer_bytes",
    "proxy_set_header_map_pairs",
    "proxy_set_property",
    "proxy_set_shared_data",
];

/// The SDK's functions, and what they call. `random_get` and `proxy_log` are called by other crates.
const HOSTCALLS: [(&str, &str); 22] = [
    ("call_foreign_function", "proxy_call_foreign_function"),
    ("cancel_grpc_stream", "proxy_grpc_cancel"),
    ("define_metric", "proxy_define_metric"),
    ("dequeue_shared_queue", "proxy_dequeue_shared_queue"),
    ("dispatch_http_call", "proxy_http_call"),
    ("enqueue_shared_queue", "proxy_enqueue_shared_queue"),
    ("get_buffer", "proxy_get_buffer_bytes"),
    ("get_current_time", "proxy_get_current_time_nanoseconds"),
    ("get_map_value_bytes", "proxy_get_header_map_value"),
    ("get_property", "proxy_get_property"),
    ("increment_metric", "proxy_increment_metric"),
    ("open_grpc_stream", "proxy_grpc_stream"),
    ("register_shared_queue", "proxy_register_shared_queue"),
    ("remove_map_value", "proxy_remove_header_map_value"),
    ("reset_http_request", "proxy_close_stream"),
    ("resume_http_request", "proxy_continue_stream"),
    ("resume_http_response", "proxy_continue_stream"),
    ("send_http_response", "proxy_send_local_response"),
    ("send_grpc_stream_message", "proxy_grpc_send"),
    ("set_effective_context", "proxy_set_effective_context"),
    ("set_map_value_bytes", "proxy_replace_header_map_value"),
    ("set_tick_period", "proxy_set_tick_period_milliseconds"),
];

fn shipped(file: &str) -> Value {
    let text = std::fs::read_to_string(paths::top().join("envoy").join(file)).expect("a file");
    serde_saphyr::from_str(&text).expect("YAML")
}

fn allowed(config: &mut Value) -> &mut serde_json::Map<String, Value> {
    let listener = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
    let filter = "/http_filters/0/typed_config/config/capability_restriction_config";
    let pointer = format!("{listener}{filter}/allowed_capabilities");
    let allowed = config.pointer_mut(&pointer).and_then(Value::as_object_mut);
    allowed.expect("a restriction")
}

#[test]
fn the_shipped_files_allow_what_the_filter_uses() {
    let used: BTreeSet<&str> = CAPABILITIES.iter().copied().collect();
    for file in ["envoy.yaml", "stateful-session.yaml"] {
        let mut config = shipped(file);
        let allowed = allowed(&mut config).keys().map(String::as_str);
        assert_eq!(allowed.collect::<BTreeSet<_>>(), used, "{file}");
    }
}

#[test]
fn every_call_in_the_filters_source_is_allowed() {
    let host = paths::top().join("filter/src/host.rs");
    let text = std::fs::read_to_string(host).expect("the only file that calls Envoy");
    let calls = text.split("hostcalls::").skip(1).filter_map(|rest| {
        let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        name.into_iter().next().filter(|name| !name.is_empty())
    });
    let calls: BTreeSet<&str> = calls.collect();
    assert!(calls.len() > 10, "{calls:?}");
    for call in calls {
        let known = HOSTCALLS.iter().find(|(name, _)| *name == call);
        let (_, function) = known.unwrap_or_else(|| panic!("what does {call} call?"));
        assert!(CAPABILITIES.contains(function), "{function} is not allowed");
    }
}

#[test]
fn the_module_has_all_that_is_allowed_and_links_nothing_that_is_not_known() {
    let module = std::fs::read(paths::filter_wasm()).expect("the module");
    let names = functions(&module);
    for allowed in CAPABILITIES {
        assert!(names.contains(*allowed), "the module has no {allowed}");
    }
    let own = |name: &&String| !name.starts_with("proxy_on_") && !name.starts_with("proxy_abi_");
    for name in names.iter().filter(own) {
        let known = CAPABILITIES.contains(&name.as_str()) || UNCALLED.contains(&name.as_str());
        assert!(
            known,
            "{name} is new: allow it, or say here that nobody calls it"
        );
    }
}

/// Envoy runs what the module does at its start even to validate a configuration.
#[test]
fn envoy_does_not_let_the_module_do_what_is_not_allowed() {
    let mut config = shipped("envoy.yaml");
    assert_eq!(validate(&config), Ok(()));
    allowed(&mut config).remove("proxy_define_metric");
    let refusal = validate(&config).expect_err("a refusal");
    assert!(refusal.contains(RESTRICTED), "{refusal}");
}

/// The names of a module's imported and exported functions.
fn functions(module: &[u8]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // After the magic number and the version, sections: an id, a length, content.
    let mut rest = Bytes(&module[8..]);
    while !rest.0.is_empty() {
        let id = rest.byte();
        let length = rest.number();
        let mut section = Bytes(rest.take(length));
        match id {
            // Imports: module, name, kind (0 for a function), its type.
            2 => {
                for _ in 0..section.number() {
                    section.name();
                    names.insert(section.name());
                    assert_eq!(section.byte(), 0, "a module imports functions alone");
                    section.number();
                }
            }
            // Exports: name, kind, index.
            7 => {
                for _ in 0..section.number() {
                    let name = section.name();
                    if section.byte() == 0 && name.starts_with("proxy_") {
                        names.insert(name);
                    }
                    section.number();
                }
            }
            _ => {}
        }
    }
    names
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    /// LEB128: seven bits in each byte, the lowest first.
    fn number(&mut self) -> usize {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = self.byte();
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    fn name(&mut self) -> String {
        let length = self.number();
        String::from_utf8(self.take(length).to_vec()).expect("a name")
    }
}
