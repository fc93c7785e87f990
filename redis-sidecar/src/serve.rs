//! Listening and shutting down.

use crate::connection::Host;
use crate::doors::Door;
use crate::doors::keyring::Keyring;
use crate::doors::tls::Certificates;
use crate::routes::router;
use crate::settings::{Listen, Settings};
use crate::store::Store;
use crate::{App, auditor, reaper};
use rustix::process::{Resource, getrlimit};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How long answers in flight may take once a shutdown is asked for.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(
        "cannot listen on {listen}: {error}; change `listen` or `listeners`, or free the address"
    )]
    Listen {
        listen: Listen,
        error: std::io::Error,
    },
    /// A token or a certificate; the sentence names the setting.
    #[error("{0}")]
    Door(String),
    #[error("redis.url: {0}")]
    Redis(String),
}

/// Serves until `stop` is cancelled, then ends gracefully.
pub async fn serve(settings: &Settings, stop: CancellationToken) -> Result<(), ServeError> {
    // First of all: a start that fails must not have changed anything in Redis.
    let mut entrances = Vec::new();
    for listener in listeners(settings)? {
        entrances.push(Entrance::open(listener).await?);
    }

    let store = Store::start(&settings.redis, settings.pools.clone())
        .map_err(|error| ServeError::Redis(error.to_string()))?;
    if settings.pools.is_empty() {
        warn!("no pool is configured: every question will be answered unknown_pool");
    }
    for doubt in settings.doubts() {
        warn!("{doubt}");
    }
    let state = App::with_settings(store.clone(), settings, stop.clone());
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

    let mut sockets = Vec::new();
    let mut servers = JoinSet::new();
    let to_redis = Store::connections_max(&settings.redis)
        .map_err(|error| ServeError::Redis(error.to_string()))?;
    let connections_max = connections_max(settings, entrances.len(), to_redis);
    for Entrance { listener, bound } in entrances {
        let host = Arc::new(Host {
            name: listener.address.to_string(),
            router: router(state.clone(), &listener.door),
            certificates: listener.certificates,
            header_timeout: Duration::from_millis(settings.limits.header_timeout_ms),
            take_timeout: Duration::from_millis(settings.limits.body_timeout_ms),
            places: Arc::new(Semaphore::new(connections_max)),
            metrics: state.metrics(),
            stop: stop.clone(),
            told: Mutex::default(),
        });
        match bound {
            Bound::Tcp(listener) => {
                servers.spawn(host.serve_tcp(listener));
            }
            Bound::Unix(listener, socket) => {
                sockets.push(socket);
                servers.spawn(host.serve_unix(listener));
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

/// One listener as the settings have it, with what it needs to know who comes.
struct Listener {
    address: Listen,
    door: Door,
    certificates: Option<Certificates>,
}

fn listeners(settings: &Settings) -> Result<Vec<Listener>, ServeError> {
    let keyring = Arc::new(Keyring::open(settings).map_err(ServeError::Door)?);
    let plain = settings.listen.iter().map(|address| {
        Ok(Listener {
            address: address.clone(),
            door: Door::open(),
            certificates: None,
        })
    });
    let asking = settings.listeners.iter().map(|listener| {
        let certificates = listener.tls.as_ref().map(Certificates::open).transpose();
        if listener.address.is_remote() && listener.tls.is_none() {
            warn!(listen = %listener.address, "tokens can be read on their way here: set listeners.tls");
        }
        Ok(Listener {
            address: listener.address.clone(),
            door: Door {
                serves: listener.serves.clone(),
                keyring: listener.tokens.then(|| keyring.clone()),
                is_remote: listener.address.is_remote(),
            },
            certificates: certificates.map_err(ServeError::Door)?,
        })
    });
    plain.chain(asking).collect()
}

/// What the settings allow each listener, or what file descriptors there are for it.
fn connections_max(settings: &Settings, listeners: usize, to_redis: usize) -> usize {
    /// Beside those to Redis: for the listeners themselves, the runtime, and files that are read again.
    const DESCRIPTORS_KEPT: u64 = 32;
    let wanted = settings.limits.connections_max;
    let Some(descriptors) = getrlimit(Resource::Nofile).current else {
        return wanted;
    };
    let kept = DESCRIPTORS_KEPT + to_redis as u64;
    let each = descriptors.saturating_sub(kept) / (listeners.max(1) as u64);
    let possible = usize::try_from(each).unwrap_or(usize::MAX).max(1);
    if possible < wanted {
        info!(
            possible,
            wanted,
            descriptors,
            "fewer connections than limits.connections_max: raise `ulimit -n` for more"
        );
    }
    wanted.min(possible)
}

struct Entrance {
    listener: Listener,
    bound: Bound,
}

impl Entrance {
    async fn open(listener: Listener) -> Result<Self, ServeError> {
        let bound = Bound::to(&listener.address).await;
        let bound = bound.map_err(|error| ServeError::Listen {
            listen: listener.address.clone(),
            error,
        })?;
        info!(listen = %listener.address, "listening");
        Ok(Self { listener, bound })
    }
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
