//! One connection's life. axum's own server cannot ping: a peer on another host that vanished without
//! a word would seem present for ever. Nor does it end those who never say what they want.

use crate::doors::tls::Certificates;
use crate::metrics::Metrics;
use crate::metrics::doors::Reason;
use crate::untaken::{Answer, Noting, Untaken};
use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// How often a peer on another host is pinged, and how long its answer may take.
const PING_EVERY: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(4);
/// Out of file descriptors, most likely: some may be free again after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);
/// A connection without a request for this long is closed. An Envoy's has its presence all the time.
const IDLE_MAX: Duration = Duration::from_secs(300);
/// How long a connection that is to end may take.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// How often a handshake that failed is told of, at most: whoever comes with nothing must not fill the log.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The header of a request: ids, a token and traces fit twice over.
const HEADER_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// Requests at a time over one HTTP/2 connection; Envoy opens another for more.
const STREAMS_MAX: u32 = 256;
/// Streams that a peer opened and reset before anybody looked: above this it means harm.
const RESETS_MAX: usize = 20;
/// Bytes of an answer that a stream hands over before its peer has read those before: with all streams of a
/// connection 4 MiB.
const SEND_BYTES_MAX: usize = 16 * 1024;
/// Streams that broke a rule of HTTP/2, over one connection.
const ERRORS_MAX: usize = 256;

/// A request that came from another host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remote;

/// Marks an answer that goes on until somebody hangs up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endless;

/// Where a request came in, and from whom.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The listener's address, as the settings have it.
    pub(crate) listener: Arc<str>,
    /// Absent on a Unix socket. As text, which is written down for each request.
    pub(crate) peer: Option<Arc<str>>,
}

/// Receives all who come to one listener.
#[derive(Debug)]
pub(crate) struct Host {
    /// Its address, as the settings have it.
    pub(crate) name: String,
    pub(crate) router: Router,
    pub(crate) certificates: Option<Certificates>,
    pub(crate) header_timeout: Duration,
    /// How long an answer may wait for its caller.
    pub(crate) take_timeout: Duration,
    /// One for each connection that may be there.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stop: CancellationToken,
    /// When a handshake that failed was last told of.
    pub(crate) told: Mutex<Option<Instant>>,
}

impl Host {
    pub(crate) async fn serve_tcp(self: Arc<Self>, listener: TcpListener) {
        let mut connections = JoinSet::new();
        while let Some(accepted) = self.stop.run_until_cancelled(listener.accept()).await {
            match accepted {
                Ok((stream, peer)) => {
                    self.receive(&mut connections, |host| host.greet(stream, peer));
                }
                Err(error) => wait_after(&error).await,
            }
        }
        // Whoever comes now is to be refused at once, and not to wait for somebody who does not accept any more.
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    pub(crate) async fn serve_unix(self: Arc<Self>, listener: UnixListener) {
        let mut connections = JoinSet::new();
        while let Some(accepted) = self.stop.run_until_cancelled(listener.accept()).await {
            match accepted {
                Ok((stream, _)) => {
                    self.receive(&mut connections, |host| host.serve(stream, None));
                }
                Err(error) => wait_after(&error).await,
            }
        }
        // Whoever comes now is to be refused at once, and not to wait for somebody who does not accept any more.
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    /// Serves one connection beside the others; without a place for it, it is closed at once.
    fn receive<F>(
        self: &Arc<Self>,
        connections: &mut JoinSet<()>,
        serve: impl FnOnce(Arc<Self>) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        while connections.try_join_next().is_some() {}
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.metrics.doors.turned_away(&self.name);
            return;
        };
        let connected = self.metrics.doors.connected(&self.name);
        let serving = serve(self.clone());
        connections.spawn(async move {
            serving.await;
            drop((place, connected));
        });
    }

    /// A handshake first, where there is TLS; whoever does not finish it in time is gone.
    async fn greet(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        // Answers are small and single: none should wait for another.
        let _ = stream.set_nodelay(true);
        let Some(certificates) = &self.certificates else {
            return self.serve(stream, Some(peer)).await;
        };
        let handshake = certificates.acceptor().accept(stream);
        let handshake = tokio::time::timeout(self.header_timeout, handshake);
        // Who is not through yet has asked nothing, so that a stop need not wait for it.
        let Some(ended) = self.stop.run_until_cancelled(handshake).await else {
            return;
        };
        match ended {
            Ok(Ok(stream)) => self.serve(stream, Some(peer)).await,
            Ok(Err(error)) => self.no_handshake(peer, &error.to_string()),
            Err(_) => self.no_handshake(peer, "it took too long"),
        }
    }

    /// Every one is counted; of many in a row one is told.
    fn no_handshake(&self, peer: SocketAddr, error: &str) {
        self.metrics.doors.no_handshake(&self.name);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
            *told = Some(Instant::now());
            tracing::info!(listener = self.name, %peer, error, "no TLS handshake");
        }
    }

