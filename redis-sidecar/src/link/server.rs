//! The connection to one server, kept by a task of its own.

use super::address::{Encryption, Node};
use super::exchange::{Exchange, Manner, Purpose, Reply};
use super::fitness::{Server, Unfit};
use super::sentinel::Sentinels;
use super::trouble::{explain, is_fatal, is_forbidden};
use super::{Access, Fault, LinkError};
use redis::aio::MultiplexedConnection;
use redis::{ConnectionInfo, ErrorKind, RedisError, RedisResult};
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Notify};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

/// First pause after a failed connect; it doubles up to the maximum.
const RECONNECT_MIN: Duration = Duration::from_millis(20);
/// A Redis that returns is noticed within this time, well below the 2 s promised.
const RECONNECT_MAX: Duration = Duration::from_millis(500);
/// How often a server in use is looked at: one that was demoted or told to evict is found out. Less than the
/// default of `rebuild_ms`: whoever goes on at an old primary leaves it before the next one admits anybody.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Connections for admissions that wait for replicas: a server answers nothing else on such a connection
/// meanwhile, so they have their own, and several.
const WAITING_LANES: usize = 8;

/// How many connections one server takes.
pub(super) fn connections_of_each(wait_replicas: u32) -> usize {
    match wait_replicas {
        0 => 1,
        _ => 1 + WAITING_LANES,
    }
}

/// Where the server is to be found, each time anew.
#[derive(Debug, Clone)]
pub(super) enum Route {
    Url(ConnectionInfo),
    Node(Node, Encryption),
    Sentinels(Sentinels),
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(info) => write!(f, "{}", info.addr()),
            Self::Node(node, _) => node.fmt(f),
            Self::Sentinels(sentinels) => write!(f, "the primary {}", sentinels.primary),
        }
    }
}

/// One connection's life. Its number tells a late failure of an old one from a failure of the
/// present one.
#[derive(Clone)]
struct Connected {
    number: u64,
    connection: MultiplexedConnection,
    lanes: Arc<[Mutex<MultiplexedConnection>]>,
    server: Server,
    address: String,
    /// Who the Sentinels named, if they were asked.
    node: Option<Node>,
}

/// Either connected, or there is a reason why not.
struct State {
    connected: Option<Connected>,
    unfit: Option<Unfit>,
    why: String,
}

struct Shared {
    state: RwLock<State>,
    broken: Notify,
    losses: Arc<AtomicU64>,
    /// The server, as the settings or the cluster name it.
    name: String,
    /// What it last said that its user may not do.
    forbidden: std::sync::Mutex<String>,
    next_lane: AtomicUsize,
    access: Access,
}

impl Shared {
    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.read().unwrap_or_else(|lock| lock.into_inner()))
    }

    fn write(&self, write: impl FnOnce(&mut State)) {
        write(&mut self.state.write().unwrap_or_else(|lock| lock.into_inner()));
    }

    fn give_up(&self, number: u64, why: &str) {
        let mut lost = false;
        self.write(|state| {
            if state
                .connected
                .as_ref()
                .is_some_and(|it| it.number == number)
            {
                state.connected = None;
                state.why = why.to_owned();
                lost = true;
            }
        });
        if lost {
            warn!(server = self.name, error = why, "lost Redis");
            self.losses.fetch_add(1, Ordering::Relaxed);
            self.broken.notify_one();
        }
    }

    /// Said once, until something else is forbidden: no restart gives its user more rights.
    fn tell_forbidden(&self, why: &str) {
        let mut told = self
            .forbidden
            .lock()
            .unwrap_or_else(|lock| lock.into_inner());
        if *told != why {
            why.clone_into(&mut told);
            warn!(
                server = self.name,
                error = why,
                "Redis forbids it: give its user the line that `berth acl` prints"
            );
        }
    }

    /// Said once, when it changes.
    fn judge(&self, unfit: Option<Unfit>) {
        let before = self.read(|state| state.unfit.clone());
        if before == unfit {
            return;
        }
        match &unfit {
            Some(unfit) => warn!(server = self.name, %unfit, "this Redis is not fit"),
            None => info!(server = self.name, "Redis is fit again"),
        }
        self.write(|state| state.unfit = unfit);
    }
}

