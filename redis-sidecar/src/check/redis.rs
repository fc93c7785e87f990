//! What a running Redis says about itself.

use crate::settings::RedisSettings;
use admission::id::PoolName;
use redis::{AsyncConnectionConfig, Client, RedisResult};
use std::collections::BTreeMap;
use std::time::Duration;

/// Nobody waits for an answer of a request here: a Redis that is slow is still looked at.
const PATIENCE: Duration = Duration::from_secs(5);

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

    pub async fn ask(
        name: &str,
        settings: &RedisSettings,
        pools: &[PoolName],
    ) -> RedisResult<Self> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let client = Client::open(settings.url.as_str())?;
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let text: String = redis::cmd("INFO").query_async(&mut connection).await?;
        let mut info = Self::parse(name, &text);
        for pool in pools {
            let [key, ..] = crate::pool_keys(pool);
            let mut exists = redis::cmd("EXISTS");
            if exists.arg(key).query_async(&mut connection).await? {
                info.pools.push(pool.clone());
            }
        }
        Ok(info)
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