    async fn serve<S>(self: Arc<Self>, stream: S, peer: Option<SocketAddr>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let from_elsewhere = |peer: &SocketAddr| !peer.ip().to_canonical().is_loopback();
        let remote = peer.filter(from_elsewhere).map(|_| Remote);
        let caller = Caller {
            listener: self.name.as_str().into(),
            peer: peer.map(|peer| peer.to_string().into()),
        };
        let builder = self.builder(remote);
        let activity = Arc::new(Activity::default());
        let seen = activity.clone();
        let untaken = Arc::new(Untaken::default());
        let stream = Noting::new(stream, &untaken);
        let answers = untaken.clone();
        let router = self.router.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let underway = UnderWay::of(&seen);
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(caller.clone());
            request.extensions_mut().insert(answers.clone());
            if let Some(remote) = remote {
                request.extensions_mut().insert(remote);
            }
            let answer = router.clone().oneshot(request);
            let answers = answers.clone();
            async move {
                answer.await.map(|answer| {
                    let endless = answer.extensions().get::<Endless>().is_some();
                    answer.map(|body| match endless {
                        true => Answer::endless(body, underway),
                        false => answers.count(body),
                    })
                })
            }
        });
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = activity.idle(self.header_timeout) => {
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(CLOSE_MAX, connection).await {
                    Ok(ended) => ended,
                    Err(_) => Ok(()),
                }
            }
            () = untaken.given_up(self.take_timeout) => {
                self.metrics.doors.refused(Reason::Untaken);
                tracing::debug!(listener = self.name, "closed: its peer takes no answers");
                Ok(())
            }
        };
        if let Err(error) = ended {
            tracing::debug!(listener = self.name, %error, "a connection ended");
        }
    }

    fn builder(&self, remote: Option<Remote>) -> Builder<TokioExecutor> {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEADER_BYTES_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(HEADER_BYTES_MAX as u32)
            .max_concurrent_streams(STREAMS_MAX)
            .max_send_buf_size(SEND_BYTES_MAX)
            .max_pending_accept_reset_streams(RESETS_MAX)
            .max_local_error_reset_streams(ERRORS_MAX);
        if remote.is_some() {
            builder
                .http2()
                .keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(PING_TIMEOUT);
        }
        builder
    }
}

/// A peer that is gone already is no reason to wait.
async fn wait_after(error: &std::io::Error) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if ![ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind()) {
        tracing::warn!(%error, "cannot accept a connection");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

/// What goes on over one connection.
#[derive(Debug, Default)]
struct Activity {
    under_way: AtomicUsize,
    /// Since the last look.
    began: AtomicBool,
}

impl Activity {
    /// Ends when no request came in time, or none was under way for long. For what hyper does not see:
    /// a peer that says nothing at all, or stops in the middle of an HTTP/2 frame.
    async fn idle(&self, first: Duration) {
        let mut patience = first;
        loop {
            tokio::time::sleep(patience).await;
            let began = self.began.swap(false, Ordering::Relaxed);
            if !began && self.under_way.load(Ordering::Relaxed) == 0 {
                return;
            }
            patience = IDLE_MAX;
        }
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Activity>);

impl UnderWay {
    fn of(activity: &Arc<Activity>) -> Self {
        activity.began.store(true, Ordering::Relaxed);
        activity.under_way.fetch_add(1, Ordering::Relaxed);
        Self(activity.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
