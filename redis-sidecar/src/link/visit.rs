//! Every server that pools may live on, looked at once and left again.

use super::Access;
use super::address::Topology;
use super::cluster::ask_anybody;
use crate::settings::RedisSettings;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult};
use std::collections::BTreeSet;

/// Connections to the server of the URL, the primary that Sentinels name, or all primaries of a cluster.
pub(crate) async fn visit(settings: &RedisSettings) -> RedisResult<Vec<MultiplexedConnection>> {
    let refused = |why: String| RedisError::from((ErrorKind::InvalidClientConfig, "redis", why));
    let topology = Topology::parse(&settings.url).map_err(refused)?;
    let access = Access::new(settings, topology.is_encrypted()).map_err(refused)?;
    let infos = match topology {
        Topology::Single(info) => vec![info],
        Topology::Sentinel(sentinels) => {
            let primary = sentinels.primary(&access).await?;
            vec![sentinels.info_of(&primary)?]
        }
        Topology::Cluster(seeds) => {
            let map = ask_anybody(&seeds, &access).await?;
            let primaries: BTreeSet<_> = map.ranges.iter().map(|range| &range.primary).collect();
            let infos = primaries
                .into_iter()
                .map(|node| node.info(seeds.encryption));
            infos.collect::<RedisResult<_>>()?
        }
    };
    let mut connections = Vec::new();
    for info in infos {
        connections.push(access.connect(info).await?);
    }
    Ok(connections)
}
