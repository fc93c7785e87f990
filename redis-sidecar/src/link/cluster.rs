//! A cluster: a connection to each primary, and who has which slot. A pool's keys share a slot, so a pool has
//! one primary, and its run id is the one that the pool's functions are given.

use super::address::{Node, Seeds};
use super::exchange::{Exchange, Reply};
use super::server::{Link, Route};
use super::slots::{SlotMap, slot_of};
use super::trouble::explain;
use super::{Access, Fault, LinkError, Unfit};
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

/// How often the cluster is asked when nothing seems wrong: an old primary beyond a cut says nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two questions when something is.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// The first pause of a call that is to come again; it doubles.
const RETRY_MIN: Duration = Duration::from_millis(5);

#[derive(Debug, Clone)]
pub(super) struct Cluster {
    shared: Arc<Shared>,
    /// Ends with the last clone.
    _keeper: Arc<AbortOnDropHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    seeds: Seeds,
    access: Access,
    losses: Arc<AtomicU64>,
    known: RwLock<Known>,
    /// Somebody found that the map is wrong.
    stale: Notify,
}

#[derive(Debug, Default)]
struct Known {
    map: SlotMap,
    /// What servers said of single slots since the map was drawn.
    moved: HashMap<u16, Node>,
    /// To every primary.
    links: HashMap<Node, Link>,
    why: String,
}

/// What to do about a call that failed.
enum Next {
    /// The slot is there now.
    Moved(Node),
    /// It will be, and this one call is answered there already.
    Ask(Node),
    /// It is being moved, or is nobody's: that passes.
    Wait,
    Fail,
}

impl Cluster {
    pub(super) fn start(seeds: Seeds, access: Access, losses: Arc<AtomicU64>) -> Self {
        let shared = Arc::new(Shared {
            seeds,
            access,
            losses,
            known: RwLock::default(),
            stale: Notify::new(),
        });
        let keeper = tokio::spawn(keep_mapped(shared.clone()));
        Self {
            shared,
            _keeper: Arc::new(AbortOnDropHandle::new(keeper)),
        }
    }

    /// Whether the cluster has told of itself and every primary is connected.
    pub(super) fn is_up(&self) -> bool {
        self.shared
            .read(|known| !known.map.ranges.is_empty() && known.links.values().all(Link::is_up))
    }

    pub(super) fn faults(&self) -> Vec<Fault> {
        self.shared.read(|known| {
            if known.map.ranges.is_empty() {
                let server = "the cluster".to_owned();
                let what = LinkError::Absent(format!("nobody tells of its slots: {}", known.why));
                return vec![Fault { server, what }];
            }
            let mut faults: Vec<Fault> = known.links.values().filter_map(Link::fault).collect();
            faults.sort_by(|one, other| one.server.cmp(&other.server));
            faults
        })
    }

    pub(super) fn unfit(&self, key: Option<&str>) -> Option<Unfit> {
        match key {
            Some(key) => self.shared.link_of(slot_of(key)).ok()?.unfit(),
            None => self
                .shared
                .read(|known| known.links.values().find_map(Link::unfit)),
        }
    }

