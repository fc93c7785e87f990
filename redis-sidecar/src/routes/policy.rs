use super::extract::{Body, InPool};
use super::{ApiError, App, Json};
use crate::error::StoreError;
use admission::policy::Policy;
use axum::extract::State;
use serde_json::{Value, json};

/// Settings that are left out get their defaults: what is sent is the whole policy.
pub(super) async fn set(
    State(app): State<App>,
    InPool(pool): InPool,
    Body(policy, _held): Body<Policy>,
) -> Result<Json<Value>, ApiError> {
    if app.store.policy(&pool).is_none() {
        // Nobody would look after a pool that no settings file names.
        return Err(ApiError::Store(StoreError::UnknownPool(pool)));
    }
    policy
        .validate()
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let work = async { app.store.apply(&pool, &policy).await.map_err(unsure) };
    let version = app.within_budget(work).await?;
    tracing::info!(%pool, version, strategy = ?policy.strategy, "the pool has a new policy");
    Ok(Json(json!({ "version": version })))
}

/// A change that took too long to be answered may have been made.
fn unsure(error: StoreError) -> StoreError {
    if let StoreError::Unavailable(why) = error {
        let advice = "the policy may have been changed all the same: look at the pool";
        StoreError::Unavailable(format!("{why}; {advice}"))
    } else {
        error
    }
}
