//! A primary, two replicas, and three Sentinels that watch over them.

use crate::fleet::scratch;
use crate::ports;
use crate::process::Process;
use crate::redis::{Redis, Settings};
use crate::resp;
use crate::wait::{POLL, eventually};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// By which the Sentinels know the primary.
const NAME: &str = "main";
const SERVERS: usize = 3;
const SENTINELS: usize = 3;
/// A primary that says nothing for this long is replaced.
const DOWN_AFTER_MS: u64 = 1000;
/// They wait for as long before they try again, and elect within it.
const FAILOVER_TIMEOUT_MS: u64 = 5000;
/// Far beyond: the second attempt, after a first that failed.
const GIVEN_UP: Duration = Duration::from_secs(40);

#[derive(Debug)]
pub struct SentinelGroup {
    /// The first is the primary, at the start.
    pub servers: Vec<Redis>,
    pub sentinels: Vec<Sentinel>,
    _directory: TempDir,
}

#[derive(Debug)]
pub struct Sentinel {
    pub process: Process,
    address: SocketAddr,
}

impl SentinelGroup {
    pub async fn start() -> Self {
        let directory = scratch();
        let primary = ports::free();
        let mut servers = vec![start_server(primary, None, directory.path())];
        for _ in 1..SERVERS {
            servers.push(start_server(ports::free(), Some(primary), directory.path()));
        }
        for server in &servers {
            server.ready().await;
        }
        let group = Self {
            servers,
            sentinels: (0..SENTINELS)
                .map(|_| Sentinel::start(primary, directory.path()))
                .collect(),
            _directory: directory,
        };
        group.settled().await;
        group
    }

    pub fn url(&self) -> String {
        let sentinels: Vec<String> = (self.sentinels.iter())
            .map(|sentinel| sentinel.address.to_string())
            .collect();
        format!("redis+sentinel://{}/{NAME}", sentinels.join(","))
    }

    /// Everyone knows everyone, and the replicas have all that the primary has.
    async fn settled(&self) {
        for sentinel in &self.sentinels {
            eventually("a Sentinel knows the others and the replicas", async || {
                let master = sentinel.command(&format!("SENTINEL MASTER {NAME}")).await;
                master.is_ok_and(|told| {
                    told.contains("num-slaves 2") && told.contains("num-other-sentinels 2")
                })
            })
            .await;
        }
        for replica in &self.servers[1..] {
            eventually("a replica is in step", async || {
                let status = replica.info("master_link_status").await;
                status.as_deref() == Some("up")
            })
            .await;
        }
    }

    /// The place of the primary in the list, by this Sentinel's word.
    async fn named_by(&self, sentinel: &Sentinel) -> Option<usize> {
        let question = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}");
        let told = sentinel.command(&question).await.ok()?;
        let mut servers = self.servers.iter();
        servers.position(|server| {
            let address = server.address();
            told == format!("{} {}", address.ip(), address.port())
        })
    }

    /// Waits until a Sentinel names another primary than this, and returns it with the moment.
    pub async fn promoted(&self, former: usize) -> (usize, Instant) {
        let start = Instant::now();
        loop {
            for sentinel in &self.sentinels {
                match self.named_by(sentinel).await {
                    Some(primary) if primary != former => return (primary, Instant::now()),
                    _ => {}
                }
            }
            assert!(start.elapsed() < GIVEN_UP, "nobody was promoted");
            tokio::time::sleep(POLL).await;
        }
    }

    /// What an operator does to move the primary elsewhere while all is well.
    pub async fn fail_over(&self) {
        let order = format!("SENTINEL FAILOVER {NAME}");
        if let Err(error) = self.sentinels[0].command(&order).await {
            panic!("no failover: {error}");
        }
    }

    /// Replicas forget everything, as if nothing had ever reached them.
    pub async fn empty_replicas(&self) {
        for replica in &self.servers[1..] {
            replica.told("CONFIG SET replica-read-only no").await;
            replica.told("FLUSHALL").await;
            replica.told("CONFIG SET replica-read-only yes").await;
        }
    }
}

impl Sentinel {
    fn start(primary: SocketAddr, directory: &Path) -> Self {
        let address = ports::free();
        let place = directory.join(format!("sentinel-{}", address.port()));
        let file = place.join("sentinel.conf");
        let settings = format!(
            "bind {}\nport {}\ndir {}\n\
             sentinel monitor {NAME} {} {} 2\n\
             sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\n\
             sentinel failover-timeout {NAME} {FAILOVER_TIMEOUT_MS}\n\
             sentinel parallel-syncs {NAME} {SERVERS}\n",
            address.ip(),
            address.port(),
            place.display(),
            primary.ip(),
            primary.port()
        );
        std::fs::create_dir_all(&place).expect("a directory for a Sentinel");
        std::fs::write(&file, settings).expect("a Sentinel's settings");
        // The same program, whatever it is called.
        let program = std::env::var("REDIS_SERVER_BIN").unwrap_or_else(|_| "redis-server".into());
        let mut command = Command::new(program);
        command.arg(&file).arg("--sentinel");
        Self {
            process: Process::start("sentinel", &mut command, place.join("sentinel.log")),
            address,
        }
    }

    /// What an operator types, and the answer as text.
    pub async fn command(&self, line: &str) -> std::io::Result<String> {
        resp::ask(self.address, line).await
    }
}

fn start_server(address: SocketAddr, primary: Option<SocketAddr>, directory: &Path) -> Redis {
    let place = directory.join(format!("redis-{}", address.port()));
    std::fs::create_dir_all(&place).expect("a directory for a Redis");
    // Without the delay, so that a replica is in step at once.
    let mut arguments = vec!["--repl-diskless-sync-delay".to_owned(), "0".into()];
    if let Some(primary) = primary {
        let primary = format!("{} {}", primary.ip(), primary.port());
        arguments.extend(["--replicaof".into(), primary]);
    }
    let settings = Settings {
        arguments,
        ..Settings::default()
    };
    Redis::start_with(address, settings, &place)
}
