//! Requests are parsed here, once; refusals say what was expected.

use super::ApiError;
use admission::id::{PoolName, WorkerId};
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

/// A JSON object, whatever its content type says: there is nothing else it could be.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|rejection| ApiError::Invalid {
            status: rejection.status(),
            message: rejection.body_text(),
        })?;
        // Serde would read a list as the fields in their order, and an empty one as all defaults.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(ApiError::bad_request("the body must be a JSON object"));
        }
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Self(value)),
            Err(error) => Err(ApiError::bad_request(match misread_field::<T>(&bytes) {
                Some(field) => format!("{field}: {}", what_was_found(&error)),
                None => error.to_string(),
            })),
        }
    }
}

/// Which field cannot be read; the error alone tells only what was found there. Read a second time,
/// because following the path is slower and nearly every body is good.
fn misread_field<T: DeserializeOwned>(bytes: &[u8]) -> Option<String> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let error = serde_path_to_error::deserialize::<_, T>(&mut json).err()?;
    let path = error.path();
    path.iter().next().is_some().then(|| path.to_string())
}

/// The field says more than its line and column, in a body that a program wrote.
fn what_was_found(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).unwrap_or(&text).to_owned()
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

/// `/v1/pools/{pool}/workers/{worker}…`
pub(super) struct OfWorker {
    pub(super) pool: PoolName,
    pub(super) worker: WorkerId,
}

impl<S: Send + Sync> FromRequestParts<S> for OfWorker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path((pool, worker)) = Path::from_request_parts(parts, state)
            .await
            .map_err(refused)?;
        Ok(Self { pool, worker })
    }
}
