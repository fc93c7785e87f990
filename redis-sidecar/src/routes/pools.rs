use super::extract::InPool;
use super::{ApiError, App, Json};
use crate::view::PoolView;
use axum::extract::State;
use serde_json::{Value, json};

pub(super) async fn list(State(app): State<App>) -> Json<Value> {
    let pools: Vec<_> = app.store.pools().collect();
    Json(json!({ "pools": pools }))
}

pub(super) async fn show(
    State(app): State<App>,
    InPool(pool): InPool,
) -> Result<Json<PoolView>, ApiError> {
    let work = app.store.view(&pool);
    Ok(Json(app.within_budget(work).await?))
}