#[derive(Clone)]
pub(super) struct Link {
    shared: Arc<Shared>,
    /// Ends with the last clone.
    _keeper: Arc<AbortOnDropHandle<()>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("up", &self.is_up()).finish()
    }
}

impl Link {
    pub(super) fn start(route: Route, access: Access, losses: Arc<AtomicU64>) -> Self {
        let shared = Arc::new(Shared {
            name: route.to_string(),
            state: RwLock::new(State {
                connected: None,
                unfit: None,
                why: "not yet".into(),
            }),
            broken: Notify::new(),
            losses,
            forbidden: std::sync::Mutex::default(),
            next_lane: AtomicUsize::new(0),
            access,
        });
        let keeper = tokio::spawn(keep_connected(route, shared.clone()));
        Self {
            shared,
            _keeper: Arc::new(AbortOnDropHandle::new(keeper)),
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.shared.read(|state| state.connected.is_some())
    }

    pub(super) fn unfit(&self) -> Option<Unfit> {
        self.shared.read(|state| state.unfit.clone())
    }

    /// Why this server is of no use now, or not for all that it is there for.
    pub(super) fn fault(&self) -> Option<Fault> {
        let what = self
            .shared
            .read(|state| match (&state.unfit, &state.connected) {
                (Some(unfit), _) => Some(LinkError::Unfit(unfit.clone())),
                (None, None) => Some(LinkError::Absent(format!("not connected: {}", state.why))),
                (None, Some(_)) => None,
            });
        let server = self.shared.name.clone();
        what.map(|what| Fault { server, what })
    }

    /// For questions about the server itself.
    pub(super) fn connection(&self) -> Option<MultiplexedConnection> {
        let connected = self.shared.read(|state| state.connected.clone());
        connected.map(|connected| connected.connection)
    }

    pub(super) async fn call(&self, exchange: &Exchange<'_>) -> Result<Reply, LinkError> {
        self.call_as(exchange, Manner::default()).await
    }

    /// The same about a slot that is on its way to this server.
    pub(super) async fn call_asking(&self, exchange: &Exchange<'_>) -> Result<Reply, LinkError> {
        let asking = true;
        self.call_as(exchange, Manner { asking, wait: None }).await
    }

    async fn call_as(
        &self,
        exchange: &Exchange<'_>,
        mut manner: Manner,
    ) -> Result<Reply, LinkError> {
        let (connected, unfit, why) = self.shared.read(|state| {
            (
                state.connected.clone(),
                state.unfit.clone(),
                state.why.clone(),
            )
        });
        let connected =
            connected.ok_or_else(|| LinkError::Absent(format!("not connected: {why}")))?;
        let Access { wait_replicas, .. } = self.shared.access;
        let mut connection = connected.connection;
        let mut lane = None;
        match (exchange.purpose, unfit) {
            (Purpose::Lease | Purpose::Count, Some(unfit)) => return Err(LinkError::Unfit(unfit)),
            (Purpose::Lease, None) if wait_replicas > 0 => {
                let within = self.shared.access.replicas_timeout();
                let next = self.shared.next_lane.fetch_add(1, Ordering::Relaxed);
                let turn = connected.lanes[next % connected.lanes.len()].lock();
                // Whoever came behind a wait that fails would wait in vain, too.
                let turn = tokio::time::timeout(within, turn).await;
                let turn = turn.map_err(|_| {
                    LinkError::Absent("too many admissions wait for replicas".into())
                })?;
                connection = turn.clone();
                lane = Some(turn);
                manner.wait = Some((wait_replicas, within));
            }
            (Purpose::Lease | Purpose::Count | Purpose::Other, _) => {}
        }
        let result = exchange.run(connection, &connected.server, manner).await;
        result.map_err(|error| {
            // Slow replicas do not make a server dead.
            let of_replicas = lane.is_some() && error.is_timeout();
            if is_fatal(&error) && !of_replicas {
                self.shared.give_up(connected.number, &error.to_string());
            }
            if is_forbidden(&error) {
                self.shared.tell_forbidden(&error.to_string());
            }
            LinkError::Failed(error)
        })
    }
}

/// Why a connect failed.
enum Failed {
    Unfit(Unfit),
    Error(RedisError),
}

impl From<RedisError> for Failed {
    fn from(error: RedisError) -> Self {
        Self::Error(error)
    }
}

async fn keep_connected(route: Route, shared: Arc<Shared>) {
    let mut pause = RECONNECT_MIN;
    let mut lost: Option<Instant> = None;
    for number in 0.. {
        match connect(&route, &shared.access, number).await {
            Ok(connected) => {
                let (server, address) = (&connected.server.run_id, &connected.address);
                match lost {
                    None => info!(%server, %address, "connected to Redis"),
                    Some(since) => {
                        let away_ms = since.elapsed().as_millis();
                        info!(%server, %address, %away_ms, "Redis is back");
                    }
                }
                pause = RECONNECT_MIN;
                shared.judge(connected.server.unfit.clone());
                shared.write(|state| state.connected = Some(connected.clone()));
                watch(&route, &shared, &connected).await;
                lost = Some(Instant::now());
            }
            Err(failed) => {
                let why = match failed {
                    Failed::Unfit(unfit) => {
                        shared.judge(Some(unfit.clone()));
                        unfit.to_string()
                    }
                    Failed::Error(error) => {
                        shared.judge(None); // whatever it was, nobody knows what it is now
                        let why = explain(&error);
                        if shared.read(|state| state.why != why) {
                            warn!(
                                server = shared.name,
                                error = why,
                                "cannot connect to Redis (redis.url), trying on"
                            );
                        }
                        why
                    }
                };
                shared.write(|state| state.why = why);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RECONNECT_MAX);
            }
        }
    }
}

