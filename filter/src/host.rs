//! Every call on Envoy. What keeps the VM alive: headers are read as bytes (the SDK's text getters die
//! of one byte ≥ 0x80), and calls are made only where Envoy accepts them, because the SDK panics on a
//! status that it does not expect.

use admission::clock::Clock;
use admission::outcome::{Author, ResponseFlags};
use proxy_wasm::hostcalls;
use proxy_wasm::types::{BufferType, Bytes, MapType, MetricType, Status};
use std::cell::Cell;
use std::time::{Duration, UNIX_EPOCH};

/// What fits is enough for every decision; a longer value is not copied into the VM's answers.
const PROPERTY_BYTES_MAX: usize = 256;

thread_local! {
    static CLOCK: Cell<Clock> = Cell::default();
}

/// Never goes back, whatever happens to the host's clock.
pub(crate) fn now_us() -> u64 {
    let wall_us = hostcalls::get_current_time()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .and_then(|since| u64::try_from(since.as_micros()).ok())
        .unwrap_or(0);
    let mut clock = CLOCK.get();
    let now_us = clock.read(wall_us);
    CLOCK.set(clock);
    now_us
}

pub(crate) fn set_tick(period: Duration) {
    let _ = hostcalls::set_tick_period(period);
}

/// A queue by which the streams of this VM call its root. Others could read it, so what is in it says nothing; its
/// name is drawn, because all VMs of a process share the names.
pub(crate) fn open_queue() -> Option<u32> {
    let drawn = u64::from_le_bytes(random_bytes()?.first_chunk::<8>().copied()?);
    hostcalls::register_shared_queue(&format!("berth-{drawn:x}")).ok()
}

/// Has the root called as soon as Envoy is through with what it is doing.
pub(crate) fn call_root(queue: u32) -> Result<(), Status> {
    hostcalls::enqueue_shared_queue(queue, Some(&[1]))
}

/// The root is called once at a time, so there is one call to take out.
pub(crate) fn empty_queue(queue: u32) {
    let _ = hostcalls::dequeue_shared_queue(queue);
}

pub(crate) fn random_bytes() -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}

pub(crate) fn request_header(name: &str) -> Option<Bytes> {
    header(MapType::HttpRequestHeaders, name)
}

pub(crate) fn response_header(name: &str) -> Option<Bytes> {
    header(MapType::HttpResponseHeaders, name)
}

pub(crate) fn callout_header(name: &str) -> Option<Bytes> {
    header(MapType::HttpCallResponseHeaders, name)
}

fn header(map: MapType, name: &str) -> Option<Bytes> {
    hostcalls::get_map_value_bytes(map, name).ok().flatten()
}

pub(crate) fn remove_request_header(name: &str) {
    let _ = hostcalls::remove_map_value(MapType::HttpRequestHeaders, name);
}

pub(crate) fn remove_response_header(name: &str) {
    let _ = hostcalls::remove_map_value(MapType::HttpResponseHeaders, name);
}

pub(crate) fn set_request_header(name: &str, value: &str) -> Result<(), Status> {
    let value = Some(value.as_bytes());
    hostcalls::set_map_value_bytes(MapType::HttpRequestHeaders, name, value)
}

pub(crate) fn set_request_header_bytes(name: &str, value: &[u8]) {
    let _ = hostcalls::set_map_value_bytes(MapType::HttpRequestHeaders, name, Some(value));
}

pub(crate) fn callout_body(bytes_max: usize) -> Option<Bytes> {
    hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, bytes_max)
        .ok()
        .flatten()
}

pub(crate) fn plugin_configuration() -> Bytes {
    hostcalls::get_buffer(BufferType::PluginConfiguration, 0, usize::MAX)
        .ok()
        .flatten()
        .unwrap_or_default()
}

pub(crate) fn node_id() -> Bytes {
    let mut id = property(&["xds", "node", "id"]).unwrap_or_default();
    id.truncate(PROPERTY_BYTES_MAX);
    id
}

pub(crate) fn response_flags() -> ResponseFlags {
    ResponseFlags(number(&["response", "flags"]))
}

/// What has passed of the bodies, so far.
pub(crate) fn request_bytes() -> u64 {
    number(&["request", "size"])
}

pub(crate) fn response_bytes() -> u64 {
    number(&["response", "size"])
}

fn number(path: &[&str]) -> u64 {
    let bytes = property(path).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
    bytes.map(u64::from_le_bytes).unwrap_or(0)
}

fn property(path: &[&str]) -> Option<Bytes> {
    hostcalls::get_property(path.to_vec()).ok().flatten()
}

/// Who wrote the response whose headers are on their way to the client.
pub(crate) fn response_author() -> Author {
    match property(&["response", "code_details"]).as_deref() {
        // The second is a worker's answer too: anything but 101 to an upgrade, which Envoy rewrites.
        Some(b"via_upstream" | b"websocket_handshake_unsuccessful") => Author::Worker,
        _ => Author::Envoy,
    }
}

