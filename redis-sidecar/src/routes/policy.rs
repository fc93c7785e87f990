use super::extract::{Body, InPool};
use super::{ApiError, App};
use admission::policy::Policy;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

/// Settings that are left out get their defaults: what is sent is the whole policy.
pub(super) async fn set(
    State(app): State<App>,
    InPool(pool): InPool,
    Body(policy): Body<Policy>,
) -> Result<Json<Value>, ApiError> {
    policy
        .validate()
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let work = app.store.apply(&pool, &policy);
    let version = app.within_budget(work).await?;
    tracing::info!(%pool, version, strategy = ?policy.strategy, "the pool has a new policy");
    Ok(Json(json!({ "version": version })))
}
