//! Which server of a cluster has which keys.

use super::address::Node;
use redis::{RedisResult, Value};

/// A cluster has so many slots, and each key belongs to one.
const SLOTS: u16 = 16_384;

/// As one server tells it.
#[derive(Debug, Clone, Default)]
pub(super) struct SlotMap {
    /// Which reign of the cluster it knows of: a later one counts.
    pub(super) epoch: u64,
    /// It knows that the cluster is in order.
    pub(super) in_order: bool,
    pub(super) ranges: Vec<Range>,
    /// Replicas as well.
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) primary: Node,
}

impl SlotMap {
    pub(super) fn primary_of(&self, slot: u16) -> Option<&Node> {
        let mut ranges = self.ranges.iter();
        let range = ranges.find(|range| (range.first..=range.last).contains(&slot));
        range.map(|range| &range.primary)
    }

    /// Reads the answers of CLUSTER INFO and CLUSTER SLOTS.
    pub(super) fn read(asked: &Node, info: &str, slots: Vec<Value>) -> RedisResult<Self> {
        let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let epoch = of("cluster_current_epoch:").and_then(|epoch| epoch.trim().parse().ok());
        let mut map = Self {
            epoch: epoch.unwrap_or(0),
            in_order: of("cluster_state:").is_some_and(|state| state.trim() == "ok"),
            ..Self::default()
        };
        for range in slots {
            let mut parts: Vec<Value> = redis::from_redis_value(range)?;
            let servers = parts.split_off(parts.len().min(2));
            let (first, last) = redis::from_redis_value(Value::Array(parts))?;
            let mut nodes = Vec::new();
            for server in servers {
                // Host, port, and more that varies.
                let mut parts: Vec<Value> = redis::from_redis_value(server)?;
                parts.truncate(2);
                let (host, port): (Option<String>, u16) =
                    redis::from_redis_value(Value::Array(parts))?;
                nodes.push(asked.beside(host.as_deref().unwrap_or_default(), port));
            }
            if let Some(primary) = nodes.first().cloned() {
                map.ranges.push(Range {
                    first,
                    last,
                    primary,
                });
            }
            map.nodes.append(&mut nodes);
        }
        map.nodes.sort();
        map.nodes.dedup();
        Ok(map)
    }
}

/// The slot of a key, or of the part in braces.
pub(super) fn slot_of(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty());
    crc16(tag.unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM, as the cluster's specification says.
fn crc16(bytes: &[u8]) -> u16 {
    const POLYNOMIAL: u16 = 0x1021;
    bytes.iter().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ POLYNOMIAL
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // As CLUSTER KEYSLOT answers.
        assert_eq!(slot_of("foo"), 12_182);
        assert_eq!(slot_of("ws:{foo}:pool"), 12_182);
        assert_eq!(slot_of("ws:atomic:{foo}:count"), 12_182);
        assert_ne!(slot_of("{}foo"), slot_of("foo"));
    }

    #[test]
    fn a_server_that_names_no_host_means_its_own() {
        let number = Value::Int;
        let text = |text: &str| Value::BulkString(text.into());
        let server = |host: Value, port| Value::Array(vec![host, number(port), text("id")]);
        let slots = vec![Value::Array(vec![
            number(0),
            number(5460),
            server(text(""), 7000),
            server(text("10.0.0.2"), 7001),
        ])];
        let asked = Node {
            host: "10.0.0.1".into(),
            port: 7000,
        };
        let info = "cluster_state:ok\r\ncluster_current_epoch:6\r\n";
        let map = SlotMap::read(&asked, info, slots).unwrap();
        assert_eq!((map.epoch, map.in_order, map.nodes.len()), (6, true, 2));
        assert_eq!(map.primary_of(5460), Some(&asked));
        assert_eq!(map.primary_of(5461), None);
    }
}
