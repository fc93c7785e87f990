//! Listening and shutting down.

use crate::settings::{Listen, Settings};
use crate::store::Store;
use crate::{App, app, reaper};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How long answers in flight may take once a shutdown is asked for.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {listen}: {error}; change `listen` or free the address")]
    Listen {
        listen: Listen,
        error: std::io::Error,
    },
    #[error("redis.url: {0}")]
    Redis(String),
    #[error("the server ended: {0}")]
    Ended(std::io::Error),
}

/// Serves until `stop` is cancelled, then ends gracefully.
pub async fn serve(settings: &Settings, stop: CancellationToken) -> Result<(), ServeError> {
    let store = Store::start(&settings.redis, settings.pools.clone())
        .map_err(|error| ServeError::Redis(error.to_string()))?;
    let router = app(App::new(
        store.clone(),
        Duration::from_millis(settings.answer_timeout_ms),
    ));
    let reaper = tokio::spawn(reaper::run(
        store.clone(),
        Duration::from_millis(settings.reap_ms),
    ));
    let applied = tokio::spawn(apply_pools(store));

    let mut servers = JoinSet::new();
    for listen in &settings.listen {
        let stopped = stop.clone().cancelled_owned();
        let refused = |error| ServeError::Listen {
            listen: listen.clone(),
            error,
        };
        match listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await.map_err(refused)?;
                let server = axum::serve(listener, router.clone()).with_graceful_shutdown(stopped);
                servers.spawn(async { server.await });
            }
            Listen::Unix(path) => {
                let listener = bind_unix(path).map_err(refused)?;
                let server = axum::serve(listener, router.clone()).with_graceful_shutdown(stopped);
                servers.spawn(async { server.await });
            }
        }
        info!(%listen, "listening");
    }

    let result = tokio::select! {
        ended = servers.join_next() => ended,
        () = stop.cancelled() => None,
    };
    reaper.abort();
    applied.abort();
    if let Some(Ok(Err(error))) = result {
        return Err(ServeError::Ended(error));
    }
    if tokio::time::timeout(SHUTDOWN_GRACE, servers.join_all())
        .await
        .is_err()
    {
        warn!("some answers did not end in time");
    }
    for listen in &settings.listen {
        if let Listen::Unix(path) = listen {
            let _ = std::fs::remove_file(path);
        }
    }
    Ok(())
}

/// A change of the file reaches Redis at the start; a Redis that is away gets it once it is back.
async fn apply_pools(store: Store) {
    const PAUSE: Duration = Duration::from_millis(100);
    while let Err(error) = store.apply_pools().await {
        tracing::debug!(%error, "the settings file's pools are not applied yet");
        tokio::time::sleep(PAUSE).await;
    }
    info!("the settings file's pools are applied");
}

/// A socket that a killed sidecar left behind is replaced; one that still answers is not.
fn bind_unix(path: &Path) -> std::io::Result<UnixListener> {
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(std::io::ErrorKind::AddrInUse.into());
    }
    if path.exists() {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
