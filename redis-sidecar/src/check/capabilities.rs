//! What the filter's module needs of Envoy: the functions that it calls, and those that it is called by.
//!
//! A module is linked with everything that its SDK knows, so its imports are no measure; this list is.
//! `capability_restriction_config` in envoy/*.yaml has the same one, and a fleet with it passes all tests:
//! Envoy logs every call of a function that is not allowed, and fails it. So do 1.36, 1.37 and 1.40, with V8.

pub const USED: &[&str] = &[
    // Its own life, and a stream's.
    "proxy_on_vm_start",
    "proxy_on_configure",
    "proxy_on_context_create",
    "proxy_on_tick",
    "proxy_on_queue_ready",
    "proxy_on_request_headers",
    "proxy_on_response_headers",
    "proxy_on_http_call_response",
    "proxy_on_grpc_receive",
    "proxy_on_grpc_close",
    "proxy_on_done",
    "proxy_on_log",
    "proxy_on_delete",
    // What it asks Envoy for.
    "proxy_log",
    "proxy_get_current_time_nanoseconds",
    "proxy_set_tick_period_milliseconds",
    "proxy_register_shared_queue",
    "proxy_enqueue_shared_queue",
    "proxy_dequeue_shared_queue",
    "proxy_get_buffer_bytes",
    "proxy_get_header_map_value",
    "proxy_replace_header_map_value",
    "proxy_remove_header_map_value",
    "proxy_get_property",
    "proxy_http_call",
    "proxy_grpc_stream",
    "proxy_grpc_send",
    "proxy_grpc_cancel",
    "proxy_call_foreign_function",
    "proxy_continue_stream",
    "proxy_close_stream",
    "proxy_send_local_response",
    "proxy_set_effective_context",
    "proxy_define_metric",
    "proxy_increment_metric",
    // The bits of a new epoch.
    "random_get",
];
