//! Closed-loop clients on kept connections: each asks, waits for the answer, and asks again at once. They
//! read no more of HTTP than they must, because what they take of the CPU is taken from what is measured.

use crate::measure::{Meter, Spent};
use harness::http::Failure;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Nothing here takes as long: an answer that does will not come.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which client asks, and how often it has asked before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) client: u64,
    pub(crate) before: u64,
}

pub(crate) struct Load {
    pub(crate) clients: u64,
    pub(crate) target: SocketAddr,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

/// What came back inside the window.
pub(crate) struct Answers {
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) count: usize,
    pub(crate) spent: Spent,
}

impl Load {
    /// Every answer must be a 200.
    pub(crate) async fn drive(
        &self,
        question: impl Fn(Turn) -> Vec<u8> + Clone + Send + 'static,
        meter: &Meter<'_>,
    ) -> Result<Answers, Failure> {
        let begin = Instant::now() + self.warm_up;
        let end = begin + self.window;
        let mut clients = JoinSet::new();
        for client in 0..self.clients {
            let stream = TcpStream::connect(self.target).await?;
            stream.set_nodelay(true)?;
            clients.spawn(ask_and_ask_again(
                stream,
                client,
                question.clone(),
                begin,
                end,
            ));
        }
        sleep_until(begin).await;
        let before = meter.read();
        sleep_until(end).await;
        let spent = meter.read().since(&before);
        let mut times = Vec::new();
        while let Some(client) = clients.join_next().await {
            times.extend(client??);
        }
        times.sort();
        let rank = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times
                .get(rank)
                .map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
        };
        Ok(Answers {
            per_second: times.len() as f64 / self.window.as_secs_f64(),
            p50_ms: rank(50),
            p99_ms: rank(99),
            count: times.len(),
            spent,
        })
    }
}

/// Ends with the first answer after the window, so that no request is cut off.
async fn ask_and_ask_again(
    mut stream: TcpStream,
    client: u64,
    question: impl Fn(Turn) -> Vec<u8>,
    begin: Instant,
    end: Instant,
) -> Result<Vec<Duration>, Failure> {
    let mut times = Vec::new();
    let mut answer = Vec::new();
    for before in 0.. {
        let request = question(Turn { client, before });
        let asked = Instant::now();
        timeout(PATIENCE, exchange(&mut stream, &request, &mut answer)).await??;
        let answered = Instant::now();
        if answered >= end {
            break;
        }
        if answered >= begin {
            times.push(answered - asked);
        }
    }
    Ok(times)
}

async fn exchange(
    stream: &mut TcpStream,
    request: &[u8],
    answer: &mut Vec<u8>,
) -> Result<(), Failure> {
    answer.clear();
    stream.write_all(request).await?;
    loop {
        if stream.read_buf(answer).await? == 0 {
            return Err("the connection was closed before the answer's end".into());
        }
        if let Some(head) = head_of(answer) {
            let length = content_length(&answer[..head]);
            let length = length.ok_or("an answer without a length")?;
            if answer.len() >= head + length {
                break;
            }
        }
    }
    if answer.get(9..12) != Some(b"200") {
        return Err(format!("answered {}", String::from_utf8_lossy(answer)).into());
    }
    Ok(())
}

/// Where the body begins, once the head is whole.
pub(crate) fn head_of(answer: &[u8]) -> Option<usize> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    Some(end + 4)
}

fn content_length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let at = head
        .windows(NAME.len())
        .position(|bytes| bytes.eq_ignore_ascii_case(NAME))?;
    let digits = head[at + NAME.len()..]
        .split(|byte| *byte == b'\r')
        .next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A plain request without a body.
pub(crate) fn get(_: Turn) -> Vec<u8> {
    b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n".to_vec()
}

pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
