//! Asks for tokens, before anything else of a request is read.

use super::{ApiError, App};
use crate::doors::Door;
use crate::doors::keyring::{Keyring, Refusal};
use crate::metrics::Metrics;
use crate::metrics::doors::Reason;
use crate::settings::Api;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use std::sync::Arc;

#[derive(Debug, Clone)]
struct Guard {
    api: Api,
    keyring: Arc<Keyring>,
    metrics: Arc<Metrics>,
}

/// The routes of one part, behind their token if this door asks for one.
pub(super) fn guarded(routes: Router<App>, api: Api, door: &Door, app: &App) -> Router<App> {
    match &door.keyring {
        Some(keyring) if keyring.asks(api) => {
            let guard = Guard {
                api,
                keyring: keyring.clone(),
                metrics: app.metrics(),
            };
            routes.route_layer(from_fn_with_state(guard, ask))
        }
        Some(_) | None => routes,
    }
}

async fn ask(
    State(guard): State<Guard>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    match guard.keyring.admit(guard.api, shown(request.headers())) {
        Ok(rights) => {
            request.extensions_mut().insert(rights);
            Ok(next.run(request).await)
        }
        Err(refusal) => {
            let reason = match refusal {
                Refusal::NoToken => Reason::NoToken,
                Refusal::WrongToken => Reason::WrongToken,
            };
            guard.metrics.doors.unauthorized(guard.api, reason);
            tracing::info!(api = guard.api.as_str(), ?reason, "not let in");
            Err(ApiError::Unauthorized)
        }
    }
}

/// `authorization: Bearer TOKEN`; of two such headers neither counts.
pub(super) fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.as_bytes();
    let scheme = value.get(..7)?;
    let fits = scheme.eq_ignore_ascii_case(b"bearer ") && values.next().is_none();
    fits.then(|| value[7..].trim_ascii())
}
