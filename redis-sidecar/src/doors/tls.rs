//! TLS of a listener, and of an operator's command.

use super::watched::Watched;
use crate::settings::Tls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// A listener's certificate, and those who may come; read again when a file changes.
#[derive(Debug)]
pub(crate) struct Certificates(Watched<ServerConfig>);

impl Certificates {
    pub(crate) fn open(tls: &Tls) -> Result<Self, String> {
        let mut files = vec![tls.cert_file.clone(), tls.key_file.clone()];
        files.extend(tls.client_ca_file.clone());
        let tls = tls.clone();
        Watched::new(files, move || server(&tls)).map(Self)
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.current())
    }
}

fn server(tls: &Tls) -> Result<ServerConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("listeners.tls: {error}"))?;
    let builder = match &tls.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let roots = Arc::new(roots("listeners.tls.client_ca_file", file)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            builder.with_client_cert_verifier(
                verifier.map_err(|error| format!("listeners.tls.client_ca_file: {error}"))?,
            )
        }
    };
    let certificates = certificates("listeners.tls.cert_file", &tls.cert_file)?;
    let key = key("listeners.tls.key_file", &tls.key_file)?;
    let mut config = builder
        .with_single_cert(certificates, key)
        .map_err(|error| format!("listeners.tls.cert_file and key_file: {error}"))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// A client's own certificate, where the sidecar asks for one.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) cert_file: PathBuf,
    pub(crate) key_file: PathBuf,
}

pub(crate) fn client(ca: &Path, identity: Option<&Identity>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots("--ca-file", ca)?);
    match identity {
        None => Ok(builder.with_no_client_auth()),
        Some(Identity {
            cert_file,
            key_file,
        }) => builder
            .with_client_auth_cert(
                certificates("--cert-file", cert_file)?,
                key("--key-file", key_file)?,
            )
            .map_err(|error| format!("--cert-file and --key-file: {error}")),
    }
}

fn roots(setting: &str, file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(setting, file)? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("{setting}: {}: {error}", file.display()))?;
    }
    Ok(roots)
}

fn certificates(setting: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let named = |reason: String| format!("{setting}: {}: {reason}", file.display());
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file)
        .map_err(|error| named(error.to_string()))?
        .collect();
    match found {
        Ok(found) if found.is_empty() => Err(named("there is no certificate in it (PEM)".into())),
        Ok(found) => Ok(found),
        Err(error) => Err(named(error.to_string())),
    }
}

fn key(setting: &str, file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(file)
        .map_err(|error| format!("{setting}: {}: {error}", file.display()))
}
