use super::extract::Body;
use super::{ApiError, App};
use crate::doors::crowd::Room;
use crate::error::StoreError;
use admission::message::{AdmitAnswer, AdmitRequest, Release};
use axum::Json;
use axum::extract::State;
use std::time::Instant;
use tokio::sync::oneshot;
use tracing::Instrument;

pub(super) async fn admit(
    State(app): State<App>,
    Body(request, _held): Body<AdmitRequest>,
) -> Result<Json<AdmitAnswer>, ApiError> {
    if request.lease.epoch != request.holder.epoch {
        return Err(ApiError::bad_request("the lease belongs to another holder"));
    }
    let room = app.room()?;
    app.metrics.seen(&request.holder.proxy);
    let (tell, hear) = oneshot::channel();
    tokio::spawn(ask(app.clone(), request, room, tell).in_current_span());
    let ended = || StoreError::Unavailable("the question was dropped".into());
    let answer = app
        .wait(app.answer_timeout, async {
            hear.await.unwrap_or_else(|_| Err(ended()))
        })
        .await?;
    Ok(Json(answer))
}

/// Runs apart from the request: axum drops a handler when its caller leaves, and a script that is
/// already on its way would leave a lease that nobody knows of.
async fn ask(
    app: App,
    request: AdmitRequest,
    _room: Room,
    tell: oneshot::Sender<Result<AdmitAnswer, StoreError>>,
) {
    let started = Instant::now();
    let result = app.store.admit(&request).await;
    if let Ok(answer) = &result {
        app.metrics
            .decided(&request.pool, answer, started.elapsed());
    }
    if let Err(Ok(AdmitAnswer::Admitted(_))) = tell.send(result) {
        app.metrics.unheard(&request.pool);
        let release = Release::unused(request.lease);
        // The filter releases what it gave up on, too: if this fails, that does not.
        let epoch = &request.holder.epoch;
        if let Err(error) = app.store.release(&request.pool, epoch, &[release]).await {
            tracing::debug!(%error, "a lease that nobody heard of is not released yet");
        }
    }
}
