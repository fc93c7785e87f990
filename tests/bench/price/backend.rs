//! The fastest backend there can be, as a process of its own: it answers what it is sent without looking
//! at it, and keeps whoever wants a WebSocket until they go.

use crate::claims::Verdict;
use clap::Args;
use harness::http::Failure;
use harness::ports;
use harness::process::Process;
use harness::wait::eventually;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n";
const SWITCHED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
    upgrade: websocket\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
/// Longer than any head that is sent here.
const HEAD_BYTES_MAX: usize = 4096;

#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[arg(long)]
    listen: SocketAddr,
}

pub(crate) async fn serve(flags: &Flags) -> Result<Verdict, Failure> {
    let listener = TcpListener::bind(flags.listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // Whoever breaks off has gone; the next is served.
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while stream.read_buf(&mut head).await? > 0 {
        if head.ends_with(b"\r\n\r\n") {
            if is_upgrade(&head) {
                drop(head);
                stream.write_all(SWITCHED).await?;
                return until_it_ends(stream).await;
            }
            stream.write_all(OK).await?;
            head.clear();
        }
        if head.len() > HEAD_BYTES_MAX {
            return Ok(());
        }
    }
    Ok(())
}

fn is_upgrade(head: &[u8]) -> bool {
    head.windows(10)
        .any(|bytes| bytes.eq_ignore_ascii_case(b"\r\nupgrade:"))
}

async fn until_it_ends(mut stream: TcpStream) -> std::io::Result<()> {
    let mut ignored = [0; 64];
    while stream.read(&mut ignored).await? > 0 {}
    Ok(())
}

/// The process, and where it listens.
pub(crate) struct Backend {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Backend {
    pub(crate) async fn start(directory: &Path) -> Result<Self, Failure> {
        let address = ports::free();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["backend", "--listen", &address.to_string()]);
        let process = Process::start("backend", &mut command, directory.join("backend.log"));
        eventually("the backend listens", async || {
            process.expect_running();
            TcpStream::connect(address).await.is_ok()
        })
        .await;
        Ok(Self { process, address })
    }

    /// Connections that it has, those included that just end.
    pub(crate) fn connections(&self) -> u64 {
        self.process.descriptors()
    }
}
