//! Listening and shutting down.

use crate::settings::{Listen, Settings};
use crate::store::Store;
use crate::{App, app, auditor, connection, reaper};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
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
}

/// Serves until `stop` is cancelled, then ends gracefully.
pub async fn serve(settings: &Settings, stop: CancellationToken) -> Result<(), ServeError> {
    // First of all: a start that fails must not have changed anything in Redis.
    let mut bound = Vec::new();
    for listen in &settings.listen {
        bound.push(
            Bound::to(listen)
                .await
                .map_err(|error| ServeError::Listen {
                    listen: listen.clone(),
                    error,
                })?,
        );
        info!(%listen, "listening");
    }

    let store = Store::start(&settings.redis, settings.pools.clone())
        .map_err(|error| ServeError::Redis(error.to_string()))?;
    if settings.pools.is_empty() {
        warn!("no pool is configured: every question will be answered unknown_pool");
    }
    let state = App::stopping_with(
        store.clone(),
        Duration::from_millis(settings.answer_timeout_ms),
        stop.clone(),
    );
    let reaper = tokio::spawn(reaper::run(
        store.clone(),
        state.presences().clone(),
        Duration::from_millis(settings.reap_ms),
    ));
    let auditor = (settings.audit_s > 0).then(|| {
        let every = Duration::from_secs(settings.audit_s);
        tokio::spawn(auditor::run(store.clone(), state.metrics(), every))
    });
    let applied = tokio::spawn(apply_pools(store));

    let router = app(state);
    let mut sockets = Vec::new();
    let mut servers = JoinSet::new();
    for bound in bound {
        let (router, stop) = (router.clone(), stop.clone());
        match bound {
            Bound::Tcp(listener) => {
                servers.spawn(connection::serve_tcp(listener, router, stop));
            }
            Bound::Unix(listener, socket) => {
                sockets.push(socket);
                servers.spawn(connection::serve_unix(listener, router, stop));
            }
        }
    }

    stop.cancelled().await;
    reaper.abort();
    applied.abort();
    if let Some(auditor) = auditor {
        auditor.abort();
    }
    if tokio::time::timeout(SHUTDOWN_GRACE, servers.join_all())
        .await
        .is_err()
    {
        warn!("some answers did not end in time");
    }
    Ok(())
}

enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

impl Bound {
    async fn to(listen: &Listen) -> std::io::Result<Self> {
        match listen {
            Listen::Tcp(address) => TcpListener::bind(address).await.map(Self::Tcp),
            Listen::Unix(path) => bind_unix(path),
        }
    }
}

/// A socket's file, removed with its listener, unless another process has put its own there.
struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            identity: identity(path),
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Which file is at this path.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// A change of the file reaches Redis at the start; a Redis that is away gets it once it is back.
async fn apply_pools(store: Store) {
    const PAUSE: Duration = Duration::from_millis(100);
    if store.pools().next().is_none() {
        return;
    }
    while let Err(error) = store.apply_pools().await {
        tracing::debug!(%error, "the settings file's pools are not applied yet");
        tokio::time::sleep(PAUSE).await;
    }
    info!("the settings file's pools are applied");
}

/// A socket that a killed sidecar left behind is replaced; one that still answers is not, nor anything
/// that is no socket.
fn bind_unix(path: &Path) -> std::io::Result<Bound> {
    if let Ok(metadata) = std::fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            let reason = "there is a file of that name that is no socket";
            return Err(std::io::Error::new(
                std::io::ErrorKind::AlreadyExists,
                reason,
            ));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(std::io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(Bound::Unix(listener, SocketFile::new(path)))
}
