//! Tells Envoy the worker's address, and makes sure that nobody else does.

use crate::host;
use admission::carried;
use admission::config::{FilterConfig, Mode, RouteBy};
use admission::id::Address;
use base64::prelude::{BASE64_STANDARD, Engine};
use proxy_wasm::types::Status;

/// Envoy's ORIGINAL_DST cluster obeys this header where `use_http_header` is on.
const ORIGINAL_DST_HEADER: &str = "x-envoy-original-dst-host";
/// …and this filter state before any header, on Envoy 1.37 and later.
const ORIGINAL_DST_STATE: &str = "envoy.network.transport_socket.original_dst_address";

/// Marks a request that goes on without a lease, because there was nobody to ask: routes match it.
const FALLBACK_HEADER: &str = "x-berth-fallback";

/// Clients may send these headers too, and would then choose their own destination. So they are removed
/// from every request, whatever becomes of it and whatever the settings are.
pub(crate) fn strip_request(config: &FilterConfig) {
    host::remove_request_header(FALLBACK_HEADER);
    host::remove_request_header(ORIGINAL_DST_HEADER);
    host::remove_request_header(&config.address_header);
}

/// Envoy's stateful_session filter may tell the client where it went: that is not for clients.
pub(crate) fn strip_response(config: &FilterConfig) {
    match config.route_by {
        RouteBy::OriginalDst => {}
        RouteBy::StatefulSession => host::remove_response_header(&config.address_header),
    }
}

pub(crate) fn name(config: &FilterConfig, address: Address) -> Result<(), Status> {
    if config.mode == Mode::Redirect {
        hide_hops();
    }
    let address = address.to_string();
    match config.route_by {
        RouteBy::OriginalDst => match host::set_filter_state(&state_arguments(&address)) {
            Ok(()) => {
                host::choose_route_anew();
                Ok(())
            }
            // Envoy before 1.37 does not have the function.
            Err(_) => host::set_request_header(ORIGINAL_DST_HEADER, &address),
        },
        RouteBy::StatefulSession => {
            let state = BASE64_STANDARD.encode(&address);
            host::set_request_header(&config.address_header, &state)
        }
    }
}

/// How often a client was redirected is none of its worker's business.
fn hide_hops() {
    let path = host::request_header(":path").unwrap_or_default();
    if carried::hops(&path) > 0 {
        host::set_request_header_bytes(":path", &carried::without_hops(&path));
    }
}

/// Sends the request where Envoy's routes send what is marked.
pub(crate) fn fall_back() -> Result<(), Status> {
    host::set_request_header(FALLBACK_HEADER, "outage")
}

/// Envoy's protobuf message SetEnvoyFilterStateArguments: path = 1, value = 2, both text; the life
/// span, left out, is that of the filter chain.
fn state_arguments(address: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(128);
    for (tag, text) in [(0x0a, ORIGINAL_DST_STATE), (0x12, address)] {
        // One length byte is enough: both texts are far shorter than 128 bytes.
        message.push(tag);
        message.push(u8::try_from(text.len()).unwrap_or(0x7f));
        message.extend_from_slice(text.as_bytes());
    }
    message
}
