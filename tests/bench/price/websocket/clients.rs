//! Clients that open a WebSocket and say nothing.

use crate::load::head_of;
use harness::client::UPGRADE;
use harness::http::Failure;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// So many open theirs at the same time.
const AT_ONCE: usize = 32;
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Opened {
    pub(super) sessions: Vec<TcpStream>,
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Through these doors in turns. Every one must be opened.
pub(super) async fn open(doors: &[SocketAddr], count: usize) -> Result<Opened, Failure> {
    let started = Instant::now();
    let mut openers = JoinSet::new();
    for opener in 0..AT_ONCE {
        let door = doors[opener % doors.len()];
        let share = count / AT_ONCE + usize::from(opener < count % AT_ONCE);
        openers.spawn(async move {
            let mut opened = Vec::new();
            for _ in 0..share {
                let started = Instant::now();
                let session = timeout(PATIENCE, open_one(door)).await??;
                opened.push((session, started.elapsed()));
            }
            Ok::<_, Failure>(opened)
        });
    }
    let (mut sessions, mut times) = (Vec::new(), Vec::new());
    while let Some(opened) = openers.join_next().await {
        for (session, time) in opened?? {
            sessions.push(session);
            times.push(time.as_secs_f64() * 1000.0);
        }
    }
    let took = started.elapsed();
    times.sort_by(f64::total_cmp);
    let rank = |percent: usize| {
        let rank = (times.len() * percent).div_ceil(100).saturating_sub(1);
        times.get(rank).copied().unwrap_or(f64::NAN)
    };
    Ok(Opened {
        per_second: count as f64 / took.as_secs_f64(),
        p50_ms: rank(50),
        p99_ms: rank(99),
        sessions,
    })
}

async fn open_one(door: SocketAddr) -> Result<TcpStream, Failure> {
    let mut stream = TcpStream::connect(door).await?;
    stream.set_nodelay(true)?;
    stream.write_all(UPGRADE).await?;
    let mut head = Vec::with_capacity(512);
    while head_of(&head).is_none() {
        if stream.read_buf(&mut head).await? == 0 {
            return Err("the connection was closed before the answer's end".into());
        }
    }
    if head.get(9..12) != Some(b"101") {
        return Err(format!("not opened: {}", String::from_utf8_lossy(&head)).into());
    }
    Ok(stream)
}
