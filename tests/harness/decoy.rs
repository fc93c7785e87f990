//! A server that nobody may reach.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

#[derive(Debug)]
pub struct Decoy {
    address: SocketAddr,
    visits: Arc<AtomicUsize>,
    server: JoinHandle<()>,
}

impl Decoy {
    pub async fn open() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let visits = Arc::new(AtomicUsize::new(0));
        let counted = visits.clone();
        let server = tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Self {
            address,
            visits,
            server,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn visits(&self) -> usize {
        self.visits.load(Ordering::Relaxed)
    }
}

impl Drop for Decoy {
    fn drop(&mut self) {
        self.server.abort();
    }
}
