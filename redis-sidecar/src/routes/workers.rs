use super::extract::{Body, OfWorker};
use super::{ApiError, App, Json};
use admission::message::{HeartbeatRequest, RegisterRequest, WorkerAnswer};
use axum::extract::State;
use serde_json::{Value, json};

/// A weight below is a mistake, and would make a worker take nothing.
const WEIGHT_MIN: f64 = 0.001;

pub(super) async fn register(
    State(app): State<App>,
    path: OfWorker,
    Body(request, _held): Body<RegisterRequest>,
) -> Result<Json<WorkerAnswer>, ApiError> {
    let rules = &app.worker_rules;
    let address = request.address.socket();
    (rules.check_address(address))
        .and_then(|()| path.rights.check_address(address))
        .map_err(|message| app.forbidden(message))?;
    let weight_max = rules.weight_max;
    if !(WEIGHT_MIN..=weight_max).contains(&request.weight) {
        return Err(ApiError::bad_request(format!(
            "weight must be between {WEIGHT_MIN} and {weight_max} (workers.weight_max)"
        )));
    }
    if request.max_concurrent == Some(0) {
        return Err(ApiError::bad_request(
            "max_concurrent must be above 0; drain a worker instead",
        ));
    }
    if request.lifetime > Some(u64::from(u32::MAX)) {
        return Err(ApiError::bad_request("lifetime must be below 2^32"));
    }
    let work = path
        .speaker(&app)
        .register(&path.pool, &path.worker, &request);
    Ok(Json(app.within_budget(work).await?))
}

pub(super) async fn heartbeat(
    State(app): State<App>,
    path: OfWorker,
    Body(request, _held): Body<HeartbeatRequest>,
) -> Result<Json<WorkerAnswer>, ApiError> {
    if let Some(report) = &request.report {
        report.validate().map_err(ApiError::bad_request)?;
    }
    let work = path
        .speaker(&app)
        .heartbeat(&path.pool, &path.worker, &request);
    Ok(Json(app.within_budget(work).await?))
}

pub(super) async fn drain(
    State(app): State<App>,
    path: OfWorker,
) -> Result<Json<WorkerAnswer>, ApiError> {
    let work = path.speaker(&app).drain(&path.pool, &path.worker);
    Ok(Json(app.within_budget(work).await?))
}

pub(super) async fn remove(
    State(app): State<App>,
    path: OfWorker,
) -> Result<Json<Value>, ApiError> {
    let work = path.speaker(&app).remove(&path.pool, &path.worker);
    let active = app.within_budget(work).await?;
    Ok(Json(json!({ "active": active })))
}
