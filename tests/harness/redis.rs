//! A private redis-server that keeps nothing on disk.

use crate::ports;
use crate::process::Process;
use crate::wait::eventually;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Debug)]
pub struct Redis {
    pub process: Process,
    address: SocketAddr,
    directory: PathBuf,
}

impl Redis {
    pub fn start(address: SocketAddr, directory: &Path) -> Self {
        Self {
            process: launch(address, directory),
            address,
            directory: directory.to_path_buf(),
        }
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts it again where it was, with nothing in it.
    pub async fn restart(&mut self) {
        self.process.kill();
        eventually("the port of Redis is free again", async || {
            ports::is_free(self.address)
        })
        .await;
        self.process = launch(self.address, &self.directory);
        self.ready().await;
    }

    pub async fn ready(&self) {
        eventually("Redis answers PING", async || {
            self.process.expect_running();
            ping(self.address).await.is_ok()
        })
        .await;
    }
}

fn launch(address: SocketAddr, directory: &Path) -> Process {
    let program = std::env::var("REDIS_SERVER_BIN").unwrap_or_else(|_| "redis-server".into());
    let mut command = Command::new(program);
    command
        .args(["--bind", &address.ip().to_string()])
        .args(["--port", &address.port().to_string()])
        .args(["--save", "", "--appendonly", "no"])
        // With eviction Redis would forget leases without a word.
        .args(["--maxmemory-policy", "noeviction"])
        .arg("--dir")
        .arg(directory);
    Process::start("redis", &mut command, directory.join("redis.log"))
}

async fn ping(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"PING\r\n").await?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).await?;
    if &answer == b"+PONG\r\n" {
        Ok(())
    } else {
        Err(std::io::Error::other("Redis is still loading"))
    }
}
