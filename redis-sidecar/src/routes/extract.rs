//! Requests are parsed here, once; refusals say what was expected.

use super::{ApiError, App};
use crate::doors::crowd::{Crowd, Room};
use crate::doors::rights::Rights;
use crate::metrics::doors::Reason;
use crate::settings::words::plain;
use crate::store::Speaker;
use admission::id::{PoolName, WorkerId};
use admission::message::RENEW_PATH;
use axum::body::HttpBody;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A full batch of releases fits; nothing legitimate but a beat is larger.
pub(super) const BODY_BYTES_MAX: usize = 20 * 1024;
/// A list of some 100,000 leases fits: more than a filter can hold.
const BEAT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A JSON object, whatever its content type says: there is nothing else it could be. What is read takes
/// room until the request is answered.
pub(super) struct Body<T>(pub(super) T, pub(super) Room);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let bytes_max = match request.uri().path() {
            RENEW_PATH => BEAT_BYTES_MAX,
            _ => BODY_BYTES_MAX,
        };
        let reading = read(request, app, bytes_max);
        let (bytes, room) = match tokio::time::timeout(app.crowd.body_timeout, reading).await {
            Ok(read) => read?,
            Err(_) => {
                app.metrics.doors.refused(Reason::SlowBody);
                return Err(ApiError::Invalid {
                    status: StatusCode::REQUEST_TIMEOUT,
                    message: "the body took too long (limits.body_timeout_ms)".into(),
                });
            }
        };
        // Serde would read a list as the fields in their order, and an empty one as all defaults.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(ApiError::bad_request("the body must be a JSON object"));
        }
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Self(value, room)),
            Err(error) => Err(ApiError::bad_request(match misread_field::<T>(&bytes) {
                Some(field) => format!("{field}: {}", what_was_found(&error)),
                None => error.to_string(),
            })),
        }
    }
}

/// The whole body, piece by piece as it comes: no length that a caller claims takes any memory.
async fn read(request: Request, app: &App, bytes_max: usize) -> Result<(Vec<u8>, Room), ApiError> {
    let too_large = || ApiError::Invalid {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        message: format!("the body must have at most {bytes_max} bytes"),
    };
    let mut body = request.into_body();
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large());
    }
    let (mut bytes, mut room) = (Vec::new(), Crowd::empty_body());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::bad_request("the body broke off"))?;
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        if bytes.len() + piece.len() > bytes_max {
            return Err(too_large());
        }
        let grown = app.crowd.grow(&mut room, piece.len());
        grown.map_err(|error| app.overloaded(error))?;
        bytes.extend_from_slice(&piece);
    }
    Ok((bytes, room))
}

/// Which field cannot be read; the error alone tells only what was found there. Read a second time,
/// because following the path is slower and nearly every body is good.
fn misread_field<T: DeserializeOwned>(bytes: &[u8]) -> Option<String> {
    if bytes.len() > BODY_BYTES_MAX {
        return None; // only a beat: nobody else should wait while its 4 MiB are read again
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let error = serde_path_to_error::deserialize::<_, T>(&mut json).err()?;
    let path = error.path();
    path.iter().next().is_some().then(|| path.to_string())
}

/// The field says more than its line and column, in a body that a program wrote.
fn what_was_found(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    plain(text.strip_suffix(&position).unwrap_or(&text))
}

fn refused(rejection: PathRejection) -> ApiError {
    ApiError::Invalid {
        status: rejection.status(),
        message: rejection.body_text(),
    }
}

/// `/v1/pools/{pool}`
pub(super) struct InPool(pub(super) PoolName);

impl<S: Send + Sync> FromRequestParts<S> for InPool {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(pool) = Path::from_request_parts(parts, state)
            .await
            .map_err(refused)?;
        Ok(Self(pool))
    }
}

/// `/v1/pools/{pool}/workers/{worker}…`, by somebody who may speak for that pool's workers.
pub(super) struct OfWorker {
    pub(super) pool: PoolName,
    pub(super) worker: WorkerId,
    pub(super) rights: Arc<Rights>,
}

impl OfWorker {
    pub(super) fn speaker<'a>(&'a self, app: &'a App) -> Speaker<'a> {
        app.store.speaker(&self.rights.owner)
    }
}

impl FromRequestParts<App> for OfWorker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let Path((pool, worker)) = Path::from_request_parts(parts, app)
            .await
            .map_err(refused)?;
        // Where nobody is asked for a token, nobody's rights are bound.
        let rights: Arc<Rights> = parts.extensions.get().cloned().unwrap_or_default();
        (rights.check_pool(&pool)).map_err(|message| app.forbidden(message))?;
        Ok(Self {
            pool,
            worker,
            rights,
        })
    }
}
