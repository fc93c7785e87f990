//! What Redis is asked, and when: its own log of commands, with the times of its own clock.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// A script that was begun. It takes a fraction of a millisecond.
#[derive(Debug, Clone)]
pub struct Call {
    pub at: SystemTime,
    verb: String,
    args: Vec<String>,
}

impl Call {
    /// The leases that are asked for, and the operation that each is for: ten words each (lua/admit.lua).
    pub fn asks_for(&self) -> impl Iterator<Item = (&str, &str)> {
        let asked = self.args.chunks_exact(10);
        let asked = asked.map(|words| (words[1].as_str(), words[3].as_str()));
        asked.filter(|_| self.verb == "admit")
    }

    /// The leases that are given back: the second of ten words each (lua/release.lua).
    pub fn gives_back(&self) -> impl Iterator<Item = &str> {
        let leases = self.args.chunks_exact(10).map(|words| words[1].as_str());
        leases.filter(|_| self.verb == "release")
    }
}

/// Writes down every script that Redis runs, until it is dropped.
#[derive(Debug)]
pub struct Monitor {
    calls: Arc<Mutex<Vec<Call>>>,
    reading: JoinHandle<()>,
}

impl Monitor {
    pub(crate) async fn start(redis: SocketAddr) -> io::Result<Self> {
        let mut stream = BufReader::new(TcpStream::connect(redis).await?);
        stream.write_all(b"MONITOR\r\n").await?;
        let mut lines = stream.lines();
        lines.next_line().await?;
        let calls = Arc::default();
        let reading = tokio::spawn(read(lines, Arc::clone(&calls)));
        Ok(Self { calls, reading })
    }

    /// Everything since the last look.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

async fn read(mut lines: Lines<BufReader<TcpStream>>, calls: Arc<Mutex<Vec<Call>>>) {
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(call) = parse(&line) {
            (calls.lock().unwrap_or_else(PoisonError::into_inner)).push(call);
        }
    }
}

/// `+1700000000.123456 [0 127.0.0.1:4711] "FCALL" "<library>_<verb>" "<keys>" "<key>"… "<arg>"…`
fn parse(line: &str) -> Option<Call> {
    let (at, rest) = line.strip_prefix('+')?.split_once(' ')?;
    let (_, words) = rest.split_once("] \"")?;
    let words: Vec<&str> = words.strip_suffix('"')?.split("\" \"").collect();
    let ["FCALL", function, keys, rest @ ..] = words.as_slice() else {
        return None;
    };
    let args = rest.get(keys.parse().ok()?..)?;
    Some(Call {
        at: time(at)?,
        verb: function.rsplit_once('_')?.1.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
    })
}

fn time(text: &str) -> Option<SystemTime> {
    let (seconds, micros) = text.split_once('.')?;
    let since = Duration::from_secs(seconds.parse().ok()?);
    Some(UNIX_EPOCH + since + Duration::from_micros(micros.parse().ok()?))
}
