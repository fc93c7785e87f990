//! What a running Redis says about itself.

use crate::link::visit;
use crate::settings::RedisSettings;
use admission::id::PoolName;
use redis::RedisResult;
use std::collections::BTreeMap;

/// Nobody waits for an answer of a request here: a Redis that is slow is still looked at.
const PATIENCE_MS: u64 = 5_000;

/// The answer of INFO.
#[derive(Debug, Clone, Default)]
pub struct Info {
    /// How to call it, without its password.
    pub name: String,
    fields: BTreeMap<String, String>,
    /// Those of the pools that were asked for that are in it.
    pub pools: Vec<PoolName>,
}

impl Info {
    pub fn parse(name: &str, text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.trim().split_once(':'));
        Self {
            name: name.to_owned(),
            fields: fields
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            pools: Vec::new(),
        }
    }

    /// Asks every server that pools may live on, with what the sidecar's user may type.
    pub async fn ask(
        name: &str,
        settings: &RedisSettings,
        pools: &[PoolName],
    ) -> RedisResult<Vec<Self>> {
        let patient = RedisSettings {
            timeout_ms: settings.timeout_ms.max(PATIENCE_MS),
            ..settings.clone()
        };
        let mut infos = Vec::new();
        for mut connection in visit(&patient).await? {
            let text: String = redis::cmd("INFO").query_async(&mut connection).await?;
            let mut info = Self::parse(name, &text);
            for pool in pools {
                let [key, ..] = crate::pool_keys(pool);
                let mut length = redis::cmd("HLEN");
                // Of a cluster, one server has it and the others say so.
                let fields = length.arg(key).query_async(&mut connection).await;
                if fields.unwrap_or(0) > 0 {
                    info.pools.push(pool.clone());
                }
            }
            infos.push(info);
        }
        Ok(infos)
    }

    pub fn get(&self, field: &str) -> Option<&str> {
        self.fields.get(field).map(String::as_str)
    }

    /// One line for who wants to know what was looked at. Whether Redis keeps its data is told and not
    /// judged: without it, a restart is a rebuild.
    pub fn summary(&self) -> String {
        let field = |name: &str| self.get(name).unwrap_or("unknown").to_owned();
        let kept = match (self.get("aof_enabled"), self.get("rdb_last_save_time")) {
            (Some("1"), _) => "appendonly",
            (_, Some(_)) => "no appendonly file: a restart may lose data, and is a rebuild",
            (_, None) => "unknown",
        };
        format!(
            "{}: version {}, {}, maxmemory-policy {}, persistence: {kept}",
            self.name,
            field("redis_version"),
            field("role"),
            field("maxmemory_policy"),
        )
    }
}
