//! A Redis Cluster of three primaries, each with a replica.

use crate::fleet::scratch;
use crate::ports;
use crate::redis::{Redis, Settings};
use crate::wait::{POLL, eventually};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;
/// A node that says nothing for this long is replaced.
const NODE_TIMEOUT_MS: u64 = 1000;
const GIVEN_UP: Duration = Duration::from_secs(40);

#[derive(Debug)]
pub struct RedisCluster {
    /// The first three are the primaries, at the start; then come their replicas, in the same order.
    pub nodes: Vec<Redis>,
    ids: Vec<String>,
    _directory: TempDir,
}

/// A slot on its way from one node to another.
#[derive(Debug, Clone, Copy)]
pub struct Move {
    pub slot: u16,
    pub from: usize,
    pub to: usize,
}

impl RedisCluster {
    pub async fn start() -> Self {
        let directory = scratch();
        let addresses: Vec<(SocketAddr, u16)> = (0..2 * PRIMARIES)
            .map(|_| (ports::free(), ports::free().port()))
            .collect();
        let nodes: Vec<Redis> = (addresses.iter())
            .map(|(address, bus)| start_node(*address, *bus, directory.path()))
            .collect();
        let mut ids = Vec::new();
        for (number, node) in nodes.iter().enumerate() {
            node.ready().await;
            // Each its own, so that nobody has to find out who is meant.
            let epoch = number + 1;
            node.told(&format!("CLUSTER SET-CONFIG-EPOCH {epoch}"))
                .await;
            ids.push(node.told("CLUSTER MYID").await);
        }
        let cluster = Self {
            nodes,
            ids,
            _directory: directory,
        };
        cluster.unite(&addresses).await;
        cluster
    }

    async fn unite(&self, addresses: &[(SocketAddr, u16)]) {
        for (address, bus) in addresses {
            let (ip, port) = (address.ip(), address.port());
            let meet = format!("CLUSTER MEET {ip} {port} {bus}");
            self.nodes[0].told(&meet).await;
        }
        for number in 0..PRIMARIES {
            let first = SLOTS * number / PRIMARIES;
            let last = SLOTS * (number + 1) / PRIMARIES - 1;
            let add = format!("CLUSTER ADDSLOTSRANGE {first} {last}");
            self.nodes[number].told(&add).await;
        }
        for number in 0..PRIMARIES {
            let replicate = format!("CLUSTER REPLICATE {}", self.ids[number]);
            let replica = &self.nodes[PRIMARIES + number];
            eventually("a replica knows its primary", async || {
                replica.command(&replicate).await.is_ok()
            })
            .await;
        }
        for (number, node) in self.nodes.iter().enumerate() {
            eventually("the cluster is in order", async || {
                let state = node.command("CLUSTER INFO").await.unwrap_or_default();
                let whole = state.contains("cluster_state:ok")
                    && state.contains("cluster_known_nodes:6")
                    && state.contains("cluster_size:3");
                let in_step = number < PRIMARIES
                    || node.info("master_link_status").await.as_deref() == Some("up");
                whole && in_step
            })
            .await;
        }
    }

    /// Two of its nodes: whoever is asked tells of the others.
    pub fn url(&self) -> String {
        let (first, last) = (self.nodes[0].address(), self.nodes[2].address());
        format!("redis+cluster://{first},{last}")
    }

    pub async fn slot_of(&self, key: &str) -> u16 {
        let told = self.nodes[0].told(&format!("CLUSTER KEYSLOT {key}")).await;
        told.parse().expect("a slot")
    }

    /// The place of the node that has this slot, by this node's word.
    pub async fn primary_of(&self, slot: u16, asked: usize) -> Option<usize> {
        let told = self.nodes[asked].command("CLUSTER NODES").await.ok()?;
        let owner = told.lines().find(|line| {
            let mut ranges = line.split_whitespace().skip(8);
            line.contains("master") && ranges.any(|range| includes(range, slot))
        })?;
        self.ids
            .iter()
            .position(|id| owner.starts_with(id.as_str()))
    }

    /// Waits until another primary than this has the slot, by the word of those that live.
    pub async fn promoted(&self, slot: u16, former: usize) -> (usize, Instant) {
        let start = Instant::now();
        let others: Vec<usize> = (0..self.nodes.len())
            .filter(|node| *node != former)
            .collect();
        loop {
            for asked in &others {
                match self.primary_of(slot, *asked).await {
                    Some(primary) if primary != former => return (primary, Instant::now()),
                    _ => {}
                }
            }
            assert!(start.elapsed() < GIVEN_UP, "nobody was promoted");
            tokio::time::sleep(POLL).await;
        }
    }

    /// From now on the slot is on its way, and none of its keys has left yet.
    pub async fn begin(&self, Move { slot, from, to }: Move) {
        let importing = format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.ids[from]);
        self.nodes[to].told(&importing).await;
        let migrating = format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.ids[to]);
        self.nodes[from].told(&migrating).await;
    }

    /// Sends up to so many of its keys. Returns how many went.
    pub async fn send_keys(&self, Move { slot, from, to }: Move, count: usize) -> usize {
        let keys = format!("CLUSTER GETKEYSINSLOT {slot} {count}");
        let keys = self.nodes[from].told(&keys).await;
        if keys.is_empty() {
            return 0;
        }
        let target = self.nodes[to].address();
        let (ip, port) = (target.ip(), target.port());
        let migrate = format!("MIGRATE {ip} {port} \"\" 0 5000 KEYS {keys}");
        self.nodes[from].told(&migrate).await;
        keys.split(' ').count()
    }

    /// All keys have left: the slot is the other's.
    pub async fn finish(&self, Move { slot, from, to }: Move) {
        let order = format!("CLUSTER SETSLOT {slot} NODE {}", self.ids[to]);
        for node in [to, from] {
            self.nodes[node].told(&order).await;
        }
        for node in (0..PRIMARIES).filter(|node| ![from, to].contains(node)) {
            self.nodes[node].told(&order).await;
        }
    }

    /// All of it.
    pub async fn move_slot(&self, the: Move) {
        const KEYS_AT_ONCE: usize = 10;
        self.begin(the).await;
        while self.send_keys(the, KEYS_AT_ONCE).await > 0 {}
        self.finish(the).await;
    }
}

/// `5`, or `5-9`; a slot on its way stands in brackets.
fn includes(range: &str, slot: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) => (first..=last).contains(&slot),
        _ => false,
    }
}

fn start_node(address: SocketAddr, bus: u16, directory: &Path) -> Redis {
    let place = directory.join(format!("node-{}", address.port()));
    std::fs::create_dir_all(&place).expect("a directory for a Redis");
    let arguments = [
        ("--cluster-enabled", "yes".to_owned()),
        ("--cluster-port", bus.to_string()),
        ("--cluster-node-timeout", NODE_TIMEOUT_MS.to_string()),
        // A replica that was cut off may stand in all the same.
        ("--cluster-replica-validity-factor", "0".into()),
        ("--repl-diskless-sync-delay", "0".into()),
    ];
    let settings = Settings {
        arguments: (arguments.into_iter())
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect(),
        ..Settings::default()
    };
    Redis::start_with(address, settings, &place)
}
