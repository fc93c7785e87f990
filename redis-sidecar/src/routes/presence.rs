use super::{ApiError, App, Json};
use crate::connection::Remote;
use crate::presence::{Peer, Presence};
use admission::id::{HolderId, IdError, PoolName};
use admission::message::{HOLDER_HEADER, POOL_HEADER, PRESENCE_HEADER};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode, Version};
use serde_json::{Value, json};
use std::str::FromStr;

/// Hangs for as long as its holder lives; see `presence`.
pub(super) async fn presence(
    State(app): State<App>,
    request: Request<Body>,
) -> Result<Json<Value>, ApiError> {
    let headers = request.headers();
    let presence = Presence {
        pool: id::<PoolName>(headers, POOL_HEADER)?,
        holder: id::<HolderId>(headers, HOLDER_HEADER)?,
        number: number(headers)?,
    };
    if app.store.policy(&presence.pool).is_none() {
        let unknown = crate::error::StoreError::UnknownPool(presence.pool);
        return Err(ApiError::Store(unknown));
    }
    app.metrics.seen(&presence.holder.proxy);
    // A connection between hosts is pinged, if it is HTTP/2: see `connection`.
    let remote = request.extensions().get::<Remote>().is_some();
    let peer = match remote && request.version() != Version::HTTP_2 {
        true => Peer::Unwatched,
        false => Peer::Watched,
    };
    drop(request); // and with it a body that nobody reads
    match app.presences.keep(presence, peer).await {
        Some(answered) => Ok(Json(json!({ "answered": answered.as_str() }))),
        None => Err(ApiError::Invalid {
            status: StatusCode::TOO_MANY_REQUESTS,
            message: "there are too many presences at this sidecar".into(),
        }),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, ApiError> {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.ok_or_else(|| ApiError::bad_request(format!("the header {name} is needed")))
}

fn id<T: FromStr<Err = IdError>>(headers: &HeaderMap, name: &'static str) -> Result<T, ApiError> {
    let parsed = text(headers, name)?.parse();
    parsed.map_err(|error| ApiError::bad_request(format!("{name}: {error}")))
}

/// Scripts hold it as a double.
fn number(headers: &HeaderMap) -> Result<u64, ApiError> {
    const NUMBERS: std::ops::RangeInclusive<u64> = 1..=1 << 53;
    let number = text(headers, PRESENCE_HEADER)?.parse().ok();
    let number = number.filter(|number| NUMBERS.contains(number));
    number
        .ok_or_else(|| ApiError::bad_request(format!("{PRESENCE_HEADER} must be a number above 0")))
}
