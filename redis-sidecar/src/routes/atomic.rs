use super::extract::Body;
use super::{ApiError, App, Json};
use crate::atomic::{AtomicAnswer, AtomicRequest, CountKey, Done, Operation, Outcome};
use crate::doors::crowd::Room;
use crate::error::StoreError;
use axum::extract::State;
use tokio::sync::oneshot;
use tracing::Instrument;

pub(super) const PATH: &str = "/redis/atomic";

pub(super) async fn atomic(
    State(app): State<App>,
    Body(request, _held): Body<AtomicRequest>,
) -> Result<Json<AtomicAnswer>, ApiError> {
    let (key, operation) = request.checked().map_err(ApiError::bad_request)?;
    let room = app.room(1)?;
    let (tell, hear) = oneshot::channel();
    tokio::spawn(ask(app.clone(), key, operation, room, tell).in_current_span());
    let ended = || StoreError::Unavailable("the question was dropped".into());
    let done = app
        .wait(app.answer_timeout, async {
            hear.await.unwrap_or_else(|_| Err(ended()))
        })
        .await?;
    Ok(Json(done.answer))
}

/// Runs apart from the request, like an admission: what was counted for a caller that has left is
/// given back.
async fn ask(
    app: App,
    key: CountKey,
    operation: Operation,
    _room: Room,
    tell: oneshot::Sender<Result<Done, StoreError>>,
) {
    let result = perform(&app, &key, &operation).await;
    if let Err(Ok(unheard)) = tell.send(result)
        && unheard.outcome == Outcome::Allowed
        && let Some(undone) = operation.undone()
        && let Err(error) = perform(&app, &key, &undone).await
    {
        tracing::debug!(%error, "a count that nobody heard of is not given back");
    }
}

async fn perform(app: &App, key: &CountKey, operation: &Operation) -> Result<Done, StoreError> {
    let result = app.store.atomic(key, operation).await;
    if let Ok(done) = &result {
        app.metrics.atomic.done(operation.as_str(), done);
    }
    result
}
