//! What a worker may register: by the token that it shows, and for everybody.

use crate::settings::{Refused, WorkerRules, WorkerToken};
use admission::id::PoolName;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What whoever speaks for a worker may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Whom the workers belong to that it registers; empty where nobody was asked.
    pub(crate) owner: String,
    pools: Vec<PoolName>,
    cidrs: Vec<IpNet>,
}

impl Rights {
    pub(crate) fn of(token: &WorkerToken) -> Self {
        Self {
            owner: token.name.clone(),
            pools: token.pools.clone(),
            cidrs: token.cidrs.clone(),
        }
    }

    pub(crate) fn check_pool(&self, pool: &PoolName) -> Result<(), String> {
        if self.pools.is_empty() || self.pools.contains(pool) {
            return Ok(());
        }
        Err(format!(
            "the worker token {} is not for pool {pool}: add it to worker_tokens.pools",
            self.owner
        ))
    }

    pub(crate) fn check_address(&self, address: SocketAddr) -> Result<(), String> {
        let ip = address.ip().to_canonical();
        if self.cidrs.is_empty() || self.cidrs.iter().any(|network| network.contains(&ip)) {
            return Ok(());
        }
        Err(format!(
            "the worker token {} is not for the address {ip}: add its network to worker_tokens.cidrs",
            self.owner
        ))
    }
}

impl WorkerRules {
    /// An address where requests of clients may be sent. One that leads to Envoy's host itself, or to a
    /// cloud's metadata, would let a worker's registration open what no client may reach.
    pub(crate) fn check_address(&self, address: SocketAddr) -> Result<(), String> {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let reached = SocketAddr::new(reached_through(address.ip()), address.port());
        let covers = |refused: &&Refused| refused.covers(address) || refused.covers(reached);
        if let Some(refused) = self.refuse.iter().find(covers) {
            return Err(format!(
                "no worker may be at {address}: workers.refuse has {refused}"
            ));
        }
        let ip = address.ip();
        match special(reached.ip()) {
            Some(kind) if !self.allow.iter().any(|network| network.contains(&ip)) => Err(format!(
                "{ip} is {kind}: no worker may be there unless workers.allow has its network, as \
                 allow = [\"{ip}/{}\"]",
                if ip.is_ipv4() { 32 } else { 128 }
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// Where clouds tell a machine its secrets, beside the link-local 169.254.169.254: Alibaba's, Amazon's.
const METADATA: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Where a packet to this address ends: a network may have a gateway from 64:ff9b::/96 to IPv4 (RFC 6052).
fn reached_through(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) if v6.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0] => {
            let [.., a, b, c, d] = v6.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    }
}

/// What kind of address this is, if it is none of a host that others reach.
fn special(ip: IpAddr) -> Option<&'static str> {
    let link_local = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let nowhere = match ip {
        // All of 0.0.0.0/8 means this host, and 240.0.0.0/4 is of no use.
        IpAddr::V4(v4) => v4.octets()[0] == 0 || v4.octets()[0] >= 240,
        IpAddr::V6(v6) => v6.is_unspecified(),
    };
    if ip.is_loopback() {
        Some("loopback")
    } else if link_local {
        Some("link-local")
    } else if METADATA.contains(&ip) {
        Some("a cloud's metadata")
    } else if ip.is_multicast() {
        Some("multicast")
    } else if nowhere {
        Some("no host's address")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_that_lead_to_the_proxy_itself_are_refused_unless_allowed() {
        let rules = WorkerRules::default();
        for (text, kind) in [
            ("127.0.0.1:9901", "loopback"),
            ("127.8.8.8:80", "loopback"),
            ("[::1]:80", "loopback"),
            ("[::ffff:127.0.0.1]:80", "loopback"),
            ("169.254.169.254:80", "link-local"),
            ("[fe80::1]:80", "link-local"),
            ("100.100.100.200:80", "a cloud's metadata"),
            ("[fd00:ec2::254]:80", "a cloud's metadata"),
            ("[64:ff9b::127.0.0.1]:80", "loopback"),
            ("[64:ff9b::169.254.169.254]:80", "link-local"),
            ("[64:ff9b::100.100.100.200]:80", "a cloud's metadata"),
            ("224.0.0.1:80", "multicast"),
            ("[ff02::1]:80", "multicast"),
            ("0.1.2.3:80", "no host's address"),
            ("255.255.255.255:80", "no host's address"),
        ] {
            let refused = rules.check_address(address(text)).unwrap_err();
            assert!(
                refused.contains(kind) && refused.contains("workers.allow"),
                "{refused}"
            );
        }
        let allowing = WorkerRules {
            allow: vec!["127.0.0.0/8".parse().unwrap()],
            ..WorkerRules::default()
        };
        assert!(allowing.check_address(address("127.0.0.1:80")).is_ok());
        assert!(allowing.check_address(address("[::1]:80")).is_err());
        assert!(rules.check_address(address("10.0.0.7:80")).is_ok());
        assert!(rules.check_address(address("[fd00::7]:80")).is_ok());
        assert!(
            rules
                .check_address(address("[64:ff9b::10.0.0.7]:80"))
                .is_ok()
        );
    }

    #[test]
    fn what_is_refused_by_name_is_refused_whatever_is_allowed() {
        let refuse = [
            "127.0.0.1:9901",
            "10.1.0.0/16",
            "10.2.0.5",
            "::ffff:10.3.0.5",
            "::ffff:10.4.0.0/112",
        ];
        let refuse = refuse.map(|text| text.to_owned().try_into().unwrap());
        let rules = WorkerRules {
            allow: vec!["127.0.0.0/8".parse().unwrap()],
            refuse: refuse.to_vec(),
            ..WorkerRules::default()
        };
        for refused in [
            "127.0.0.1:9901",
            "10.1.2.3:80",
            "10.2.0.5:1",
            "[::ffff:10.2.0.5]:1",
            "10.3.0.5:1",
            "10.4.0.7:1",
            "[64:ff9b::10.2.0.5]:1",
        ] {
            let message = rules.check_address(address(refused)).unwrap_err();
            assert!(message.contains("workers.refuse"), "{message}");
        }
        for allowed in ["127.0.0.1:9902", "10.2.0.6:80"] {
            assert!(rules.check_address(address(allowed)).is_ok(), "{allowed}");
        }
    }
}
