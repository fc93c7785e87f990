//! Who is the primary, by the word of the Sentinels in their containers.

use super::ComposeFleet;
use super::engine;
use crate::fleet::pool;
use crate::wait::{POLL, eventually};
use std::time::{Duration, Instant};

const SENTINELS: [&str; 3] = ["sentinel-1", "sentinel-2", "sentinel-3"];
const SERVERS: [&str; 3] = ["redis", "redis-2", "redis-3"];
/// Far beyond: the second attempt, after a first that failed.
const GIVEN_UP: Duration = Duration::from_secs(60);

impl ComposeFleet {
    /// The address of the primary.
    pub async fn primary(&self) -> Option<String> {
        for sentinel in SENTINELS {
            let container = &self.project.containers(sentinel)[0];
            let question = "SENTINEL GET-MASTER-ADDR-BY-NAME main";
            let asked = format!("redis-cli -p 26379 {question}");
            let told = self.docker(&["exec", container, "sh", "-c", &asked]).await;
            if let Some(address) = told.lines().next() {
                return Some(address.to_owned());
            }
        }
        None
    }

    /// Waits until the Sentinels name another primary than this, and returns the moment.
    pub async fn promoted(&self, former: &str) -> Instant {
        let start = Instant::now();
        while self.primary().await.is_none_or(|primary| primary == former) {
            assert!(start.elapsed() < GIVEN_UP, "nobody was promoted");
            tokio::time::sleep(POLL).await;
        }
        Instant::now()
    }

    /// Whether the pool was asked for at the primary, as one that belongs to it.
    pub async fn primary_has_the_pool(&self) -> bool {
        let Some(container) = self.primary_container().await else {
            return false;
        };
        let question = format!("hget 'ws:{{{}}}:live' store_id", pool());
        let store_id = self.ask(&container, &question).await;
        let server = self.ask(&container, "info server").await;
        !store_id.is_empty() && server.contains(&format!("run_id:{store_id}"))
    }

    /// Waits until the primary has so many replicas.
    pub async fn has_replicas(&self, count: usize) {
        eventually("the replicas are there", async || {
            let Some(container) = self.primary_container().await else {
                return false;
            };
            let replication = self.ask(&container, "info replication").await;
            replication.contains(&format!("connected_slaves:{count}"))
        })
        .await;
    }

    async fn primary_container(&self) -> Option<String> {
        let primary = self.primary().await?;
        SERVERS.iter().find_map(|server| {
            let container = self.project.containers(server).into_iter().next()?;
            let addresses = engine::docker(&["exec", &container, "hostname", "-i"]).ok()?;
            (addresses == primary).then_some(container)
        })
    }

    /// What an administrator types at a Redis.
    async fn ask(&self, container: &str, line: &str) -> String {
        let asked = format!("redis-admin {line}");
        self.docker(&["exec", container, "sh", "-c", &asked]).await
    }
}
