//! Answers are JSON.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// As axum's own, which writes every few bytes through a buffer that they may not fit into (docs/decisions/0025).
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(text) => {
                let kind = HeaderValue::from_static("application/json");
                let mut response = Response::new(Body::from(text));
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                response
            }
            Err(error) => {
                tracing::error!(%error, "an answer cannot be written");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}
