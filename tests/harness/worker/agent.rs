//! The talking half of a worker: it keeps the sidecar informed and does what it is advised.

use super::server::{self, Server, Site};
use super::{Serving, Settings};
use crate::api::Api;
use crate::http::Failure;
use admission::id::{Address, Incarnation, Origin};
use admission::message::{
    Advice, HeartbeatRequest, LoadReport, RegisterRequest, ServingStatus, WorkerAnswer,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How soon an idle worker that is to restart asks again whether its last lease was released.
const RELEASE_POLL: Duration = Duration::from_millis(20);
/// A sidecar that cannot be reached is tried again after this, or a heartbeat if that is shorter.
const RECONNECT: Duration = Duration::from_millis(500);

/// Far above any limit that a pool has here: its policy is to decide, not what workers report.
const REPORTED_MAX: u32 = 1000;

/// What to tell the sidecar next.
enum Next {
    Register,
    /// After this pause.
    Heartbeat(Duration),
}

pub(super) struct Agent {
    settings: Settings,
    address: SocketAddr,
    api: Api,
    site: Arc<Site>,
    serving: Serving,
    incarnation: Incarnation,
    started: Instant,
    /// As last told, in this incarnation.
    lifetime: Option<u64>,
    unreachable: bool,
}

impl Agent {
    pub(super) fn new(
        settings: Settings,
        address: SocketAddr,
        site: Arc<Site>,
        serving: Serving,
    ) -> Self {
        Self {
            api: Api::new(settings.sidecar.clone(), settings.pool.clone())
                .with_token(settings.token.clone()),
            settings,
            address,
            site,
            serving,
            incarnation: new_incarnation(),
            started: Instant::now(),
            lifetime: None,
            unreachable: false,
        }
    }

    pub(super) async fn run(mut self) {
        let mut answer = self.register().await;
        loop {
            self.tell_reachability(&answer);
            let next = match &answer {
                Ok(answer) => self.obey(answer).await,
                Err(_) => Next::Heartbeat(self.settings.heartbeat.min(RECONNECT)),
            };
            answer = match next {
                Next::Register => self.register().await,
                Next::Heartbeat(pause) => {
                    tokio::time::sleep(pause).await;
                    self.heartbeat().await
                }
            };
        }
    }

    async fn obey(&mut self, answer: &WorkerAnswer) -> Next {
        let heartbeat = self.settings.heartbeat;
        if answer.advice != Advice::Register {
            self.lifetime = Some(answer.lifetime);
        }
        match answer.advice {
            // While draining, too: nothing new comes, and heartbeats keep the sessions' worker known.
            Advice::Serve | Advice::Drain => Next::Heartbeat(heartbeat),
            Advice::Register => Next::Register,
            // A lease without its session is a client on its way here: it must find the listener.
            Advice::Recycle if self.site.is_idle() && answer.active == 0 => {
                self.restart().await;
                Next::Register
            }
            Advice::Recycle if self.site.is_idle() => Next::Heartbeat(heartbeat.min(RELEASE_POLL)),
            Advice::Recycle => {
                let _ = tokio::time::timeout(heartbeat, self.site.idle()).await;
                Next::Heartbeat(Duration::ZERO)
            }
        }
    }

    /// A new process in all but name: nothing listens meanwhile, and then a new incarnation does.
    async fn restart(&mut self) {
        let mut serving = self.serving.lock().await;
        if let Some(server) = serving.take() {
            server.cut().await;
        }
        tokio::time::sleep(self.settings.restart).await;
        self.incarnation = new_incarnation();
        self.lifetime = None;
        self.started = Instant::now();
        self.site.journal.restarted();
        match server::listen(self.address).await {
            Ok(listener) => *serving = Some(Server::start(listener, self.site.clone())),
            Err(error) => eprintln!("{}: cannot listen again: {error}", self.settings.id),
        }
    }

    async fn register(&self) -> Result<WorkerAnswer, Failure> {
        let address = match self.settings.advertise {
            Some(address) => address,
            None => Address::parse(&self.address.to_string())?,
        };
        let request = RegisterRequest {
            address,
            incarnation: self.incarnation.clone(),
            max_concurrent: self.settings.max_concurrent,
            weight: 1.0,
            lifetime: self.lifetime,
            origin: Origin::parse(&format!("http://{address}")).ok(),
        };
        self.api.register(&self.settings.id, &request).await
    }

    async fn heartbeat(&self) -> Result<WorkerAnswer, Failure> {
        let request = HeartbeatRequest {
            incarnation: self.incarnation.clone(),
            sessions: u64::try_from(self.site.sessions()).ok(),
            report: Some(self.report()),
        };
        self.api.heartbeat(&self.settings.id, &request).await
    }

    /// What an echo server can say of itself. It has no database, so there it has room for ever.
    fn report(&self) -> LoadReport {
        LoadReport {
            status: ServingStatus::Serving,
            running_http_session: u32::try_from(self.site.sessions()).unwrap_or(u32::MAX),
            max_http_sessions: REPORTED_MAX,
            max_open_conns: REPORTED_MAX,
            max_transaction_conns: REPORTED_MAX,
            running_sql: 0,
            running_tx: 0,
            open_conns: 0,
            idle_conns: 0,
            wait_conn_count: 0,
            p95_latency_ms: 0.0,
            error_rate_1m: 0.0,
            timeouts_1m: 0,
            uptime_sec: self.started.elapsed().as_secs_f64(),
        }
    }

    /// One line when the sidecar is lost and one when it is back.
    fn tell_reachability(&mut self, answer: &Result<WorkerAnswer, Failure>) {
        let (id, sidecar) = (&self.settings.id, &self.settings.sidecar);
        match (answer, self.unreachable) {
            (Err(error), false) => eprintln!("{id}: {sidecar} does not answer: {error}"),
            (Ok(_), true) => eprintln!("{id}: {sidecar} answers again"),
            (Err(_), true) | (Ok(_), false) => {}
        }
        self.unreachable = answer.is_err();
    }
}

/// The time will do: one worker does not start twice in a nanosecond.
fn new_incarnation() -> Incarnation {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    match Incarnation::parse(&format!("{:x}", now.as_nanos())) {
        Ok(incarnation) => incarnation,
        Err(error) => panic!("{error}"),
    }
}
