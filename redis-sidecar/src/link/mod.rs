//! The way to Redis: which server has a key, and a connection to it that a task of its own keeps, so that a
//! request finds it either ready or absent and never waits for a connect.
//!
//! | file | what it is |
//! |---|---|
//! | `address` | `redis.url`: one server, Sentinels that know one, or a cluster |
//! | `access` | user, password, certificates, timeouts: how any server is entered |
//! | `fitness` | what a server tells of itself, and what it must not be |
//! | `exchange` | one call of a function |
//! | `server` | the connection to one server, kept |
//! | `sentinel` | who the primary is, by the Sentinels' word |
//! | `cluster`, `slots` | who has which keys, and a connection to each |
//! | `trouble` | what an error of Redis means |
//! | `visit` | every server, looked at once |

mod access;
pub(crate) mod address;
mod cluster;
mod exchange;
mod fitness;
mod sentinel;
mod server;
mod slots;
mod trouble;
mod visit;

pub(crate) use access::Access;
pub(crate) use exchange::{Exchange, Purpose, Reply};
pub use fitness::Unfit;
pub(crate) use trouble::is_forbidden;
pub(crate) use visit::visit;

use crate::settings::RedisSettings;
use address::Topology;
use cluster::Cluster;
use redis::RedisError;
use server::{Link, Route};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trouble::is_of_a_cluster;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// There is nobody to ask; here is why.
    Absent(String),
    /// It may forget what it is told, so that nothing new is trusted to it.
    Unfit(Unfit),
    Failed(RedisError),
}

/// A server that does not do what it is there for.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Its address.
    pub(crate) server: String,
    pub(crate) what: LinkError,
}

/// All servers that the pools live on.
#[derive(Debug, Clone)]
pub(crate) struct Links {
    servers: Servers,
    losses: Arc<AtomicU64>,
}

#[derive(Debug, Clone)]
enum Servers {
    One(Link),
    Cluster(Cluster),
}

impl Links {
    /// Starts to connect. Must be called inside a tokio runtime.
    pub(crate) fn start(topology: Topology, access: Access) -> Self {
        let losses = Arc::new(AtomicU64::new(0));
        let servers = match topology {
            Topology::Single(info) => {
                Servers::One(Link::start(Route::Url(info), access, losses.clone()))
            }
            Topology::Sentinel(sentinels) => {
                let route = Route::Sentinels(sentinels);
                Servers::One(Link::start(route, access, losses.clone()))
            }
            Topology::Cluster(seeds) => {
                Servers::Cluster(Cluster::start(seeds, access, losses.clone()))
            }
        };
        Self { servers, losses }
    }

    /// How many connections there may be at once, for whoever shares out file descriptors.
    pub(crate) fn connections_max(settings: &RedisSettings) -> Result<usize, String> {
        let of_each = server::connections_of_each(settings.wait_replicas);
        Ok(Topology::parse(&settings.url)?.connections_max(of_each))
    }

    /// Whether every server is connected.
    pub(crate) fn is_up(&self) -> bool {
        match &self.servers {
            Servers::One(link) => link.is_up(),
            Servers::Cluster(cluster) => cluster.is_up(),
        }
    }

    /// How often a connection was lost.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// What is wrong with the server that has this key, or with any.
    pub(crate) fn unfit(&self, key: Option<&str>) -> Option<Unfit> {
        match &self.servers {
            Servers::One(link) => link.unfit(),
            Servers::Cluster(cluster) => cluster.unfit(key),
        }
    }

    /// What is wrong now, with each server that there is something wrong with.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        match &self.servers {
            Servers::One(link) => link.fault().into_iter().collect(),
            Servers::Cluster(cluster) => cluster.faults(),
        }
    }

    pub(crate) async fn call(&self, exchange: &Exchange<'_>) -> Result<Reply, LinkError> {
        match &self.servers {
            Servers::One(link) => link.call(exchange).await.map_err(|error| match error {
                LinkError::Failed(error) if is_of_a_cluster(&error) => LinkError::Absent(format!(
                    "redis.url leads to one node of a cluster ({error}); write \
                     redis+cluster://host:port,host:port instead"
                )),
                error @ (LinkError::Absent(_) | LinkError::Unfit(_) | LinkError::Failed(_)) => {
                    error
                }
            }),
            Servers::Cluster(cluster) => cluster.call(exchange).await,
        }
    }
}
