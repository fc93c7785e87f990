//! The connection to Redis: kept by a task of its own, so that a request finds it either ready or
//! absent and never waits for a connect.

use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, IntoConnectionInfo, RedisError, RedisResult,
    ServerErrorKind,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tracing::{info, warn};

/// First pause after a failed connect; it doubles up to the maximum.
const RECONNECT_MIN: Duration = Duration::from_millis(20);
/// A Redis that returns is noticed within this time, well below the 2 s promised.
const RECONNECT_MAX: Duration = Duration::from_millis(500);
/// A host that vanished without a word is noticed by the kernel after this.
const DEAD_PEER: Duration = Duration::from_secs(5);

/// One connection's life. Its number tells a late failure of an old one from a failure of the
/// present one.
#[derive(Clone)]
struct Connected {
    number: u64,
    connection: MultiplexedConnection,
    /// Which server it leads to: one that was started anew, or another than before, may have lost data.
    server: Arc<str>,
}

struct Shared {
    current: RwLock<Option<Connected>>,
    broken: Notify,
    losses: AtomicU64,
}

impl Shared {
    fn current(&self) -> Option<Connected> {
        self.current
            .read()
            .unwrap_or_else(|lock| lock.into_inner())
            .clone()
    }

    fn set(&self, connected: Option<Connected>) {
        *self
            .current
            .write()
            .unwrap_or_else(|lock| lock.into_inner()) = connected;
    }
}

#[derive(Clone)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    keeper: Arc<tokio::task::JoinHandle<()>>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("up", &self.is_up()).finish()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The keeper ends with the last clone.
        if Arc::strong_count(&self.keeper) == 1 {
            self.keeper.abort();
        }
    }
}

impl Link {
    /// Starts to connect. Must be called inside a tokio runtime.
    pub(crate) fn start(url: &str, timeout: Duration) -> RedisResult<Self> {
        let keepalive = TcpKeepalive::new()
            .with_time(DEAD_PEER)
            .with_interval(DEAD_PEER);
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(keepalive)
            .set_user_timeout(DEAD_PEER);
        let client = Client::open(url.into_connection_info()?.set_tcp_settings(tcp))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout));
        let shared = Arc::new(Shared {
            current: RwLock::new(None),
            broken: Notify::new(),
            losses: AtomicU64::new(0),
        });
        let keeper = tokio::spawn(keep_connected(client, config, shared.clone()));
        Ok(Self {
            shared,
            keeper: Arc::new(keeper),
        })
    }

    pub(crate) fn is_up(&self) -> bool {
        self.shared.current().is_some()
    }

    /// How often a connection was lost.
    pub(crate) fn losses(&self) -> u64 {
        self.shared.losses.load(Ordering::Relaxed)
    }

    /// Runs one exchange on the present connection. `None` means there is none.
    pub(crate) async fn call<T>(
        &self,
        exchange: impl AsyncFnOnce(MultiplexedConnection, &str) -> RedisResult<T>,
    ) -> Option<RedisResult<T>> {
        let Connected {
            number,
            connection,
            server,
        } = self.shared.current()?;
        let result = exchange(connection, &server).await;
        if let Err(error) = &result
            && is_fatal(error)
        {
            self.give_up(number, error);
        }
        Some(result)
    }

    fn give_up(&self, number: u64, error: &RedisError) {
        if self
            .shared
            .current()
            .is_some_and(|current| current.number == number)
        {
            warn!(%error, "lost Redis");
            self.shared.losses.fetch_add(1, Ordering::Relaxed);
            self.shared.set(None);
            self.shared.broken.notify_one();
        }
    }
}

/// Whether the connection is of no more use. A timeout counts: behind a dead peer every later call
/// would time out as well. So does READONLY: the server is no longer the primary.
fn is_fatal(error: &RedisError) -> bool {
    let kind = error.kind();
    let elsewhere = [
        ServerErrorKind::ReadOnly,
        ServerErrorKind::BusyLoading,
        ServerErrorKind::MasterDown,
    ];
    let broken = [
        ErrorKind::Io,
        ErrorKind::Parse,
        ErrorKind::AuthenticationFailed,
    ];
    elsewhere.map(ErrorKind::Server).contains(&kind)
        || broken.contains(&kind)
        || error.is_unrecoverable_error()
}

async fn keep_connected(client: Client, config: AsyncConnectionConfig, shared: Arc<Shared>) {
    let mut pause = RECONNECT_MIN;
    let mut lost: Option<Instant> = None;
    for number in 0.. {
        match connect(&client, &config).await {
            Ok((connection, server)) => {
                match lost {
                    None => info!(%server, "connected to Redis"),
                    Some(since) => {
                        let away_ms = since.elapsed().as_millis();
                        info!(%server, %away_ms, "Redis is back");
                    }
                }
                pause = RECONNECT_MIN;
                shared.set(Some(Connected {
                    number,
                    connection,
                    server,
                }));
                shared.broken.notified().await;
                lost = Some(Instant::now());
            }
            Err(error) => {
                // Of one that was lost it was said when it was.
                if pause == RECONNECT_MIN && lost.is_none() {
                    warn!(%error, "cannot connect to Redis, trying on");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RECONNECT_MAX);
            }
        }
    }
}

/// Connects, and learns which server this is: its run id, which it draws whenever it starts.
async fn connect(
    client: &Client,
    config: &AsyncConnectionConfig,
) -> RedisResult<(MultiplexedConnection, Arc<str>)> {
    let mut connection = client
        .get_multiplexed_async_connection_with_config(config)
        .await?;
    let mut ask = redis::cmd("INFO");
    let told: String = ask.arg("server").query_async(&mut connection).await?;
    let run_id = told.lines().find_map(|line| line.strip_prefix("run_id:"));
    let run_id = run_id.ok_or((
        ErrorKind::UnexpectedReturnType,
        "INFO server names no run_id",
    ))?;
    Ok((connection, run_id.trim().into()))
}
