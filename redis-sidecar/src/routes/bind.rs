use super::extract::Body;
use super::{ApiError, App, Json};
use admission::message::{BindAnswer, BindRequest};
use axum::extract::State;

pub(super) async fn bind(
    State(app): State<App>,
    Body(request, _held): Body<BindRequest>,
) -> Result<Json<BindAnswer>, ApiError> {
    if request.lease.epoch != request.holder.epoch {
        return Err(ApiError::bad_request("the lease belongs to another holder"));
    }
    let answer = app.within_budget(app.store.bind(&request)).await?;
    Ok(Json(answer))
}
