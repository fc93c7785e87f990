use super::extract::{Body, OfWorker};
use super::{ApiError, App};
use admission::message::{HeartbeatRequest, RegisterRequest, WorkerAnswer};
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

/// A weight outside is a mistake, and would make one worker take all or nothing.
const WEIGHTS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

pub(super) async fn register(
    State(app): State<App>,
    path: OfWorker,
    Body(request): Body<RegisterRequest>,
) -> Result<Json<WorkerAnswer>, ApiError> {
    if !WEIGHTS.contains(&request.weight) {
        return Err(ApiError::bad_request(
            "weight must be between 0.001 and 1000",
        ));
    }
    if request.max_concurrent == Some(0) {
        return Err(ApiError::bad_request(
            "max_concurrent must be above 0; drain a worker instead",
        ));
    }
    if request.lifetime > Some(u64::from(u32::MAX)) {
        return Err(ApiError::bad_request("lifetime must be below 2^32"));
    }
    let work = app.store.register(&path.pool, &path.worker, &request);
    Ok(Json(app.within_budget(work).await?))
}

pub(super) async fn heartbeat(
    State(app): State<App>,
    path: OfWorker,
    Body(request): Body<HeartbeatRequest>,
) -> Result<Json<WorkerAnswer>, ApiError> {
    if let Some(report) = &request.report {
        report.validate().map_err(ApiError::bad_request)?;
    }
    let work = app.store.heartbeat(&path.pool, &path.worker, &request);
    Ok(Json(app.within_budget(work).await?))
}

pub(super) async fn drain(
    State(app): State<App>,
    path: OfWorker,
) -> Result<Json<WorkerAnswer>, ApiError> {
    let work = app.store.drain(&path.pool, &path.worker);
    Ok(Json(app.within_budget(work).await?))
}

pub(super) async fn remove(
    State(app): State<App>,
    path: OfWorker,
) -> Result<Json<Value>, ApiError> {
    let work = app.store.remove(&path.pool, &path.worker);
    let active = app.within_budget(work).await?;
    Ok(Json(json!({ "active": active })))
}
