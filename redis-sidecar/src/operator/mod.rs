//! What operators do at a terminal: `berth policy`, `explain`, `leases` and `audit` ask a running sidecar over its HTTP API.
//!
//! Each command returns what is to be printed, or an error that is a sentence.

mod client;
pub mod explain;
pub mod leases;
pub mod policy;

pub use client::{Address, Client, OperatorError};

use crate::doors::tls::Identity;
use client::Credentials;
use std::path::PathBuf;

/// Which sidecar to ask, and how to be let in.
#[derive(Debug, Clone, clap::Args)]
pub struct Sidecar {
    /// The sidecar to ask: host:port, https://host:port, or a Unix socket as unix:/path or /path.
    #[arg(long, value_name = "ADDRESS", env = "BERTH_SIDECAR", default_value_t)]
    sidecar: Address,
    /// A file with an operator's token, where the sidecar asks for one.
    #[arg(long, value_name = "FILE", env = "BERTH_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// With https: the certificate of the CA that signed the sidecar's.
    #[arg(long, value_name = "FILE", env = "BERTH_CA_FILE")]
    ca_file: Option<PathBuf>,
    /// With https: this command's own certificate, where the sidecar asks for one.
    #[arg(
        long,
        value_name = "FILE",
        env = "BERTH_CERT_FILE",
        requires = "key_file"
    )]
    cert_file: Option<PathBuf>,
    /// And its key.
    #[arg(
        long,
        value_name = "FILE",
        env = "BERTH_KEY_FILE",
        requires = "cert_file"
    )]
    key_file: Option<PathBuf>,
    /// With https: the name that the sidecar's certificate is for, if it is not the host's.
    #[arg(long, value_name = "NAME", env = "BERTH_SERVER_NAME")]
    server_name: Option<String>,
}

impl Sidecar {
    fn client(&self) -> Result<Client, OperatorError> {
        let identity = self.cert_file.clone().zip(self.key_file.clone());
        Client::new(self.sidecar.clone()).with(&Credentials {
            token_file: self.token_file.clone(),
            ca_file: self.ca_file.clone(),
            server_name: self.server_name.clone(),
            identity: identity.map(|(cert_file, key_file)| Identity {
                cert_file,
                key_file,
            }),
        })
    }
}
