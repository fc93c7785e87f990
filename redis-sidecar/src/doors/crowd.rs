//! How much is done at once. What is above is refused at once: a caller that waits in a line is gone
//! by the time that it is served.

use crate::settings::Limits;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bodies in memory, all together: sixteen of the largest beats, or some thousand questions.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// There are too many; whoever comes later may find room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overloaded;

/// Room for one question to Redis, or for the bytes of a body, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Room(Option<OwnedSemaphorePermit>);

#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    questions: Arc<Semaphore>,
    body_bytes: Arc<Semaphore>,
    pub(crate) body_timeout: Duration,
}

impl Crowd {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            questions: Arc::new(Semaphore::new(limits.requests_max)),
            body_bytes: Arc::new(Semaphore::new(BODY_BYTES_MAX)),
            body_timeout: Duration::from_millis(limits.body_timeout_ms),
        }
    }

    pub(crate) fn ask(&self) -> Result<Room, Overloaded> {
        let place = self.questions.clone().try_acquire_owned();
        place.map(|it| Room(Some(it))).map_err(|_| Overloaded)
    }

    /// No body yet; it grows.
    pub(crate) fn empty_body() -> Room {
        Room(None)
    }

    pub(crate) fn grow(&self, room: &mut Room, bytes: usize) -> Result<(), Overloaded> {
        let bytes = u32::try_from(bytes).map_err(|_| Overloaded)?;
        let more = self.body_bytes.clone().try_acquire_many_owned(bytes);
        let more = more.map_err(|_| Overloaded)?;
        match &mut room.0 {
            Some(held) => held.merge(more),
            None => room.0 = Some(more),
        }
        Ok(())
    }
}
