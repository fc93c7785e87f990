//! What can go wrong between the sidecar and its Redis: one variant for each thing a caller can do.

use crate::atomic::CountKey;
use crate::link::Unfit;
use admission::id::{PoolName, WorkerId};

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Redis is away, or too slow. Trying again later may help.
    #[error("Redis cannot be asked: {0}")]
    Unavailable(String),
    /// Redis answers, but is none to keep leases in. An operator has to change that.
    #[error("{0}")]
    Unfit(Unfit),
    /// Redis has it, and too few of its replicas: a failover could lose it, so it was taken back.
    #[error(
        "redis.wait_replicas is {wanted}, and {replicas} replicas had the lease in time; bring replicas \
         back, or lower it"
    )]
    Unreplicated { replicas: u32, wanted: u32 },
    /// Neither Redis nor the settings file knows the pool.
    #[error("pool {0} is not known: add [pools.{0}] to the settings file")]
    UnknownPool(PoolName),
    #[error("pool {pool} has no worker {worker}")]
    UnknownWorker { pool: PoolName, worker: WorkerId },
    /// Its name belongs to whoever registered it with another token.
    #[error(
        "pool {pool}: worker {worker} was registered with another worker token: take another name"
    )]
    OthersWorker { pool: PoolName, worker: WorkerId },
    #[error("pool {0} has as many workers as its policy allows: raise workers_max, or remove some")]
    Crowded(PoolName),
    /// The script and this binary disagree, which is a bug or a mixed installation.
    // Only its first word: what follows may name epochs, and whoever knows one may change its leases.
    #[error("pool {pool}: script {verb} answered {:?} and {} more", reply.first(), reply.len().saturating_sub(1))]
    Reply {
        pool: PoolName,
        verb: &'static str,
        reply: Vec<String>,
    },
    /// Redis refused the script itself.
    #[error("pool {pool}: script {verb} failed: {error}")]
    Script {
        pool: PoolName,
        verb: &'static str,
        error: String,
    },
    /// The same two, of a count.
    #[error("count {key}: script {verb}: {error}")]
    Count {
        key: CountKey,
        verb: &'static str,
        error: String,
    },
}

impl StoreError {
    /// Nobody could be asked, or nobody to be trusted: for a client, an outage.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Unfit(_) | Self::Unreplicated { .. } => true,
            Self::UnknownPool(_)
            | Self::UnknownWorker { .. }
            | Self::Reply { .. }
            | Self::Script { .. }
            | Self::Count { .. }
            | Self::OthersWorker { .. }
            | Self::Crowded(_) => false,
        }
    }
}
