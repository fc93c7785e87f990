//! Closed-loop clients: each asks, waits for the answer, and asks again at once.

use crate::cpu;
use bytes::Bytes;
use harness::client::worker_of;
use harness::http::Failure;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Nothing here takes as long: an answer that does will not come.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Load {
    pub(crate) clients: usize,
    /// The clients take turns.
    pub(crate) envoys: Vec<SocketAddr>,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

/// One answer that came inside the window.
pub(crate) struct Answer {
    /// From the first attempt on: whoever is refused asks again, and all the while waits.
    pub(crate) took: Duration,
    pub(crate) worker: String,
    /// How often it was refused before. A machine that does too much else lets Redis miss its time.
    pub(crate) refusals: usize,
}

impl Load {
    /// Returns the answers, and the share of time for which the CPU was busy meanwhile.
    pub(crate) async fn drive(self) -> Result<(Vec<Answer>, f64), Failure> {
        let begin = Instant::now() + self.warm_up;
        let end = begin + self.window;
        let mut clients = JoinSet::new();
        for number in 0..self.clients {
            let envoy = self.envoys[number % self.envoys.len()];
            clients.spawn(ask_and_ask_again(envoy, begin, end));
        }
        sleep_until(begin).await;
        let before = cpu::Usage::now()?;
        sleep_until(end).await;
        let cpu_busy = cpu::Usage::now()?.busy_since(&before);
        let mut answers = Vec::new();
        while let Some(client) = clients.join_next().await {
            answers.extend(client??);
        }
        Ok((answers, cpu_busy))
    }
}

/// Ends with the first answer after the window, so that no request is cut off.
async fn ask_and_ask_again(
    envoy: SocketAddr,
    begin: Instant,
    end: Instant,
) -> Result<Vec<Answer>, Failure> {
    let mut sender = connect(envoy).await?;
    let mut answers = Vec::new();
    loop {
        let asked = Instant::now();
        let (worker, refusals) = timeout(PATIENCE, ask(&mut sender, envoy)).await??;
        let answered = Instant::now();
        if answered >= end {
            return Ok(answers);
        }
        if answered >= begin {
            let took = answered - asked;
            answers.push(Answer {
                took,
                worker,
                refusals,
            });
        }
    }
}

pub(crate) async fn ask_once(envoy: SocketAddr) -> Result<(), Failure> {
    ask(&mut connect(envoy).await?, envoy).await?;
    Ok(())
}

async fn connect(envoy: SocketAddr) -> Result<SendRequest<Empty<Bytes>>, Failure> {
    let stream = TcpStream::connect(envoy).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the sender.
    tokio::spawn(connection);
    Ok(sender)
}

/// Which worker answered, and after how many refusals.
async fn ask(
    sender: &mut SendRequest<Empty<Bytes>>,
    envoy: SocketAddr,
) -> Result<(String, usize), Failure> {
    let mut refusals = 0;
    loop {
        sender.ready().await?;
        let request = Request::get("/").header(HOST, envoy.to_string());
        let response = sender.send_request(request.body(Empty::new())?).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        match head.status {
            StatusCode::OK => return Ok((worker_of(&head.headers), refusals)),
            StatusCode::SERVICE_UNAVAILABLE => refusals += 1,
            status => {
                let body = String::from_utf8_lossy(&body);
                return Err(format!("{envoy} answered {status}: {body}").into());
            }
        }
    }
}
