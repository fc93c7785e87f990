//! Every request has an id, its caller's if that is fit to be written down, and every answer tells it, and that a
//! sidecar gave it.

use crate::connection::Caller;
use admission::message::{SIDECAR_HEADER, SIDECAR_HEADER_VALUE};
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use std::time::Instant;
use tracing::{Instrument, field};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MARK: HeaderName = HeaderName::from_static(SIDECAR_HEADER);
/// Envoy's are UUIDs, of 36 characters; tracers have longer ones.
const ID_BYTES_MAX: usize = 128;

pub(super) async fn identify(request: Request, next: Next) -> Response {
    let id = taken(request.headers()).unwrap_or_else(minted);
    // The route, not the path: a path is the caller's text.
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let caller = request.extensions().get::<Caller>();
    let span = tracing::info_span!(
        "request",
        id = field::display(id.to_str().unwrap_or_default()),
        listener = caller.map(|it| &*it.listener), // in quotes: a path may have anything in it
        peer = caller.and_then(|it| it.peer.as_deref()).map(field::display),
    );
    let started = Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    tracing::debug!(
        parent: &span,
        route = route.as_ref().map_or("none", MatchedPath::as_str),
        method = method.as_str(),
        status = response.status().as_u16(),
        took_us = started.elapsed().as_micros(),
        "answered"
    );
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(MARK, HeaderValue::from_static(SIDECAR_HEADER_VALUE));
    response
}

/// Letters, digits and what UUIDs and traces have beside these: nothing that means something in a log.
fn taken(headers: &HeaderMap) -> Option<HeaderValue> {
    let id = headers.get(REQUEST_ID)?;
    let sane = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    let bytes = id.as_bytes();
    ((1..=ID_BYTES_MAX).contains(&bytes.len()) && bytes.iter().all(sane)).then(|| id.clone())
}

fn minted() -> HeaderValue {
    let random = fastrand::u128(..);
    let id: [u8; 32] =
        std::array::from_fn(|at| b"0123456789abcdef"[(random >> (4 * at)) as usize & 15]);
    HeaderValue::from_bytes(&id).unwrap_or_else(|_| HeaderValue::from_static("none"))
}
