//! The questions and news for the sidecar, and what counts as its answer.

use crate::host::{self, Callout};
use crate::vm::Vm;
use admission::id::LeaseId;
use admission::inspect;
use admission::message::{
    ADMIT_PATH, AdmitAnswer, AdmitRequest, OBSERVE_PATH, Observation, ObserveRequest, RELEASE_PATH,
    Release, ReleaseRequest, SIDECAR_HEADER, SIDECAR_HEADER_VALUE,
};
use proxy_wasm::types::Status;
use std::time::Duration;

/// An answer is a few hundred bytes; more is not an answer.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// Copied from the request so that the question shows up in its trace: Envoy gives callouts none.
const TRACE_HEADERS: [&str; 4] = ["traceparent", "tracestate", "baggage", "x-request-id"];
/// Longer values are left out: they are for tracing, not worth a larger question.
const TRACE_BYTES_MAX: usize = 512;

/// Asks for a lease on behalf of the stream in effect, which will hear the answer.
pub(crate) fn ask(vm: &Vm, lease: LeaseId) -> Result<u32, Status> {
    let path = host::request_header(":path").unwrap_or_default();
    let request = AdmitRequest {
        bytes: content_length(),
        operation: inspect::operation(&vm.config, &path),
        own: vm.config.own.clone(),
        ..AdmitRequest::new(vm.config.pool.clone(), vm.holder.clone(), lease)
    };
    let traces: Vec<(&str, String)> = TRACE_HEADERS
        .into_iter()
        .filter_map(|name| Some((name, trace_value(name)?)))
        .collect();
    let body = serde_json::to_vec(&request).map_err(|_| Status::InternalFailure)?;
    post(vm, ADMIT_PATH, &traces, &body)
}

fn content_length() -> Option<u64> {
    let text = host::request_header("content-length")?;
    std::str::from_utf8(&text).ok()?.parse().ok()
}

fn trace_value(name: &str) -> Option<String> {
    let value = host::request_header(name)?;
    let short = value.len() <= TRACE_BYTES_MAX;
    String::from_utf8(value).ok().filter(|_| short)
}

pub(crate) fn send_releases(vm: &Vm, releases: &[Release]) -> Result<u32, Status> {
    let request = ReleaseRequest {
        pool: vm.config.pool.clone(),
        holder: vm.holder.clone(),
        releases: releases.to_vec(),
    };
    let body = serde_json::to_vec(&request).map_err(|_| Status::InternalFailure)?;
    post(vm, RELEASE_PATH, &[], &body)
}

pub(crate) fn send_observations(vm: &Vm, observations: &[Observation]) -> Result<u32, Status> {
    let request = ObserveRequest {
        pool: vm.config.pool.clone(),
        holder: vm.holder.clone(),
        observations: observations.to_vec(),
    };
    let body = serde_json::to_vec(&request).map_err(|_| Status::InternalFailure)?;
    post(vm, OBSERVE_PATH, &[], &body)
}

fn post(vm: &Vm, path: &str, traces: &[(&str, String)], body: &[u8]) -> Result<u32, Status> {
    let mut headers = vec![
        (":method", "POST"),
        (":path", path),
        (":authority", "berth"),
        ("content-type", "application/json"),
    ];
    headers.extend(traces.iter().map(|(name, value)| (*name, value.as_str())));
    host::call(Callout {
        cluster: &vm.config.sidecar,
        headers,
        body,
        timeout: Duration::from_millis(vm.config.ask_timeout_ms),
    })
}

/// Whether the callout was answered by a sidecar that did what it was asked. Envoy reports a
/// timeout as 504, a refused connection as 503, and an answer that broke off as no headers at all;
/// only the sidecar's own header tells an answer from these.
pub(crate) fn is_answered(headers: usize) -> bool {
    let is = |name, value: &[u8]| host::callout_header(name).as_deref() == Some(value);
    headers > 0 && is(SIDECAR_HEADER, SIDECAR_HEADER_VALUE.as_bytes()) && is(":status", b"200")
}

/// Whether the sidecar refused the message itself, so that repeating it cannot help.
pub(crate) fn is_rejected(headers: usize) -> bool {
    headers > 0
        && host::callout_header(SIDECAR_HEADER).is_some()
        && host::callout_header(":status").is_some_and(|status| status.starts_with(b"4"))
}

pub(crate) fn admit_answer(headers: usize) -> Option<AdmitAnswer> {
    if !is_answered(headers) {
        return None;
    }
    let body = host::callout_body(ANSWER_BYTES_MAX)?;
    serde_json::from_slice(&body).ok()
}
