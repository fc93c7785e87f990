//! What operators do at a terminal: `berth policy`, `explain`, `leases` and `audit` ask a running sidecar over its HTTP API.
//!
//! Each command returns what is to be printed, or an error that is a sentence.

mod client;
pub mod explain;
pub mod leases;
pub mod policy;

pub use client::{Address, Client, OperatorError};

/// Which sidecar to ask.
#[derive(Debug, Clone, clap::Args)]
pub struct Sidecar {
    /// The sidecar to ask: host:port, or a Unix socket as unix:/path or /path.
    #[arg(long, value_name = "ADDRESS", env = "BERTH_SIDECAR", default_value_t)]
    sidecar: Address,
}

impl Sidecar {
    fn client(&self) -> Client {
        Client::new(self.sidecar.clone())
    }
}
