//! The HTTP API. One file per family of verbs; here is what they share.

mod admit;
mod atomic;
mod bind;
mod explain;
mod extract;
mod guard;
mod health;
mod json;
mod leases;
mod line;
mod metrics;
mod observe;
mod policy;
mod pools;
mod presence;
mod release;
mod renew;
mod request_id;
mod workers;

use crate::doors::Door;
use crate::doors::crowd::{Crowd, Overloaded, Room};
use crate::error::StoreError;
use crate::metrics::Metrics;
use crate::metrics::doors::Reason;
use crate::presence::Presences;
use crate::settings::{Api, Settings, WorkerRules};
use crate::store::Store;
use admission::message::{
    ADMIT_GROUP_PATH, ADMIT_PATH, BIND_PATH, ErrorAnswer, OBSERVE_PATH, OVERLOADED, PRESENCE_PATH,
    RELEASE_PATH, RENEW_PATH,
};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Router};
use json::Json;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

/// What all routes share. Cheap to clone, as every request does.
#[derive(Debug, Clone)]
pub struct App(Arc<Shared>);

#[derive(Debug)]
pub struct Shared {
    store: Store,
    metrics: Arc<Metrics>,
    presences: Presences,
    lines: Arc<Semaphore>,
    /// Every question is answered within this time, if only to say that there is no answer.
    answer_timeout: Duration,
    crowd: Crowd,
    worker_rules: Arc<WorkerRules>,
    /// This sidecar is about to end.
    stop: CancellationToken,
    /// When a script last ran to find out whether this sidecar is ready.
    ready_at: Mutex<Option<Instant>>,
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    /// With the limits that are shipped.
    pub fn new(store: Store, answer_timeout: Duration) -> Self {
        let settings = Settings {
            answer_timeout_ms: u64::try_from(answer_timeout.as_millis()).unwrap_or(u64::MAX),
            ..Settings::default()
        };
        Self::with_settings(store, &settings, CancellationToken::new())
    }

    /// Calls that hang are answered when `stop` is cancelled.
    pub fn with_settings(store: Store, settings: &Settings, stop: CancellationToken) -> Self {
        Self(Arc::new(Shared {
            presences: Presences::new(store.clone(), stop.clone()),
            lines: Arc::new(Semaphore::new(line::LINES_MAX)),
            stop,
            store,
            metrics: Arc::new(Metrics::new()),
            answer_timeout: Duration::from_millis(settings.answer_timeout_ms),
            crowd: Crowd::new(&settings.limits),
            worker_rules: Arc::new(settings.workers.clone()),
            ready_at: Mutex::default(),
        }))
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
        let _room = self.room(1)?;
        self.wait(budget, work).await
    }

    /// Room for so many more questions, for as long as they are under way.
    fn room(&self, questions: usize) -> Result<Room, ApiError> {
        let room = self.crowd.ask(questions);
        room.map_err(|error| self.overloaded(error))
    }

    fn overloaded(&self, _: Overloaded) -> ApiError {
        self.metrics.doors.refused(Reason::Overloaded);
        ApiError::Overloaded
    }

    fn forbidden(&self, message: String) -> ApiError {
        self.metrics.doors.refused(Reason::Forbidden);
        tracing::info!(reason = message, "forbidden");
        ApiError::Forbidden(message)
    }

