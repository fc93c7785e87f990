use super::{ApiError, App};
use crate::error::StoreError;
use admission::id::PoolName;
use axum::extract::State;
use std::time::{Duration, Instant};

/// The process lives.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// What was found out this long ago is true enough for a health check.
const FRESH: Duration = Duration::from_millis(20);

/// A real script ran in Redis just now, and nothing speaks against admitting. Everybody may ask, without a
/// token, so however many do, one script runs at a time, and takes no room from questions.
pub(super) async fn readyz(State(app): State<App>) -> Result<&'static str, ApiError> {
    for pool in app.store.pools() {
        if let Some(unfit) = app.store.unfit(Some(pool)) {
            return Err(ApiError::Store(StoreError::Unfit(unfit)));
        }
    }
    let late = |_| {
        ApiError::Store(StoreError::Unavailable(
            "many ask whether it is ready".into(),
        ))
    };
    let turn = tokio::time::timeout(app.answer_timeout, app.ready_at.lock());
    let mut ready_at = turn.await.map_err(late)?;
    if ready_at.is_some_and(|at| at.elapsed() < FRESH) {
        return Ok("ready\n");
    }
    let pool = match app.store.pools().next() {
        Some(pool) => pool.clone(),
        None => {
            PoolName::parse("none").map_err(|error| ApiError::bad_request(error.to_string()))?
        }
    };
    match app.wait(app.answer_timeout, app.store.reap(&pool)).await {
        // No pool is configured, but the script ran to find that out.
        Err(ApiError::Store(StoreError::UnknownPool(_))) | Ok(_) => {
            *ready_at = Some(Instant::now());
            Ok("ready\n")
        }
        Err(error) => Err(error),
    }
}
