use super::{ApiError, App};
use crate::error::StoreError;
use admission::id::PoolName;
use axum::extract::State;

/// The process lives.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// A real script ran in Redis just now, and nothing speaks against admitting.
pub(super) async fn readyz(State(app): State<App>) -> Result<&'static str, ApiError> {
    for pool in app.store.pools() {
        if let Some(unfit) = app.store.unfit(Some(pool)) {
            return Err(ApiError::Store(StoreError::Unfit(unfit)));
        }
    }
    let pool = match app.store.pools().next() {
        Some(pool) => pool.clone(),
        None => {
            PoolName::parse("none").map_err(|error| ApiError::bad_request(error.to_string()))?
        }
    };
    match app.within_budget(app.store.reap(&pool)).await {
        // No pool is configured, but the script ran to find that out.
        Err(ApiError::Store(StoreError::UnknownPool(_))) | Ok(_) => Ok("ready\n"),
        Err(error) => Err(error),
    }
}
