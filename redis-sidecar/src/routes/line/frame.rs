//! gRPC's framing: before each message a byte that says whether it is compressed, which ours never are, and its length
//! in four.

use super::super::App;
use super::super::extract::BODY_BYTES_MAX;
use crate::doors::crowd::{Crowd, Room};
use axum::body::{Body, Bytes};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

const HEAD_BYTES: usize = 5;
/// The largest body of a call, and a line of text before it.
const MESSAGE_BYTES_MAX: usize = BODY_BYTES_MAX + 256;

/// Why no message can be read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// What was sent is none, or too large.
    NoMessage,
    /// It was begun, and not ended in time.
    TooSlow,
    /// Messages take as much room as they may.
    NoRoom,
    /// The holder is gone in the middle of one.
    CutShort,
}

pub(super) fn of(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], message].concat().into()
}

/// A message, and the room that it takes until nobody needs it any more.
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    pub(super) room: Room,
}

/// The messages of a body, one by one as they come.
pub(super) struct Messages {
    body: Body,
    app: App,
    read: Vec<u8>,
    /// For what is read and no whole message yet, and until when that may take.
    room: Room,
    deadline: Option<Instant>,
}

impl Messages {
    pub(super) fn of(body: Body, app: App) -> Self {
        Self {
            body,
            app,
            read: Vec::new(),
            room: Crowd::empty_body(),
            deadline: None,
        }
    }

    /// None when the body has ended. May be dropped while it waits, and called again.
    pub(super) async fn next(&mut self) -> Result<Option<Message>, Broken> {
        loop {
            if let Some(message) = self.whole()? {
                return Ok(Some(message));
            }
            let frame = match self.deadline {
                None => self.body.frame().await,
                Some(deadline) => {
                    let frame = timeout_at(deadline, self.body.frame()).await;
                    frame.map_err(|_| Broken::TooSlow)?
                }
            };
            let Some(frame) = frame else {
                return if self.read.is_empty() {
                    Ok(None)
                } else {
                    Err(Broken::CutShort)
                };
            };
            if let Ok(piece) = frame.map_err(|_| Broken::CutShort)?.into_data() {
                let grown = self.app.crowd.grow(&mut self.room, piece.len());
                grown.map_err(|_| Broken::NoRoom)?;
                self.read.extend_from_slice(&piece);
                if self.deadline.is_none() {
                    self.begin();
                }
            }
        }
    }

    /// Whoever begins a message is to end it.
    fn begin(&mut self) {
        self.deadline = Some(Instant::now() + self.app.crowd.body_timeout);
    }

    /// The first message of what was read, if all of it is there.
    fn whole(&mut self) -> Result<Option<Message>, Broken> {
        let Some((head, rest)) = self.read.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let [compressed, length @ ..] = *head;
        let length = usize::try_from(u32::from_be_bytes(length));
        let length = length.map_err(|_| Broken::NoMessage)?;
        if compressed != 0 || length > MESSAGE_BYTES_MAX {
            return Err(Broken::NoMessage);
        }
        let Some(message) = rest.get(..length) else {
            return Ok(None);
        };
        let bytes = message.to_vec();
        self.read.drain(..HEAD_BYTES + length);
        let room = Crowd::part_of(&mut self.room, HEAD_BYTES + length);
        // What is left is the next one's, which has its own time.
        self.deadline = None;
        if !self.read.is_empty() {
            self.begin();
        }
        Ok(Some(Message { bytes, room }))
    }
}
