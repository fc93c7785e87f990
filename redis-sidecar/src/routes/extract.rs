//! Requests are parsed here, once; refusals say what was expected.

use super::ApiError;
use admission::id::{PoolName, WorkerId};
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

/// A JSON body, whatever its content type says: there is nothing else it could be.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|rejection| ApiError::Invalid {
            status: rejection.status(),
            message: rejection.body_text(),
        })?;
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Self(value)),
            Err(error) => Err(ApiError::bad_request(error.to_string())),
        }
    }
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
