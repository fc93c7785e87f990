//! TLS to Redis, with certificates of the test's own.

use super::desk::{Desk, at};
use harness::redis::{Redis, Settings};
use harness::{eventually, fleet, ports};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use redis_sidecar::settings::{RedisSettings, TlsFiles};
use redis_sidecar::store::Store;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A Redis that speaks TLS to those who show a certificate of its own authority.
struct Guarded {
    redis: Redis,
    address: SocketAddr,
    directory: TempDir,
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(vec![]).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(DnType::CommonName, "authority");
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(params, key).expect("an authority")
}

/// Writes `name.pem` and `name.key`.
fn certificate(authority: &Authority, name: &str, directory: &Path) {
    let subjects = vec!["127.0.0.1".to_owned(), "localhost".into()];
    let mut params = CertificateParams::new(subjects).expect("parameters");
    // Another's name than the authority's, or it would be taken for its own issuer.
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, authority).expect("a certificate");
    std::fs::write(directory.join(format!("{name}.pem")), certificate.pem()).expect("a file");
    std::fs::write(directory.join(format!("{name}.key")), key.serialize_pem()).expect("a file");
}

impl Guarded {
    async fn start() -> Self {
        let directory = fleet::scratch();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let own = authority();
        std::fs::write(path("ca.pem"), own.pem()).expect("a file");
        std::fs::write(path("other-ca.pem"), authority().pem()).expect("a file");
        for name in ["server", "client"] {
            certificate(&own, name, directory.path());
        }
        let address = ports::free();
        let arguments = [
            ("--tls-port", address.port().to_string()),
            ("--tls-ca-cert-file", path("ca.pem")),
            ("--tls-cert-file", path("server.pem")),
            ("--tls-key-file", path("server.key")),
            ("--tls-auth-clients", "yes".into()),
        ];
        let arguments = arguments.into_iter();
        let settings = Settings {
            arguments: arguments
                .flat_map(|(name, value)| [name.to_owned(), value])
                .collect(),
            ..Settings::default()
        };
        let redis = Redis::start_with(ports::free(), settings, directory.path());
        redis.ready().await;
        Self {
            redis,
            address,
            directory,
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.directory.path().join(name))
    }

    fn settings(&self) -> RedisSettings {
        RedisSettings {
            tls: TlsFiles {
                ca_file: self.path("ca.pem"),
                cert_file: self.path("client.pem"),
                key_file: self.path("client.key"),
            },
            // Nothing here measures time: a handshake of a debug build takes long.
            timeout_ms: 10_000,
            ..at(format!("rediss://{}", self.address))
        }
    }
}

/// Why a store with these settings never comes to ask.
async fn refusal(settings: &RedisSettings, part: &str) {
    let store = Store::start(settings, [].into()).expect("a store");
    let pool = admission::id::PoolName::parse("demo").expect("a pool name");
    eventually(part, async || {
        let error = store.reap(&pool).await.expect_err("nobody to ask");
        error.to_string().contains(part)
    })
    .await;
    assert!(!store.is_up());
}

#[tokio::test]
async fn leases_are_taken_over_tls_and_the_connection_is_made_again() {
    let mut guarded = Guarded::start().await;
    let desk = Desk::open(&guarded.settings()).await;
    desk.assert_exact(0).await;
    guarded.redis.restart().await;
    desk.settled().await;
    desk.assert_exact(0).await;
}

#[tokio::test]
async fn a_server_that_is_not_known_and_a_client_that_shows_nothing_are_refused() {
    let guarded = Guarded::start().await;
    let mut stranger = guarded.settings();
    stranger.tls.ca_file = guarded.path("other-ca.pem");
    refusal(&stranger, "certificate").await;
    let mut nobody = guarded.settings();
    (nobody.tls.cert_file, nobody.tls.key_file) = (None, None);
    refusal(&nobody, "not connected").await;
}

#[tokio::test]
async fn a_certificate_that_is_replaced_is_read_again() {
    let guarded = Guarded::start().await;
    let settings = guarded.settings();
    let file = guarded.path("ca.pem").expect("a path");
    let right = std::fs::read(&file).expect("a file");
    std::fs::copy(guarded.path("other-ca.pem").expect("a path"), &file).expect("a copy");
    refusal(&settings, "certificate").await;
    let store = Store::start(&settings, [].into()).expect("a store");
    std::fs::write(&file, right).expect("a file");
    eventually("the right authority is known", async || store.is_up()).await;
}

#[tokio::test]
async fn a_file_that_cannot_be_read_stops_the_start() {
    let guarded = Guarded::start().await;
    let mut settings = guarded.settings();
    settings.tls.ca_file = guarded.path("missing.pem");
    let error = Store::start(&settings, [].into()).expect_err("no start");
    assert!(error.to_string().contains("redis.tls.ca_file"), "{error}");
}
