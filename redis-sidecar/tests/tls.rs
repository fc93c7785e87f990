//! Certificates on both sides, and `berth` as a client that has one.

use crate::doors::{METRICS, OPERATOR, Sidecar};
use crate::support::eventually;
use crate::support::server::{free_address, request, send};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use redis_sidecar::settings::{Api, Limits, Listen, Listener, Tls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A CA, and whom it has signed; all in files.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: PathBuf,
}

impl Authority {
    fn new(directory: &Path, name: &str) -> Self {
        let directory = directory.join(name);
        std::fs::create_dir(&directory).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(directory.join("ca.crt"), certificate.pem()).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            directory,
        }
    }

    /// The files of a certificate and its key.
    fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |ending| self.directory.join(format!("{name}.{ending}"));
        std::fs::write(file("key"), key.serialize_pem()).unwrap();
        std::fs::write(file("crt"), certificate.pem()).unwrap();
        (file("crt"), file("key"))
    }

    fn ca(&self) -> PathBuf {
        self.directory.join("ca.crt")
    }
}

fn connector(authority: &Authority, identity: Option<(PathBuf, PathBuf)>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(authority.ca()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let certificates = vec![CertificateDer::from_pem_file(certificate).unwrap()];
            let key = PrivateKeyDer::from_pem_file(key).unwrap();
            builder.with_client_auth_cert(certificates, key).unwrap()
        }
    };
    TlsConnector::from(Arc::new(config))
}

/// The status that this client gets, if it gets in.
async fn status(connector: &TlsConnector, address: SocketAddr, path: &str) -> Option<u16> {
    let stream = TcpStream::connect(address).await.ok()?;
    let name = "localhost".try_into().unwrap();
    let stream = connector.connect(name, stream).await.ok()?;
    let answer = send(stream, &request("GET", path, &[], "")).await;
    answer.map(|it| it.status)
}

/// A sidecar with a door that asks for certificates and for no token.
async fn start(authority: &Authority) -> (Sidecar, SocketAddr) {
    start_with(authority, Limits::default()).await
}

async fn start_with(authority: &Authority, limits: Limits) -> (Sidecar, SocketAddr) {
    let address = free_address();
    let (cert_file, key_file) = authority.sign("server");
    let sidecar = Sidecar::start(|settings| {
        settings.limits = limits;
        settings.listeners.push(Listener {
            address: Listen::Tcp(([0, 0, 0, 0], address.port()).into()),
            serves: Api::ALL.to_vec(),
            tokens: false,
            tls: Some(Tls {
                cert_file,
                key_file,
                client_ca_file: Some(authority.ca()),
            }),
        });
    })
    .await;
    (sidecar, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_has_a_certificate_of_the_right_authority_is_let_in() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "ours");
    let stranger = Authority::new(directory.path(), "theirs");
    let (sidecar, address) = start(&authority).await;
    let known = connector(&authority, Some(authority.sign("envoy")));
    assert_eq!(status(&known, address, "/v1/pools").await, Some(200));
    let unknown = connector(&authority, Some(stranger.sign("rogue")));
    let nobody = connector(&authority, None);
    for refused in [unknown, nobody] {
        for path in ["/v1/pools", "/healthz"] {
            assert_eq!(status(&refused, address, path).await, None, "{path}");
        }
    }
    let plain = TcpStream::connect(address).await.unwrap();
    let answer = send(plain, &request("GET", "/v1/pools", &[], "")).await;
    assert!(answer.is_none(), "{answer:?}");
    sidecar.server.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_fails_is_counted_and_one_that_hangs_delays_no_stop() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "ours");
    let (sidecar, address) = start(&authority).await;
    let nobody = connector(&authority, None);
    assert_eq!(status(&nobody, address, "/healthz").await, None);
    let counted = format!(
        "berth_handshakes_failed_total{{listener=\"0.0.0.0:{}\"}} 1",
        address.port()
    );
    eventually(async || sidecar.metric(&counted).await).await;
    let _silent = TcpStream::connect(address).await.unwrap();
    let open = "berth_connections{listener=\"0.0.0.0:";
    eventually(async || {
        let metrics = sidecar.call(Some(METRICS), "GET", "/metrics", "").await;
        let metrics = metrics.body.as_str().unwrap();
        metrics
            .lines()
            .any(|it| it.starts_with(open) && it.ends_with(" 1"))
    })
    .await;
    let started = Instant::now();
    sidecar.server.end().await.unwrap();
    // Answers under way would have 5 s.
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_finish_its_handshake_is_gone_in_time() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "ours");
    let limits = Limits {
        header_timeout_ms: 300,
        ..Limits::default()
    };
    let (sidecar, address) = start_with(&authority, limits).await;
    for begun in ["", "\x16\x03\x01\x02\0"] {
        let stream = TcpStream::connect(address).await.unwrap();
        let answer = send(stream, begun.as_bytes()).await;
        assert!(answer.is_none(), "{answer:?}");
    }
    sidecar.server.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_while_the_sidecar_runs() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "ours");
    let (sidecar, address) = start(&authority).await;
    let client = connector(&authority, Some(authority.sign("envoy")));
    let shown = async || -> Option<Vec<u8>> {
        let stream = TcpStream::connect(address).await.ok()?;
        let stream = client
            .connect("localhost".try_into().unwrap(), stream)
            .await
            .ok()?;
        Some(stream.get_ref().1.peer_certificates()?[0].to_vec())
    };
    let first = shown().await.unwrap();
    let (renewed, _) = authority.sign("server");
    let renewed = CertificateDer::from_pem_file(renewed).unwrap().to_vec();
    assert_ne!(first, renewed);
    eventually(async || shown().await.as_ref() == Some(&renewed)).await;
    sidecar.server.end().await.unwrap();
}

