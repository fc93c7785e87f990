use super::guard::shown;
use super::{ApiError, App, word_for};
use crate::doors::Door;
use crate::error::StoreError;
use admission::id::PoolName;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The process lives.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// What was found out this long ago is true enough for a health check.
const FRESH: Duration = Duration::from_millis(20);
/// So many pools or servers are told of; a sentence is no list.
const TOLD_MAX: usize = 5;

/// A real script ran in Redis just now for every pool of the settings, and nothing speaks against admitting:
/// every server that pools may live on is there and fit. Everybody may ask, without a token, so however many
/// do, one round runs at a time, and takes no room from questions; and only those whom the door confides in
/// hear more than a word.
pub(super) async fn readyz(
    State(app): State<App>,
    Extension(door): Extension<Arc<Door>>,
    headers: HeaderMap,
) -> Result<&'static str, ApiError> {
    let Err(faults) = app.is_ready().await else {
        return Ok("ready\n");
    };
    let (status, error) = match faults.first() {
        Some((_, error)) => word_for(error),
        None => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"),
    };
    let message = if door.confides(shown(&headers)) {
        sentence(&faults)
    } else {
        "not ready; the reason is told on its own host, and to operators".into()
    };
    Err(ApiError::NotReady {
        status,
        error,
        message,
    })
}

/// What does not work, and why.
type Faults = Vec<(String, StoreError)>;

impl App {
    async fn is_ready(&self) -> Result<(), Faults> {
        let faults = self.store.faults();
        if !faults.is_empty() {
            self.metrics.store_failed();
            return Err(faults);
        }
        let turn = tokio::time::timeout(self.answer_timeout, self.ready_at.lock());
        let mut ready_at = turn.await.map_err(|_| {
            let late = StoreError::Unavailable("many ask whether it is ready".into());
            vec![("this sidecar".into(), late)]
        })?;
        if ready_at.is_some_and(|at| at.elapsed() < FRESH) {
            return Ok(());
        }
        self.look_at_pools().await?;
        *ready_at = Some(Instant::now());
        Ok(())
    }

    /// All at once: each may wait for another server.
    async fn look_at_pools(&self) -> Result<(), Faults> {
        let mut pools: Vec<PoolName> = self.store.pools().cloned().collect();
        if pools.is_empty() {
            // No pool is configured, but a script runs to find that out.
            pools.extend(PoolName::parse("none"));
        }
        let mut looks = JoinSet::new();
        for pool in pools {
            let app = self.clone();
            looks.spawn(async move {
                match app.wait(app.answer_timeout, app.store.reap(&pool)).await {
                    Err(ApiError::Store(error)) if !is_unknown(&error) => {
                        Some((format!("pool {pool}"), error))
                    }
                    _ => None,
                }
            });
        }
        let mut faults: Faults = looks.join_all().await.into_iter().flatten().collect();
        faults.sort_by(|one, other| one.0.cmp(&other.0));
        if faults.is_empty() {
            return Ok(());
        }
        Err(faults)
    }
}

fn is_unknown(error: &StoreError) -> bool {
    matches!(error, StoreError::UnknownPool(_))
}

/// `pool a, pool b: no answer within the budget`: whoever shares a reason is named before it.
fn sentence(faults: &[(String, StoreError)]) -> String {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for (what, error) in faults {
        let reason = error.to_string();
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, named)) => named.push(what),
            None => reasons.push((reason, vec![what])),
        }
    }
    let told = reasons.iter().map(|(reason, named)| {
        let more = match named.len().saturating_sub(TOLD_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named: Vec<&str> = named.iter().take(TOLD_MAX).copied().collect();
        format!("{}{more}: {reason}", named.join(", "))
    });
    told.take(TOLD_MAX).collect::<Vec<_>>().join("; ")
}
