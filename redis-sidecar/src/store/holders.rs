//! Holders: present, gone, looked after.

use super::{AGAIN_MAX, Call, Store, unexpected};
use crate::decode;
use crate::error::StoreError;
use admission::id::{Epoch, HolderId, PoolName};

/// What is left for the caller to do after a round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reaped {
    /// The number of the rebuild under way.
    pub rebuild: Option<u64>,
    /// Holders to look at.
    pub due: Vec<Epoch>,
}

/// What a sidecar tells of a presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    Opened,
    Vouched,
    Ended,
}

impl Sign {
    fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Vouched => "vouched",
            Self::Ended => "ended",
        }
    }
}

/// What the store makes of a presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Believed; a rebuild with this number waits for the holder's beat.
    Present { rebuild: Option<u64> },
    /// The holder's places were given to others: it is to beat.
    Reclaimed,
    /// It has ended, or a later one was opened.
    Superseded,
    /// Its end is known.
    Noted,
}

impl Store {
    /// Lets the pool's clock go on and does what is due.
    pub async fn reap(&self, pool: &PoolName) -> Result<Reaped, StoreError> {
        let mut reaped = Reaped::default();
        for _ in 0..AGAIN_MAX {
            let reply = self.run(self.pool_call("reap", pool, vec![])).await?;
            let (again, next) =
                decode::reaped(&reply).ok_or_else(|| unexpected(pool, "reap", reply))?;
            reaped = next;
            if !again {
                break;
            }
        }
        Ok(reaped) // What is left is done by the next round.
    }

    /// Looks at one holder, and takes its leases if it is gone.
    pub async fn reclaim(&self, pool: &PoolName, epoch: &Epoch) -> Result<(), StoreError> {
        let mut cursor = "0".to_owned();
        for _ in 0..AGAIN_MAX {
            let call = Call::of_holder("reclaim", pool, epoch, vec![cursor]);
            let reply = self.run(call).await?;
            match reply.as_slice() {
                [word] if word == "done" => return Ok(()),
                [word, next] if word == "again" => cursor = next.clone(),
                _ => return Err(unexpected(pool, "reclaim", reply)),
            }
        }
        Ok(()) // The next round goes on from here.
    }

    pub async fn presence(
        &self,
        pool: &PoolName,
        holder: &HolderId,
        sign: Sign,
        number: u64,
    ) -> Result<Standing, StoreError> {
        let args = vec![
            sign.as_str().to_owned(),
            number.to_string(),
            holder.proxy.to_string(),
        ];
        let call = Call::of_holder("presence", pool, &holder.epoch, args);
        let reply = self.run(call).await?;
        decode::standing(&reply).ok_or_else(|| unexpected(pool, "presence", reply))
    }
}