async fn berth(words: Vec<String>) -> Output {
    let run = move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command.args(words).env_clear().output().unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_commands_bring_a_token_or_a_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new(directory.path(), "ours");
    let (sidecar, address) = start(&authority).await;
    let text = |path: &Path| path.display().to_string();
    let show = |rest: &[String]| {
        let mut words = vec!["policy".to_owned(), "show".into(), "demo".into()];
        words.extend_from_slice(rest);
        words
    };
    let token = directory.path().join("token");
    std::fs::write(&token, format!("# mine\n{OPERATOR}\n")).unwrap();
    let socket = ["--sidecar".to_owned(), text(&sidecar.socket())];
    let with_token = [&socket[..], &["--token-file".into(), text(&token)]].concat();
    assert!(berth(show(&with_token)).await.status.success());
    let without = berth(show(&socket)).await;
    let complaint = String::from_utf8_lossy(&without.stderr);
    assert!(
        !without.status.success() && complaint.contains("--token-file"),
        "{complaint}"
    );

    let (certificate, key) = authority.sign("operator");
    let https = ["--sidecar".to_owned(), format!("https://{address}")];
    let files = [
        "--ca-file",
        &text(&authority.ca()),
        "--cert-file",
        &text(&certificate),
        "--key-file",
        &text(&key),
    ];
    let certified = [&https[..], &files.map(str::to_owned)].concat();
    let shown = berth(show(&certified)).await;
    assert!(
        shown.status.success(),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
    // A certificate for another name than the one that is called.
    let other = [
        "--sidecar".to_owned(),
        format!("https://127.0.0.2:{}", address.port()),
    ];
    let other = [&other[..], &certified[2..]].concat();
    let complaint = berth(show(&other)).await.stderr;
    assert!(String::from_utf8_lossy(&complaint).contains("--server-name"));
    let named = [
        &other[..],
        &["--server-name".to_owned(), "localhost".into()],
    ]
    .concat();
    assert!(berth(show(&named)).await.status.success());
    let no_ca = berth(show(&https)).await;
    assert!(String::from_utf8_lossy(&no_ca.stderr).contains("--ca-file"));
    sidecar.server.end().await.unwrap();
}
