//! Answers that wait for their caller to take them. Over HTTP/2 a peer says how much it wants, and may want
//! nothing; over any connection it may stop to read. What it asked for meanwhile is kept in memory, so both
//! the time and the bytes have a limit, and a connection that reaches one is ended.

use crate::connection::UnderWay;
use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame, SizeHint};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// Answers of one connection that wait at the same time. A filter's are some hundred bytes for each request, up to 14 KB
/// for a full group, and a handful of groups wait; a single answer may be larger.
const UNTAKEN_BYTES_MAX: usize = 1024 * 1024;

/// What waits over one connection.
#[derive(Debug, Default)]
pub(crate) struct Untaken {
    waiting: Mutex<Waiting>,
    /// Something waits, after nothing did.
    began: Notify,
    too_much: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// Since when each answer waits: the first is the oldest.
    answers: BTreeMap<u64, Instant>,
    bytes: usize,
    /// Since when nothing can be written.
    stalled: Option<Instant>,
}

impl Waiting {
    fn since(&self) -> Option<Instant> {
        let oldest = self.answers.values().next().copied();
        oldest.into_iter().chain(self.stalled).min()
    }
}

impl Untaken {
    /// The same answer, counted until it is taken.
    pub(crate) fn count(self: &Arc<Self>, body: Body) -> Answer {
        let bytes = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        Answer {
            body,
            _counted: Counted::UntilTaken(self.wait(bytes)),
        }
    }

    /// So many bytes wait, until this is dropped.
    pub(crate) fn wait(self: &Arc<Self>, bytes: usize) -> Waits {
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.answers.insert(number, Instant::now());
        let others = waiting.bytes;
        waiting.bytes = others.saturating_add(bytes);
        if others > 0 && waiting.bytes > UNTAKEN_BYTES_MAX {
            self.too_much.notify_one();
        }
        drop(waiting);
        self.began.notify_one();
        Waits {
            bytes,
            number,
            untaken: self.clone(),
        }
    }

    /// Ends when something was not taken within this time, or too much waits.
    pub(crate) async fn given_up(&self, within: Duration) {
        tokio::select! {
            () = self.too_much.notified() => {}
            () = self.too_long(within) => {}
        }
    }

    async fn too_long(&self, within: Duration) {
        loop {
            let since = self.lock().since();
            match since {
                None => self.began.notified().await,
                Some(since) if since.elapsed() >= within => return,
                Some(since) => tokio::time::sleep_until((since + within).into()).await,
            }
        }
    }

    /// Whether the last write had to wait.
    fn note_write(&self, waits: bool) {
        let mut waiting = self.lock();
        if !waits {
            waiting.stalled = None;
        } else if waiting.stalled.is_none() {
            waiting.stalled = Some(Instant::now());
            drop(waiting);
            self.began.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that wait for their caller.
#[derive(Debug)]
pub(crate) struct Waits {
    bytes: usize,
    number: u64,
    untaken: Arc<Untaken>,
}

/// What an answer counts as, until it is dropped.
#[derive(Debug)]
enum Counted {
    UntilTaken(#[expect(dead_code, reason = "kept for its end")] Waits),
    UnderWay(#[expect(dead_code, reason = "kept for its end")] UnderWay),
}

/// An answer's body.
#[derive(Debug)]
pub(crate) struct Answer {
    body: Body,
    _counted: Counted,
}

impl Answer {
    /// One without an end: its request is under way as long as it lasts, and its pieces wait one by one.
    pub(crate) fn endless(body: Body, under_way: UnderWay) -> Self {
        Self {
            body,
            _counted: Counted::UnderWay(under_way),
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let mut waiting = self.untaken.lock();
        waiting.answers.remove(&self.number);
        waiting.bytes = waiting.bytes.saturating_sub(self.bytes);
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that notes when its peer does not read.
#[derive(Debug)]
pub(crate) struct Noting<S> {
    stream: S,
    untaken: Arc<Untaken>,
}

impl<S> Noting<S> {
    pub(crate) fn new(stream: S, untaken: &Arc<Untaken>) -> Self {
        Self {
            stream,
            untaken: untaken.clone(),
        }
    }

    fn note<T>(&self, written: Poll<T>) -> Poll<T> {
        self.untaken.note_write(written.is_pending());
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Noting<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noting<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.note(flushed)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