    /// As `within`, for who has found room already.
    async fn wait<T>(
        &self,
        budget: Duration,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, ApiError> {
        let late = || StoreError::Unavailable("no answer within the budget".into());
        let result = tokio::time::timeout(budget, work)
            .await
            .unwrap_or_else(|_| Err(late()));
        if let Err(error) = &result {
            self.count_failure(error);
        }
        result.map_err(ApiError::Store)
    }

    fn count_failure(&self, error: &StoreError) {
        if error.is_outage() {
            self.metrics.store_failed();
        }
    }
}

/// The whole API, for everybody.
pub fn app(state: App) -> Router {
    router(state, &Door::open())
}

/// What one listener serves. A path of another part is not there.
pub(crate) fn router(state: App, door: &Door) -> Router {
    let mut router = Router::new();
    let guarded = |routes, api| guard::guarded(routes, api, door, &state);
    for api in Api::ALL.into_iter().filter(|api| door.serves.contains(api)) {
        router = router.merge(guarded(routes(api), api));
    }
    if door.serves.contains(&Api::Data) {
        let calls = answering(guarded(routes(Api::Data), Api::Data)).with_state(state.clone());
        router = router.merge(guarded(line::route(calls), Api::Data));
    }
    let router = router.route("/healthz", get(health::healthz)).route(
        "/readyz",
        get(health::readyz).layer(Extension(Arc::new(door.clone()))),
    );
    answering(router)
        .layer(from_fn(request_id::identify))
        .with_state(state)
}

/// What has no route is answered, too.
fn answering(router: Router<App>) -> Router<App> {
    router
        .fallback(async || ApiError::NoSuchPath)
        .method_not_allowed_fallback(async || ApiError::NoSuchMethod)
}

fn routes(api: Api) -> Router<App> {
    let router = Router::new();
    match api {
        Api::Data => router
            .route(ADMIT_PATH, post(admit::admit))
            .route(ADMIT_GROUP_PATH, post(admit::admit_group))
            .route(RELEASE_PATH, post(release::release))
            .route(OBSERVE_PATH, post(observe::observe))
            .route(BIND_PATH, post(bind::bind))
            .route(RENEW_PATH, post(renew::renew))
            .route(PRESENCE_PATH, get(presence::presence))
            .route(atomic::PATH, post(atomic::atomic)),
        Api::Worker => router
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
            ),
        Api::Operator => router
            .route("/v1/pools", get(pools::list))
            .route("/v1/pools/{pool}", get(pools::show))
            .route("/v1/pools/{pool}/policy", put(policy::set))
            .route("/v1/pools/{pool}/leases", get(leases::list))
            .route("/v1/pools/{pool}/audit", get(leases::audit))
            .route("/v1/pools/{pool}/explain", post(explain::explain)),
        Api::Metrics => router.route("/metrics", get(metrics::metrics)),
    }
}

/// Why a request has no answer. A denial is an answer and never comes here.
#[derive(Debug)]
enum ApiError {
    NoSuchPath,
    NoSuchMethod,
    /// The listener asks for a token, and this request has none, or another.
    Unauthorized,
    /// The token is good, but not for this.
    Forbidden(String),
    /// More is asked than can be answered: later, perhaps.
    Overloaded,
    /// The request is not what this route reads.
    Invalid {
        status: StatusCode,
        message: String,
    },
    Store(StoreError),
    /// Some of what a sidecar needs is not there.
    NotReady {
        status: StatusCode,
        error: &'static str,
        message: String,
    },
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
                "docs/openapi.yaml (`berth openapi`) has the paths; what a listener does not serve is not there"
                    .into(),
            ),
            Self::NoSuchMethod => (
                StatusCode::METHOD_NOT_ALLOWED,
                "no_such_method",
                "this path is called with another method".into(),
            ),
            Self::Unauthorized => (
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "this needs the header `authorization: Bearer TOKEN`, with a token of its role: \
                 docs/listeners.md"
                    .into(),
            ),
            Self::Forbidden(message) => (StatusCode::FORBIDDEN, "forbidden", message),
            Self::Overloaded => (
                StatusCode::SERVICE_UNAVAILABLE,
                OVERLOADED,
                "this sidecar has as much to do as it may (limits.requests_max): come again".into(),
            ),
            Self::Invalid { status, message } => (status, "invalid", message),
            Self::Store(error) => {
                let (status, word) = word_for(&error);
                if status == StatusCode::INTERNAL_SERVER_ERROR {
                    tracing::error!(%error, "the store and this sidecar disagree");
                }
                (status, word, error.to_string())
            }
            Self::NotReady {
                status,
                error,
                message,
            } => (status, error, message),
        };
        let body = ErrorAnswer {
            error: error.into(),
            message,
        };
        let mut response = (status, Json(body)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// How an error of the store is told: as a status, and as a word.
fn word_for(error: &StoreError) -> (StatusCode, &'static str) {
    match error {
        StoreError::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"),
        StoreError::Unfit(_) => (StatusCode::SERVICE_UNAVAILABLE, "store_unfit"),
        StoreError::Unreplicated { .. } => (StatusCode::SERVICE_UNAVAILABLE, "store_unreplicated"),
        StoreError::UnknownPool(_) => (StatusCode::NOT_FOUND, "unknown_pool"),
        StoreError::UnknownWorker { .. } => (StatusCode::NOT_FOUND, "unknown_worker"),
        StoreError::OthersWorker { .. } => (StatusCode::FORBIDDEN, "forbidden"),
        StoreError::Crowded(_) => (StatusCode::FORBIDDEN, "too_many_workers"),
        StoreError::Reply { .. } | StoreError::Script { .. } | StoreError::Count { .. } => {
            (StatusCode::INTERNAL_SERVER_ERROR, "store_broken")
        }
    }
}
