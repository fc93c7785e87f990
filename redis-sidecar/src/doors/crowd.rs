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

/// Room for questions to Redis, or for the bytes of a body, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Room(Option<OwnedSemaphorePermit>);

#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    questions: Arc<Semaphore>,
    body_bytes: Arc<Semaphore>,
    requests_max: u32,
    pub(crate) body_timeout: Duration,
}

impl Crowd {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            questions: Arc::new(Semaphore::new(limits.requests_max)),
            requests_max: u32::try_from(limits.requests_max).unwrap_or(u32::MAX),
            body_bytes: Arc::new(Semaphore::new(BODY_BYTES_MAX)),
            body_timeout: Duration::from_millis(limits.body_timeout_ms),
        }
    }

    /// A group that is larger than all the room gets all of it, if it is free.
    pub(crate) fn ask(&self, questions: usize) -> Result<Room, Overloaded> {
        let questions = u32::try_from(questions).unwrap_or(u32::MAX);
        let questions = questions.min(self.requests_max);
        let place = self.questions.clone().try_acquire_many_owned(questions);
        place.map(|it| Room(Some(it))).map_err(|_| Overloaded)
    }

    /// No body yet; it grows.
    pub(crate) fn empty_body() -> Room {
        Room(None)
    }

    /// For bytes that are handed on, out of the room that they had.
    pub(crate) fn part_of(room: &mut Room, bytes: usize) -> Room {
        let held = room.0.as_mut();
        Room(held.and_then(|held| held.split(bytes.min(held.num_permits()))))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_takes_room_for_each_of_its_questions() {
        let crowd = Crowd::new(&Limits {
            requests_max: 4,
            ..Limits::default()
        });
        let three = crowd.ask(3).expect("room");
        assert!(crowd.ask(2).is_err());
        let one = crowd.ask(1).expect("room");
        drop((three, one));
        let all = crowd.ask(32).expect("all of it");
        assert!(crowd.ask(1).is_err());
        drop(all);
    }

    #[test]
    fn what_is_handed_on_takes_its_room_with_it() {
        let crowd = Crowd::new(&Limits::default());
        let mut room = Crowd::empty_body();
        crowd.grow(&mut room, BODY_BYTES_MAX).expect("all of it");
        let part = Crowd::part_of(&mut room, BODY_BYTES_MAX - 1);
        let mut other = Crowd::empty_body();
        assert!(crowd.grow(&mut other, 1).is_err());
        drop(part);
        crowd
            .grow(&mut other, BODY_BYTES_MAX - 1)
            .expect("its room");
        assert!(crowd.grow(&mut other, 1).is_err(), "one byte is left");
    }
}
