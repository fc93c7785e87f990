use super::extract::Body;
use super::{ApiError, App, Json};
use admission::message::{BATCH_MAX, ObserveAnswer, ObserveRequest};
use axum::extract::State;

pub(super) async fn observe(
    State(app): State<App>,
    Body(request, _held): Body<ObserveRequest>,
) -> Result<Json<ObserveAnswer>, ApiError> {
    let ObserveRequest {
        pool,
        holder,
        observations,
    } = request;
    if observations.len() > BATCH_MAX {
        return Err(ApiError::bad_request(format!(
            "at most {BATCH_MAX} observations in one call"
        )));
    }
    if observations
        .iter()
        .any(|seen| seen.lease.epoch != holder.epoch)
    {
        return Err(ApiError::bad_request("a lease belongs to another holder"));
    }
    let answer = app
        .within_budget(app.store.observe(&pool, &holder.epoch, &observations))
        .await?;
    for seen in &observations {
        app.metrics.observed(&pool, seen);
    }
    Ok(Json(answer))
}
