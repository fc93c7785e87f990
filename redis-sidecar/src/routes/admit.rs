use super::extract::Body;
use super::{ApiError, App, Json};
use crate::doors::crowd::Room;
use crate::error::StoreError;
use admission::id::{Epoch, PoolName};
use admission::message::{
    AdmitAnswer, AdmitGroupAnswer, AdmitGroupRequest, AdmitRequest, Answer, GROUP_MAX, Release,
};
use axum::extract::State;
use futures_util::future::join_all;
use std::time::Instant;
use tokio::sync::oneshot;
use tracing::Instrument;

/// What became of each question, in their order.
type Decisions = Vec<Result<AdmitAnswer, StoreError>>;

pub(super) async fn admit(
    State(app): State<App>,
    Body(request, _held): Body<AdmitRequest>,
) -> Result<Json<AdmitAnswer>, ApiError> {
    if request.lease.epoch != request.holder.epoch {
        return Err(ApiError::bad_request("the lease belongs to another holder"));
    }
    let mut decisions = decide(&app, vec![request]).await?;
    let decision = decisions.pop().unwrap_or_else(|| Err(dropped()));
    Ok(Json(decision.map_err(ApiError::Store)?))
}

pub(super) async fn admit_group(
    State(app): State<App>,
    Body(request, _held): Body<AdmitGroupRequest>,
) -> Result<Json<AdmitGroupAnswer>, ApiError> {
    if !(1..=GROUP_MAX).contains(&request.questions.len()) {
        return Err(ApiError::bad_request(format!(
            "questions: from 1 to {GROUP_MAX} in one call"
        )));
    }
    let numbers: Vec<u64> = request.questions.iter().map(|it| it.number).collect();
    let each = (request.into_each()).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let decisions = decide(&app, each).await?;
    let (mut answers, mut failure) = (Vec::new(), None);
    for (number, decision) in numbers.into_iter().zip(decisions) {
        match decision {
            Ok(answer) => answers.push(Answer::new(number, answer)),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        // Whoever has an answer gets it; the others' fate is not known.
        Some(error) if answers.is_empty() => Err(ApiError::Store(error)),
        Some(_) | None => Ok(Json(AdmitGroupAnswer { answers })),
    }
}

/// Questions of one holder to one pool.
async fn decide(app: &App, requests: Vec<AdmitRequest>) -> Result<Decisions, ApiError> {
    let room = app.room(requests.len())?;
    if let Some(first) = requests.first() {
        app.metrics.seen(&first.holder.proxy);
    }
    let (tell, hear) = oneshot::channel();
    // In a box: a task is moved several times before it runs, and this one has all that a call to Redis needs.
    tokio::spawn(Box::pin(ask(app.clone(), requests, room, tell)).in_current_span());
    let heard = async { hear.await.map_err(|_| dropped()) };
    let decisions = app.wait(app.answer_timeout, heard).await?;
    for error in decisions.iter().filter_map(|it| it.as_ref().err()) {
        app.count_failure(error);
    }
    Ok(decisions)
}

fn dropped() -> StoreError {
    StoreError::Unavailable("the question was dropped".into())
}

/// Runs apart from the request: axum drops a handler when its caller leaves, and a script that is
/// already on its way would leave a lease that nobody knows of.
async fn ask(app: App, requests: Vec<AdmitRequest>, _room: Room, tell: oneshot::Sender<Decisions>) {
    let started = Instant::now();
    let decisions = join_all(requests.iter().map(|request| app.store.admit(request))).await;
    for (request, decision) in requests.iter().zip(&decisions) {
        if let Ok(answer) = decision {
            let took = started.elapsed();
            app.metrics.decided(&request.pool, answer, took);
        }
    }
    if let Err(unheard) = tell.send(decisions) {
        take_back(&app, &requests, unheard).await;
    }
}

/// Leases that nobody heard of. The filter releases what it gave up on, too: if this fails, that does not.
async fn take_back(app: &App, requests: &[AdmitRequest], unheard: Decisions) {
    let Some((pool, epoch)) = whose(requests) else {
        return;
    };
    let admitted = (requests.iter().zip(unheard))
        .filter(|(_, decision)| matches!(decision, Ok(AdmitAnswer::Admitted(_))));
    let releases: Vec<_> = admitted
        .map(|(request, _)| Release::unused(request.lease.clone()))
        .collect();
    if releases.is_empty() {
        return;
    }
    for _ in &releases {
        app.metrics.unheard(pool);
    }
    if let Err(error) = app.store.release(pool, epoch, &releases).await {
        tracing::debug!(%error, "leases that nobody heard of are not released yet");
    }
}

fn whose(requests: &[AdmitRequest]) -> Option<(&PoolName, &Epoch)> {
    let first = requests.first()?;
    Some((&first.pool, &first.holder.epoch))
}
