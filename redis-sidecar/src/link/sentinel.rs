//! Who the primary is, by the Sentinels' word.

use super::Access;
use super::address::{Encryption, Node};
use super::trouble::is_refused_entry;
use redis::{ConnectionInfo, ErrorKind, RedisError, RedisResult};
use std::cmp::Reverse;
use std::collections::HashMap;
use tokio::task::JoinSet;

#[derive(Debug, Clone)]
pub(crate) struct Sentinels {
    pub(super) nodes: Vec<Node>,
    pub(super) encryption: Encryption,
    /// The name by which they know it.
    pub(super) primary: String,
    pub(super) db: i64,
}

/// What one Sentinel says.
#[derive(Debug)]
struct Told {
    primary: Node,
    /// Which reign this is: a later one counts.
    epoch: u64,
    /// The Sentinel that leads a failover names the next primary before it counts the next reign.
    promoting: bool,
}

impl Sentinels {
    pub(super) fn info_of(&self, primary: &Node) -> RedisResult<ConnectionInfo> {
        let info = primary.info(self.encryption)?;
        let login = info.redis_settings().clone().set_db(self.db);
        Ok(info.set_redis_settings(login))
    }

    /// Asks all of them: one that was cut off may still name the last primary.
    pub(super) async fn primary(&self, access: &Access) -> RedisResult<Node> {
        let mut asked = JoinSet::new();
        for (place, node) in self.nodes.iter().cloned().enumerate() {
            let (access, sentinels) = (access.clone(), self.clone());
            asked.spawn(async move { (place, sentinels.ask(&access, &node).await) });
        }
        let (mut told, mut silent) = (Vec::new(), None);
        for (place, answer) in asked.join_all().await {
            match answer {
                Ok(answer) => told.push((place, answer)),
                Err(error) => silent = Some(error),
            }
        }
        let latest = told
            .into_iter()
            .max_by_key(|(place, told)| (told.epoch, told.promoting, Reverse(*place)));
        match (latest, silent) {
            (Some((_, told)), _) => Ok(told.primary),
            (None, Some(error)) => Err(error),
            (None, None) => Err((ErrorKind::EmptySentinelList, "redis.url names none").into()),
        }
    }

    async fn ask(&self, access: &Access, node: &Node) -> RedisResult<Told> {
        let failed = |error: RedisError| -> RedisError {
            let remedy = if is_refused_entry(&error) {
                "; see redis.sentinel.user and redis.sentinel.password_file"
            } else {
                ""
            };
            let message = format!("Sentinel {node}: {error}{remedy}");
            (ErrorKind::Io, "no primary is known", message).into()
        };
        let mut connection = access
            .connect_to_sentinel(node, self.encryption)
            .await
            .map_err(failed)?;
        let mut questions = redis::pipe();
        for question in ["GET-MASTER-ADDR-BY-NAME", "MASTER"] {
            questions.cmd("SENTINEL").arg(question).arg(&self.primary);
        }
        type Answers = (Option<(String, u16)>, HashMap<String, String>);
        let (address, reign): Answers = questions
            .query_async(&mut connection)
            .await
            .map_err(failed)?;
        let unknown = || {
            let message = format!("Sentinel {node} knows no primary {:?}", self.primary);
            let kind = ErrorKind::MasterNameNotFoundBySentinel;
            RedisError::from((kind, "see redis.url", message))
        };
        let (host, port) = address.ok_or_else(unknown)?;
        let of = |name: &str| reign.get(name).map_or("", String::as_str);
        Ok(Told {
            epoch: of("config-epoch").parse().unwrap_or(0),
            promoting: of("ip") != host || of("port") != port.to_string(),
            primary: Node { host, port },
        })
    }
}
