//! Presences: calls that hang until their holder is gone. Each is one task, which writes its opening
//! to the store, vouches for the holder while it lasts, and writes its end.

use crate::error::StoreError;
use crate::store::{Sign, Standing, Store};
use admission::id::{HolderId, PoolName};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Presences at a time, ends that are not written yet included. An Envoy has one for each of its
/// threads; what is above is an error or an attack.
pub const PRESENCES_MAX: usize = 10_000;
/// How often a sidecar vouches: several times within the shortest sensible `lease_ttl_ms`.
const VOUCH_EVERY: Duration = Duration::from_secs(2);
/// The pause after the store did not answer; it doubles up to the time between two vouches.
const RETRY_MIN: Duration = Duration::from_millis(100);

/// One presence.
#[derive(Debug, Clone)]
pub(crate) struct Presence {
    pub(crate) pool: PoolName,
    pub(crate) holder: HolderId,
    pub(crate) number: u64,
}

/// Whether the peer is known to live while its connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// On this host, or answering pings: an end would be noticed at once.
    Watched,
    /// It may have vanished without a word.
    Unwatched,
}

/// Why a presence is answered. Its holder beats, and opens the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    Rebuilding,
    Reclaimed,
    Superseded,
    Stopping,
}

impl Answered {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Rebuilding => "rebuilding",
            Self::Reclaimed => "reclaimed",
            Self::Superseded => "superseded",
            Self::Stopping => "stopping",
        }
    }
}

/// All presences at this sidecar.
#[derive(Debug, Clone)]
pub struct Presences {
    store: Store,
    places: Arc<Semaphore>,
    /// By pool, the rebuild last heard of.
    rebuilds: watch::Sender<BTreeMap<PoolName, u64>>,
    stop: CancellationToken,
}

impl Presences {
    pub(crate) fn new(store: Store, stop: CancellationToken) -> Self {
        Self {
            store,
            places: Arc::new(Semaphore::new(PRESENCES_MAX)),
            rebuilds: watch::Sender::default(),
            stop,
        }
    }

    /// A rebuild is under way: whoever is present is announced, and told to beat.
    pub fn hear_of_rebuild(&self, pool: &PoolName, number: u64) {
        self.rebuilds
            .send_if_modified(|known| known.insert(pool.clone(), number) != Some(number));
    }

    /// Hangs until the holder is to be told something. `None`: there are too many. When this is
    /// dropped instead, the holder's connection has ended.
    pub(crate) async fn keep(&self, presence: Presence, peer: Peer) -> Option<Answered> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let end = EndOnDrop::of(self.store.clone(), presence.clone(), place);
        let answered = tokio::select! {
            answered = self.vouch(&presence, peer) => answered,
            () = self.stop.cancelled() => Answered::Stopping,
        };
        end.disarm();
        Some(answered)
    }

    async fn vouch(&self, presence: &Presence, peer: Peer) -> Answered {
        let mut news = self.rebuilds.subscribe();
        let mut retry = RETRY_MIN;
        // The rebuild that its opening was part of: this holder is about to beat for it anyway.
        let opened_in = loop {
            match self.tell(presence, Sign::Opened).await {
                Ok(Standing::Present { rebuild }) => break rebuild,
                Ok(Standing::Reclaimed | Standing::Superseded | Standing::Noted) => break None,
                Err(error) => pause(&mut retry, &error).await,
            }
        };
        // The first word is never answered at once: whoever reopens at once would do so without end.
        let mut next = Instant::now() + VOUCH_EVERY;
        loop {
            let heard = tokio::select! {
                () = tokio::time::sleep_until(next) => false,
                Ok(()) = news.changed() => true,
            };
            if peer == Peer::Unwatched && !heard {
                next = Instant::now() + VOUCH_EVERY;
                continue;
            }
            match self.tell(presence, Sign::Vouched).await {
                Ok(Standing::Present { rebuild }) => {
                    if rebuild.is_some() && rebuild != opened_in {
                        return Answered::Rebuilding;
                    }
                }
                Ok(Standing::Reclaimed) => return Answered::Reclaimed,
                Ok(Standing::Superseded | Standing::Noted) => return Answered::Superseded,
                Err(error) => tracing::debug!(%error, "a presence could not be vouched for"),
            }
            next = Instant::now() + VOUCH_EVERY;
        }
    }

    async fn tell(&self, presence: &Presence, sign: Sign) -> Result<Standing, StoreError> {
        let Presence {
            pool,
            holder,
            number,
        } = presence;
        self.store.presence(pool, holder, sign, *number).await
    }
}

async fn pause(retry: &mut Duration, error: &StoreError) {
    tracing::debug!(%error, "a presence is not written yet");
    tokio::time::sleep(*retry).await;
    *retry = (*retry * 2).min(VOUCH_EVERY);
}

/// Writes the end of a presence when its handler is dropped: axum does so when the peer goes.
struct EndOnDrop {
    armed: Option<(Store, Presence, OwnedSemaphorePermit)>,
}

impl EndOnDrop {
    fn of(store: Store, presence: Presence, place: OwnedSemaphorePermit) -> Self {
        Self {
            armed: Some((store, presence, place)),
        }
    }

    fn disarm(mut self) {
        self.armed = None;
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if let Some((store, presence, place)) = self.armed.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                end(&store, &presence).await;
                drop(place);
            });
        }
    }
}

/// Until it is written or of no more use: an end that got lost would cost a whole `lease_ttl_ms`.
async fn end(store: &Store, presence: &Presence) {
    let Presence {
        pool,
        holder,
        number,
    } = presence;
    let mut retry = RETRY_MIN;
    loop {
        match store.presence(pool, holder, Sign::Ended, *number).await {
            Err(error @ StoreError::Unavailable(_)) => pause(&mut retry, &error).await,
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "the end of a presence cannot be written");
                return;
            }
        }
    }
}
