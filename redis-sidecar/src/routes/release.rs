use super::extract::Body;
use super::{ApiError, App, Json};
use admission::message::{BATCH_MAX, ReleaseAnswer, ReleaseRequest};
use axum::extract::State;

pub(super) async fn release(
    State(app): State<App>,
    Body(request, _held): Body<ReleaseRequest>,
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
    let held = app
        .within_budget(app.store.release(&pool, &holder.epoch, &releases))
        .await?;
    // A repeated release was counted when it came first.
    for (release, _) in releases.iter().zip(&held).filter(|(_, held)| **held) {
        app.metrics.released(&pool, release);
    }
    Ok(Json(ReleaseAnswer::of(&held)))
}
