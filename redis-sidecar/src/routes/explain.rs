use super::extract::{Body, InPool};
use super::{ApiError, App, Json};
use crate::explain::{ExplainRequest, Explanation};
use axum::extract::State;

pub(super) async fn explain(
    State(app): State<App>,
    InPool(pool): InPool,
    Body(request, _held): Body<ExplainRequest>,
) -> Result<Json<Explanation>, ApiError> {
    let work = app.store.explain(&pool, &request);
    Ok(Json(app.within_budget(work).await?))
}