/// Looks at the server in use, until it is given up.
async fn watch(route: &Route, shared: &Shared, connected: &Connected) {
    loop {
        tokio::select! {
            () = shared.broken.notified() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        tokio::select! {
            () = shared.broken.notified() => return,
            () = look(route, shared, connected) => {}
        }
    }
}

async fn look(route: &Route, shared: &Shared, connected: &Connected) {
    let Connected { number, node, .. } = connected;
    match ask(&mut connected.connection.clone()).await {
        Ok(Server { unfit, .. }) => match unfit {
            Some(unfit) if unfit.is_useless() => shared.give_up(*number, &unfit.to_string()),
            unfit => shared.judge(unfit),
        },
        Err(error) => {
            if is_fatal(&error) {
                shared.give_up(*number, &error.to_string());
            }
        }
    }
    // Beyond a cut, an old primary may go on as if nothing had happened.
    if let (Route::Sentinels(sentinels), Some(node)) = (route, node)
        && let Ok(primary) = sentinels.primary(&shared.access).await
        && primary != *node
    {
        let why = format!("the Sentinels name {primary} as the primary, no longer {node}");
        shared.give_up(*number, &why);
    }
}

/// Connects, and learns which server this is.
async fn connect(route: &Route, access: &Access, number: u64) -> Result<Connected, Failed> {
    let (info, node) = match route {
        Route::Url(info) => (info.clone(), None),
        Route::Node(node, encryption) => (node.info(*encryption)?, None),
        Route::Sentinels(sentinels) => {
            let node = sentinels.primary(access).await?;
            (sentinels.info_of(&node)?, Some(node))
        }
    };
    let mut connection = access.connect(info.clone()).await?;
    let server = ask(&mut connection).await?;
    if let Some(unfit) = server.unfit.clone().filter(Unfit::is_useless) {
        return Err(Failed::Unfit(unfit));
    }
    let mut lanes = Vec::new();
    if access.wait_replicas > 0 {
        for _ in 0..WAITING_LANES {
            lanes.push(Mutex::new(access.connect_lane(info.clone()).await?));
        }
    }
    Ok(Connected {
        number,
        connection,
        lanes: lanes.into(),
        server,
        address: info.addr().to_string(),
        node,
    })
}

async fn ask(connection: &mut MultiplexedConnection) -> RedisResult<Server> {
    let info: String = redis::cmd("INFO").query_async(connection).await?;
    let silent = (ErrorKind::UnexpectedReturnType, "INFO names no run_id");
    Server::read(&info).ok_or_else(|| silent.into())
}