    /// Follows the slot; what passes is waited for, for as long as one answer may take. None of what is tried
    /// again has been done: the server said so.
    pub(super) async fn call(&self, exchange: &Exchange<'_>) -> Result<Reply, LinkError> {
        let slot = slot_of(exchange.key());
        let deadline = Instant::now() + self.shared.access.timeout();
        let mut pause = RETRY_MIN;
        let mut asked: Option<Node> = None;
        let mut followed = false;
        loop {
            let (node, result) = match asked.take() {
                Some(node) => {
                    let link = self.shared.link_to(&node);
                    let result = link.call_asking(exchange).await;
                    (node, result)
                }
                None => {
                    let (node, link) = self.shared.located(slot).inspect_err(|_| {
                        self.shared.stale.notify_one();
                    })?;
                    let result = link.call(exchange).await;
                    (node, result)
                }
            };
            let error = match result {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            self.shared.stale.notify_one();
            match next(&node, &error) {
                Next::Moved(node) => {
                    followed = true;
                    self.shared.note_moved(slot, node);
                }
                Next::Ask(node) => {
                    followed = true;
                    asked = Some(node);
                }
                Next::Wait => {}
                // To where it was sent just now, the connection is being made.
                Next::Fail if followed && matches!(error, LinkError::Absent(_)) => {}
                Next::Fail => return Err(error),
            }
            if Instant::now() + pause > deadline {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
}

fn next(asked: &Node, error: &LinkError) -> Next {
    let LinkError::Failed(error) = error else {
        return Next::Fail;
    };
    let told = error
        .redirect_node()
        .and_then(|(node, _)| Node::told_by(asked, node));
    let ErrorKind::Server(kind) = error.kind() else {
        return Next::Fail;
    };
    match (kind, told) {
        (ServerErrorKind::Moved, Some(node)) => Next::Moved(node),
        (ServerErrorKind::Ask, Some(node)) => Next::Ask(node),
        (ServerErrorKind::TryAgain | ServerErrorKind::ClusterDown, _) => Next::Wait,
        _ => Next::Fail,
    }
}

impl Shared {
    fn read<T>(&self, read: impl FnOnce(&Known) -> T) -> T {
        read(&self.known.read().unwrap_or_else(|lock| lock.into_inner()))
    }

    fn write<T>(&self, write: impl FnOnce(&mut Known) -> T) -> T {
        write(&mut self.known.write().unwrap_or_else(|lock| lock.into_inner()))
    }

    fn located(&self, slot: u16) -> Result<(Node, Link), LinkError> {
        let found = self.read(|known| {
            let node = known.moved.get(&slot).or(known.map.primary_of(slot));
            match node {
                Some(node) => Ok((node.clone(), known.links.get(node).cloned())),
                None => Err(format!("no primary has slot {slot}: {}", known.why)),
            }
        });
        let (node, link) = found.map_err(LinkError::Absent)?;
        let link = link.unwrap_or_else(|| self.link_to(&node));
        Ok((node, link))
    }

    fn link_of(&self, slot: u16) -> Result<Link, LinkError> {
        self.located(slot).map(|(_, link)| link)
    }

    /// The connection to a server; one that is new is being made from now on.
    fn link_to(&self, node: &Node) -> Link {
        let link = self.read(|known| known.links.get(node).cloned());
        link.unwrap_or_else(|| {
            self.write(|known| {
                let links = known.links.entry(node.clone());
                links.or_insert_with(|| self.connect(node)).clone()
            })
        })
    }

    fn connect(&self, node: &Node) -> Link {
        let route = Route::Node(node.clone(), self.seeds.encryption);
        Link::start(route, self.access.clone(), self.losses.clone())
    }

    fn note_moved(&self, slot: u16, node: Node) {
        self.link_to(&node);
        self.write(|known| known.moved.insert(slot, node));
    }

    /// Primaries that are new get a connection, and those that are none any more lose theirs.
    fn adopt(&self, map: SlotMap) {
        self.write(|known| {
            let mut links = HashMap::new();
            for range in &map.ranges {
                let node = &range.primary;
                let known = known.links.get(node).cloned();
                links
                    .entry(node.clone())
                    .or_insert_with(|| known.unwrap_or_else(|| self.connect(node)));
            }
            if known.map.ranges != map.ranges {
                let (primaries, epoch) = (links.len(), map.epoch);
                info!(primaries, epoch, "the cluster's slots are known");
                let expected = self.seeds.primaries_expected();
                if primaries > expected {
                    warn!(
                        primaries,
                        expected,
                        "file descriptors are kept for fewer primaries: let `ulimit -n` be well above \
                         limits.connections_max"
                    );
                }
            }
            known.why = if map.in_order {
                "the cluster has none for it".into()
            } else {
                "the cluster is not in order".into()
            };
            known.links = links;
            known.moved.clear();
            known.map = map;
        });
    }
}

async fn keep_mapped(shared: Arc<Shared>) {
    let mut failing = false;
    loop {
        match learn(&shared).await {
            Ok(map) => {
                failing = false;
                shared.adopt(map);
            }
            Err(error) => {
                let why = explain(&error);
                if !failing {
                    warn!(error = why, "no server of the cluster answers, trying on");
                }
                failing = true;
                shared.write(|known| known.why = why);
            }
        }
        tokio::time::sleep(LOOK_PAUSE).await;
        let _ = tokio::time::timeout(LOOK_EVERY, shared.stale.notified()).await;
    }
}

/// Asks the primaries, or whoever else there is if none of them answers.
async fn learn(shared: &Arc<Shared>) -> RedisResult<SlotMap> {
    let links: Vec<(Node, Link)> = shared.read(|known| {
        let links = known.links.iter();
        links
            .map(|(node, link)| (node.clone(), link.clone()))
            .collect()
    });
    let mut asked = JoinSet::new();
    for (node, link) in links {
        if let Some(connection) = link.connection() {
            asked.spawn(async move { ask(&node, connection).await });
        }
    }
    if let Ok(map) = latest(asked).await {
        return Ok(map);
    }
    let mut seeds = shared.seeds.clone();
    seeds
        .nodes
        .extend(shared.read(|known| known.map.nodes.clone()));
    ask_anybody(&seeds, &shared.access).await
}

pub(super) async fn ask_anybody(seeds: &Seeds, access: &Access) -> RedisResult<SlotMap> {
    let mut asked = JoinSet::new();
    for node in seeds.nodes.clone() {
        let (access, encryption) = (access.clone(), seeds.encryption);
        asked.spawn(async move {
            let connection = access.connect(node.info(encryption)?).await?;
            ask(&node, connection).await
        });
    }
    latest(asked).await
}

/// A server beyond a cut may not know yet what the others have agreed on.
async fn latest(mut asked: JoinSet<RedisResult<SlotMap>>) -> RedisResult<SlotMap> {
    let mut latest: Option<SlotMap> = None;
    let mut silent: RedisError = (ErrorKind::Io, "no server is known").into();
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok(Ok(map)) => {
                let rank = |map: &SlotMap| (map.in_order, map.epoch);
                if latest.as_ref().is_none_or(|best| rank(&map) > rank(best)) {
                    latest = Some(map);
                }
            }
            Ok(Err(error)) => silent = error,
            Err(_) => {}
        }
    }
    latest.ok_or(silent)
}

async fn ask(
    node: &Node,
    mut connection: redis::aio::MultiplexedConnection,
) -> RedisResult<SlotMap> {
    let mut questions = redis::pipe();
    for question in ["INFO", "SLOTS"] {
        questions.cmd("CLUSTER").arg(question);
    }
    let (info, slots): (String, Vec<Value>) = questions.query_async(&mut connection).await?;
    SlotMap::read(node, &info, slots)
}
