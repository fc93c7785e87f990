use super::extract::Body;
use super::{ApiError, App};
use admission::message::{BATCH_MAX, ReleaseAnswer, ReleaseRequest};
use axum::Json;
use axum::extract::State;

pub(super) async fn release(
    State(app): State<App>,
    Body(request): Body<ReleaseRequest>,
) -> Result<Json<ReleaseAnswer>, ApiError> {
    let ReleaseRequest {
        pool,
        holder,
        releases,
    } = request;
    if releases.len() > BATCH_MAX {
        return Err(ApiError::bad_request(format!(
            "at most {BATCH_MAX} releases in one call"
        )));
    }
    if releases
        .iter()
        .any(|release| release.lease.epoch != holder.epoch)
    {
        return Err(ApiError::bad_request("a lease belongs to another holder"));
    }
    app.metrics.seen(&holder.proxy);
    let answer = app
        .within_budget(app.store.release(&pool, &holder.epoch, &releases))
        .await?;
    for release in &releases {
        app.metrics.released(&pool, release);
    }
    Ok(Json(answer))
}
