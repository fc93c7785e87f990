//! The HTTP API. One file per family of verbs; here is what they share.

mod admit;
mod atomic;
mod bind;
mod explain;
mod extract;
mod health;
mod leases;
mod metrics;
mod observe;
mod policy;
mod pools;
mod presence;
mod release;
mod renew;
mod workers;

use crate::error::StoreError;
use crate::metrics::Metrics;
use crate::presence::Presences;
use crate::store::Store;
use admission::message::{
    ADMIT_PATH, BIND_PATH, ErrorAnswer, OBSERVE_PATH, PRESENCE_PATH, RELEASE_PATH, RENEW_PATH,
    SIDECAR_HEADER, SIDECAR_HEADER_VALUE,
};
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tower_http::set_header::SetResponseHeaderLayer;

/// A full batch of releases fits; nothing legitimate is larger.
const BODY_BYTES_MAX: usize = 20 * 1024;

#[derive(Debug, Clone)]
pub struct App {
    store: Store,
    metrics: Arc<Metrics>,
    presences: Presences,
    /// Every question is answered within this time, if only to say that there is no answer.
    answer_timeout: Duration,
}

impl App {
    pub fn new(store: Store, answer_timeout: Duration) -> Self {
        Self::stopping_with(store, answer_timeout, CancellationToken::new())
    }

    /// As `new`; calls that hang are answered when `stop` is cancelled.
    pub fn stopping_with(store: Store, answer_timeout: Duration, stop: CancellationToken) -> Self {
        Self {
            presences: Presences::new(store.clone(), stop),
            store,
            metrics: Arc::new(Metrics::new()),
            answer_timeout,
        }
    }

    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        self.metrics.clone()
    }

    pub fn presences(&self) -> &Presences {
        &self.presences
    }

    async fn within_budget<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, ApiError> {
        self.within(self.answer_timeout, work).await
    }

    /// Waits for the store as long as the budget allows, and counts its failures.
    async fn within<T>(
        &self,
        budget: Duration,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, ApiError> {
        let late = || StoreError::Unavailable("no answer within the budget".into());
        let result = tokio::time::timeout(budget, work)
            .await
            .unwrap_or_else(|_| Err(late()));
        if result.as_ref().is_err_and(StoreError::is_outage) {
            self.metrics.store_failed();
        }
        result.map_err(ApiError::Store)
    }
}

pub fn app(state: App) -> Router {
    let marked = SetResponseHeaderLayer::overriding(
        HeaderName::from_static(SIDECAR_HEADER),
        HeaderValue::from_static(SIDECAR_HEADER_VALUE),
    );
    Router::new()
        .route(ADMIT_PATH, post(admit::admit))
        .route(RELEASE_PATH, post(release::release))
        .route(OBSERVE_PATH, post(observe::observe))
        .route(BIND_PATH, post(bind::bind))
        .route(
            RENEW_PATH,
            post(renew::renew).layer(DefaultBodyLimit::max(renew::BODY_BYTES_MAX)),
        )
        .route(PRESENCE_PATH, get(presence::presence))
        .route(atomic::PATH, post(atomic::atomic))
        .route("/v1/pools", get(pools::list))
        .route("/v1/pools/{pool}", get(pools::show))
        .route("/v1/pools/{pool}/policy", put(policy::set))
        .route("/v1/pools/{pool}/leases", get(leases::list))
        .route("/v1/pools/{pool}/audit", get(leases::audit))
        .route("/v1/pools/{pool}/explain", post(explain::explain))
        .route(
            "/v1/pools/{pool}/workers/{worker}",
            put(workers::register).delete(workers::remove),
        )
        .route(
            "/v1/pools/{pool}/workers/{worker}/heartbeat",
            post(workers::heartbeat),
        )
        .route(
            "/v1/pools/{pool}/workers/{worker}/drain",
            post(workers::drain),
        )
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .fallback(async || ApiError::NoSuchPath)
        .method_not_allowed_fallback(async || ApiError::NoSuchMethod)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(marked)
        .with_state(state)
}

/// Why a request has no answer. A denial is an answer and never comes here.
#[derive(Debug)]
enum ApiError {
    NoSuchPath,
    NoSuchMethod,
    /// The request is not what this route reads.
    Invalid {
        status: StatusCode,
        message: String,
    },
    Store(StoreError),
}

impl ApiError {
    fn bad_request(message: impl Into<String>) -> Self {
        Self::Invalid {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, error, message) = match self {
            Self::NoSuchPath => (
                StatusCode::NOT_FOUND,
                "no_such_path",
                "see docs/architecture.md for the paths".into(),
            ),
            Self::NoSuchMethod => (
                StatusCode::METHOD_NOT_ALLOWED,
                "no_such_method",
                "this path is called with another method".into(),
            ),
            Self::Invalid { status, message } => (status, "invalid", message),
            Self::Store(error) => {
                let (status, word) = match &error {
                    StoreError::Unavailable(_) => {
                        (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable")
                    }
                    StoreError::Unfit(_) => (StatusCode::SERVICE_UNAVAILABLE, "store_unfit"),
                    StoreError::Unreplicated { .. } => {
                        (StatusCode::SERVICE_UNAVAILABLE, "store_unreplicated")
                    }
                    StoreError::UnknownPool(_) => (StatusCode::NOT_FOUND, "unknown_pool"),
                    StoreError::UnknownWorker { .. } => (StatusCode::NOT_FOUND, "unknown_worker"),
                    StoreError::Reply { .. }
                    | StoreError::Script { .. }
                    | StoreError::Count { .. } => {
                        tracing::error!(%error, "the store and this sidecar disagree");
                        (StatusCode::INTERNAL_SERVER_ERROR, "store_broken")
                    }
                };
                (status, word, error.to_string())
            }
        };
        let body = ErrorAnswer {
            error: error.into(),
            message,
        };
        (status, Json(body)).into_response()
    }
}
