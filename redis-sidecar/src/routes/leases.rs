use super::extract::InPool;
use super::{ApiError, App, Json};
use crate::lease_view::{Audit, LeaseView};
use axum::extract::State;
use std::time::Duration;

/// Many scripts for each holder, or one long one: operators can wait.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn list(
    State(app): State<App>,
    InPool(pool): InPool,
) -> Result<Json<Vec<LeaseView>>, ApiError> {
    Ok(Json(app.within(TIMEOUT, app.store.leases(&pool)).await?))
}

pub(super) async fn audit(
    State(app): State<App>,
    InPool(pool): InPool,
) -> Result<Json<Audit>, ApiError> {
    Ok(Json(app.within(TIMEOUT, app.store.audit(&pool)).await?))
}
