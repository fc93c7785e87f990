//! A link that can fail: a TCP proxy between two parts of a fleet, switched while it runs.
//!
//! | fault | what the two ends see |
//! |---|---|
//! | `delay` | every byte comes later, in both directions |
//! | `black_hole` | nothing comes any more and nothing is refused, until `heal` |
//! | `cut` | every connection is reset; new ones are accepted |
//! | `cut_after` | the next bytes towards the caller come, then its connection is reset in the middle |
//! | `refuse` | every connection is reset and new ones are refused, until `heal` |

use crate::worker::listen;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Bytes under way are bounded, so that a black hole fills up as a real one does.
const CHUNK_BYTES: usize = 16 * 1024;
const CHUNKS_UNDER_WAY_MAX: usize = 64;

/// Nothing is cut after a number of bytes.
const UNLIMITED: i64 = i64::MAX;

#[derive(Debug, Clone, Copy, Default)]
struct Weather {
    delay: Duration,
    black_hole: bool,
}

#[derive(Debug)]
struct Link {
    upstream: SocketAddr,
    weather: watch::Sender<Weather>,
    /// Bytes that may still go to callers before their connection is cut.
    allowance: AtomicI64,
}

#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    link: Arc<Link>,
    /// Dropped with its connections; absent while connections are refused.
    accepting: Mutex<Option<JoinHandle<()>>>,
}

impl FaultProxy {
    pub async fn start(address: SocketAddr, upstream: SocketAddr) -> io::Result<Self> {
        let link = Arc::new(Link {
            upstream,
            weather: watch::Sender::new(Weather::default()),
            allowance: AtomicI64::new(UNLIMITED),
        });
        let accepting = tokio::spawn(accept(listen(address).await?, link.clone()));
        Ok(Self {
            address,
            link,
            accepting: Mutex::new(Some(accepting)),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Each byte takes this much longer, each way.
    pub fn delay(&self, delay: Duration) {
        self.link
            .weather
            .send_modify(|weather| weather.delay = delay);
    }

    pub fn black_hole(&self) {
        self.link
            .weather
            .send_modify(|weather| weather.black_hole = true);
    }

    /// Resets what is open; whoever comes next is let through.
    pub async fn cut(&self) {
        self.refuse().await;
        self.heal().await;
    }

    /// Lets this many bytes go to callers, then resets the connection on which the next would go.
    pub fn cut_after(&self, bytes: u32) {
        self.link
            .allowance
            .store(i64::from(bytes), Ordering::Relaxed);
    }

    pub async fn refuse(&self) {
        let accepting = self.accepting().take();
        if let Some(accepting) = accepting {
            accepting.abort();
            let _ = accepting.await;
        }
    }

    /// Ends every fault. What waits in a black hole arrives after all, as it would by retransmission.
    pub async fn heal(&self) {
        self.link.allowance.store(UNLIMITED, Ordering::Relaxed);
        self.link.weather.send_replace(Weather::default());
        if self.accepting().is_some() {
            return;
        }
        match listen(self.address).await {
            Ok(listener) => {
                let accepting = tokio::spawn(accept(listener, self.link.clone()));
                *self.accepting() = Some(accepting);
            }
            Err(error) => panic!("cannot listen on {} again: {error}", self.address),
        }
    }

    fn accepting(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.accepting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        if let Some(accepting) = self.accepting().take() {
            accepting.abort();
        }
    }
}

async fn accept(listener: TcpListener, link: Arc<Link>) {
    // Dropped with this task: aborting it resets every connection.
    let mut connections = JoinSet::new();
    while let Ok((caller, _)) = listener.accept().await {
        connections.spawn(carry(caller, link.clone()));
        while connections.try_join_next().is_some() {}
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToCaller,
}

/// Carries bytes both ways until both ends have closed. Any other end is a reset for both.
async fn carry(caller: TcpStream, link: Arc<Link>) {
    let Ok(server) = TcpStream::connect(link.upstream).await else {
        let _ = caller.set_zero_linger();
        return;
    };
    for stream in [&caller, &server] {
        let _ = stream.set_nodelay(true);
        // Taken back below for an orderly end: a fault drops this task anywhere.
        let _ = stream.set_zero_linger();
    }
    let (from_caller, to_caller) = caller.into_split();
    let (from_server, to_server) = server.into_split();
    let _ = tokio::try_join!(
        pump(from_caller, to_server, &link, Way::ToServer),
        pump(from_server, to_caller, &link, Way::ToCaller),
    );
}

/// One direction: bytes queue up with the time at which they came, and go on when it is their time.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    link: &Link,
    way: Way,
) -> io::Result<()> {
    let (queue, mut queued) = mpsc::channel::<(Instant, Vec<u8>)>(CHUNKS_UNDER_WAY_MAX);
    let reading = async move {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = from.read(&mut chunk).await?;
            let came = (Instant::now(), chunk[..read].to_vec());
            if queue.send(came).await.is_err() || read == 0 {
                return Ok(());
            }
        }
    };
    let writing = async move {
        while let Some((came, bytes)) = queued.recv().await {
            wait_for(link, came).await;
            if bytes.is_empty() {
                return to.shutdown().await;
            }
            write(&mut to, &bytes, link, way).await?;
        }
        Ok(())
    };
    tokio::try_join!(reading, writing).map(|_: ((), ())| ())
}

/// Returns when the weather lets bytes through that came at this time.
async fn wait_for(link: &Link, came: Instant) {
    let mut weather = link.weather.subscribe();
    loop {
        let now = *weather.borrow_and_update();
        tokio::select! {
            () = sleep_until(came + now.delay), if !now.black_hole => return,
            changed = weather.changed() => if changed.is_err() { return },
        }
    }
}

async fn write(to: &mut OwnedWriteHalf, bytes: &[u8], link: &Link, way: Way) -> io::Result<()> {
    if way == Way::ToServer || link.allowance.load(Ordering::Relaxed) == UNLIMITED {
        return to.write_all(bytes).await;
    }
    let size = i64::try_from(bytes.len()).unwrap_or(UNLIMITED);
    let before = link.allowance.fetch_sub(size, Ordering::Relaxed);
    if before >= size {
        return to.write_all(bytes).await;
    }
    let part = usize::try_from(before.max(0)).unwrap_or_default();
    // Once only: the connection that replaces this one is a good one.
    link.allowance.store(UNLIMITED, Ordering::Relaxed);
    to.write_all(&bytes[..part]).await?;
    Err(io::ErrorKind::ConnectionReset.into())
}
