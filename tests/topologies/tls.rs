//! TLS to Redis, with certificates of the test's own.

use super::desk::{Desk, at};
use harness::process::Process;
use harness::redis::{Redis, Settings};
use harness::{eventually, fleet, ports};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use redis_sidecar::settings::{RedisSettings, TlsFiles};
use redis_sidecar::store::Store;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
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

/// An authority, another one, and certificates for a server and a client.
fn files() -> TempDir {
    let directory = fleet::scratch();
    let own = authority();
    let write = |name: &str, authority: &Authority| {
        std::fs::write(directory.path().join(name), authority.pem()).expect("a file");
    };
    write("ca.pem", &own);
    write("other-ca.pem", &authority());
    for name in ["server", "client"] {
        certificate(&own, name, directory.path());
    }
    directory
}

/// What a server is told, by its settings' names.
fn told(files: &TempDir, port: u16) -> [(&'static str, String); 5] {
    let path = |name: &str| files.path().join(name).display().to_string();
    [
        ("tls-port", port.to_string()),
        ("tls-ca-cert-file", path("ca.pem")),
        ("tls-cert-file", path("server.pem")),
        ("tls-key-file", path("server.key")),
        ("tls-auth-clients", "yes".into()),
    ]
}

/// A Redis beside its files, with this to say beyond TLS.
async fn start(files: &TempDir, address: SocketAddr, more: &[(&'static str, &str)]) -> Redis {
    let place = files.path().join(address.port().to_string());
    std::fs::create_dir(&place).expect("a directory for a Redis");
    let more = more
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()));
    let arguments = told(files, address.port()).into_iter().chain(more);
    let settings = Settings {
        arguments: arguments
            .flat_map(|(name, value)| [format!("--{name}"), value])
            .collect(),
        ..Settings::default()
    };
    let redis = Redis::start_with(ports::free(), settings, &place);
    redis.ready().await;
    redis
}

fn entering(files: &TempDir, url: String) -> RedisSettings {
    let path = |name: &str| Some(files.path().join(name));
    RedisSettings {
        tls: TlsFiles {
            ca_file: path("ca.pem"),
            cert_file: path("client.pem"),
            key_file: path("client.key"),
        },
        // Nothing here measures time: a handshake of a debug build takes long.
        timeout_ms: 10_000,
        ..at(url)
    }
}

impl Guarded {
    async fn start() -> Self {
        let (directory, address) = (files(), ports::free());
        Self {
            redis: start(&directory, address, &[]).await,
            address,
            directory,
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.directory.path().join(name))
    }

    fn settings(&self) -> RedisSettings {
        entering(&self.directory, format!("rediss://{}", self.address))
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

#[tokio::test]
async fn sentinels_and_the_primary_that_they_name_are_asked_over_tls() {
    let guarded = Guarded::start().await;
    let address = ports::free();
    let place = guarded.directory.path().join("sentinel");
    std::fs::create_dir(&place).expect("a directory for a Sentinel");
    let mut conf = format!(
        "port 0\nbind 127.0.0.1\ndir {}\ntls-replication yes\nsentinel monitor main 127.0.0.1 {} 1\n",
        place.display(),
        guarded.address.port()
    );
    for (name, value) in told(&guarded.directory, address.port()) {
        conf += &format!("{name} {value}\n");
    }
    let file = place.join("sentinel.conf");
    std::fs::write(&file, conf).expect("a file");
    let program = std::env::var("REDIS_SERVER_BIN").unwrap_or_else(|_| "redis-server".into());
    let mut command = Command::new(program);
    command.arg(&file).arg("--sentinel");
    let _sentinel = Process::start("sentinel", &mut command, place.join("sentinel.log"));
    let url = format!("rediss+sentinel://{address}/main");
    let desk = Desk::open(&entering(&guarded.directory, url)).await;
    desk.assert_exact(0).await;
}

#[tokio::test]
async fn every_primary_of_a_cluster_is_entered_over_tls() {
    let files = files();
    let addresses = [ports::free(), ports::free()];
    let mut nodes = Vec::new();
    for address in addresses {
        let bus = ports::free().port().to_string();
        let more = [
            ("cluster-enabled", "yes"),
            ("tls-cluster", "yes"),
            ("cluster-port", bus.as_str()),
        ];
        nodes.push((start(&files, address, &more).await, bus));
    }
    nodes[0].0.told("CLUSTER ADDSLOTSRANGE 0 8191").await;
    nodes[1].0.told("CLUSTER ADDSLOTSRANGE 8192 16383").await;
    nodes[1].0.told("CLUSTER SET-CONFIG-EPOCH 2").await;
    let (port, bus) = (addresses[1].port(), &nodes[1].1);
    let meet = format!("CLUSTER MEET 127.0.0.1 {port} {bus}");
    nodes[0].0.told(&meet).await;
    for (node, _) in &nodes {
        eventually("the cluster is in order", async || {
            let told = node.command("CLUSTER INFO").await.unwrap_or_default();
            told.contains("cluster_state:ok") && told.contains("cluster_known_nodes:2")
        })
        .await;
    }
    // One of them is named; it tells of the other.
    let url = format!("rediss+cluster://{}", addresses[0]);
    let desk = Desk::open(&entering(&files, url)).await;
    desk.assert_exact(0).await;
    eventually("both are entered", async || {
        let mut entered = 0;
        for (node, _) in &nodes {
            let clients = node.info("connected_clients").await;
            // Not counting whoever asks this.
            entered += usize::from(clients.is_some_and(|it| it != "1"));
        }
        desk.store.is_up() && entered == 2
    })
    .await;
}