pub(crate) struct Callout<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    pub(crate) body: &'a [u8],
    pub(crate) timeout: Duration,
}

/// Returns the token that the answer will carry.
pub(crate) fn call(callout: Callout<'_>) -> Result<u32, Status> {
    let Callout {
        cluster,
        headers,
        body,
        timeout,
    } = callout;
    hostcalls::dispatch_http_call(cluster, headers, Some(body), vec![], timeout)
}

/// A cluster's name in Envoy's protobuf message GrpcService: envoy_grpc = 1, and in it cluster_name = 1. A bare name
/// would do, but Envoy first tries to read it as such a message, and some names can be. Nothing, for a name whose
/// length does not fit into one byte.
fn grpc_service(cluster: &str) -> Option<String> {
    let name_bytes = u8::try_from(cluster.len()).ok()?;
    let message_bytes = name_bytes.checked_add(2).filter(|bytes| *bytes < 0x80)?;
    let [message_bytes, name_bytes] = [message_bytes, name_bytes].map(char::from);
    Some(format!("\n{message_bytes}\n{name_bytes}{cluster}"))
}

/// Opens a call that goes both ways; whoever is in effect hears what comes. Returns the token that it is known by.
pub(crate) fn open_line(
    cluster: &str,
    service: &str,
    method: &str,
    headers: Vec<(&str, &[u8])>,
) -> Result<u32, Status> {
    let cluster = grpc_service(cluster).ok_or(Status::BadArgument)?;
    hostcalls::open_grpc_stream(&cluster, service, method, headers)
}

/// Not on a line that has ended: Envoy would write where it is no more.
pub(crate) fn say(line: u32, message: &[u8]) -> Result<(), Status> {
    hostcalls::send_grpc_stream_message(line, Some(message), false)
}

/// The same, and nothing more: the other end is to end the line.
pub(crate) fn say_last(line: u32, message: &[u8]) -> Result<(), Status> {
    hostcalls::send_grpc_stream_message(line, Some(message), true)
}

/// Ends a line, at once and without another word. Also for one that its other end has ended: until Envoy is told that
/// the module is through with it, it keeps a pointer to what is no more.
pub(crate) fn hang_up(line: u32) {
    let _ = hostcalls::cancel_grpc_stream(line);
}

/// What has come over a line.
pub(crate) fn heard(bytes_max: usize) -> Option<Bytes> {
    hostcalls::get_buffer(BufferType::GrpcReceiveBuffer, 0, bytes_max)
        .ok()
        .flatten()
}

/// Fails on Envoys that do not have the function.
pub(crate) fn set_filter_state(arguments: &[u8]) -> Result<(), Status> {
    hostcalls::call_foreign_function("set_envoy_filter_state", Some(arguments)).map(|_| ())
}

/// Routes may ask what a request's filter state is, and Envoy chose one before it was set. A header that changes makes
/// it choose again, and even one that is taken away without having been there (so it is for all modules of this
/// version of proxy-wasm). The function that Envoy has for it costs four times as much.
pub(crate) fn choose_route_anew() {
    remove_request_header("x-berth-none");
}

pub(crate) fn resume_request() {
    let _ = hostcalls::resume_http_request();
}

pub(crate) fn resume_response() {
    let _ = hostcalls::resume_http_response();
}

pub(crate) fn reply(status: u32, headers: Vec<(&str, &str)>, body: &str) {
    let _ = hostcalls::send_http_response(status, headers, Some(body.as_bytes()));
}

/// The client's address, with its port.
pub(crate) fn peer() -> Option<Bytes> {
    property(&["source", "address"])
}

/// What another filter keeps about this stream.
pub(crate) fn metadata(filter: &str, path: &[String]) -> Option<Bytes> {
    let whole = ["metadata", "filter_metadata", filter].into_iter();
    property(
        &whole
            .chain(path.iter().map(String::as_str))
            .collect::<Vec<_>>(),
    )
}

/// Ends the stream in effect, on both sides.
pub(crate) fn close_stream() {
    let _ = hostcalls::reset_http_request();
}

/// Makes the calls that follow concern this stream, or this root.
pub(crate) fn act_for(context: u32) -> Result<(), Status> {
    hostcalls::set_effective_context(context)
}

pub(crate) fn define_counter(name: &str) -> Option<u32> {
    hostcalls::define_metric(MetricType::Counter, name).ok()
}

pub(crate) fn define_gauge(name: &str) -> Option<u32> {
    hostcalls::define_metric(MetricType::Gauge, name).ok()
}

pub(crate) fn add_to_metric(id: Option<u32>, offset: i64) {
    if let Some(id) = id {
        let _ = hostcalls::increment_metric(id, offset);
    }
}
