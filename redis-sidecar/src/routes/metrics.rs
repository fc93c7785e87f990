use super::{ApiError, App};
use axum::extract::State;
use axum::http::{HeaderName, header};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Without Redis the sidecar's own figures are still told.
pub(super) async fn metrics(
    State(app): State<App>,
) -> Result<([(HeaderName, &'static str); 1], String), ApiError> {
    let mut pools = Vec::new();
    for pool in app.store.pools() {
        if let Ok(page) = app.within_budget(app.store.view_page(pool, "0")).await {
            pools.push((pool.clone(), page));
        }
    }
    (app.metrics).store_seen(&app.store);
    let text = app
        .metrics
        .encode(&pools)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], text))
}
