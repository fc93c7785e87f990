//! A pool's own clock, for tests in which time passes.

use super::Redis;
use admission::id::PoolName;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

pub(crate) struct Clock {
    connection: MultiplexedConnection,
    key: String,
}

/// The head begins with the clock: eight bytes, the highest first.
const CLOCK_BYTES: usize = 8;

impl Clock {
    pub(crate) async fn of(redis: &Redis, pool: &PoolName) -> Self {
        let [_, key, ..] = redis_sidecar::pool_keys(pool);
        Self {
            connection: redis.connection().await,
            key,
        }
    }

    async fn head(&mut self) -> Vec<u8> {
        let head = self.connection.hget(&self.key, "head").await;
        head.expect("the pool's head")
    }

    /// When the last call happened.
    pub(crate) async fn now_ms(&mut self) -> f64 {
        let head = self.head().await;
        f64::from_be_bytes(head[..CLOCK_BYTES].try_into().expect("a clock"))
    }

    /// As if Redis had stood still for this long: its own clock went on, the pool's did not.
    pub(crate) async fn stand_still(&mut self, ms: f64) {
        let mut head = self.head().await;
        let wall = &mut head[CLOCK_BYTES..2 * CLOCK_BYTES];
        let then = f64::from_be_bytes(wall.try_into().expect("a time")) - ms;
        wall.copy_from_slice(&then.to_be_bytes());
        let set: Result<(), _> = self.connection.hset(&self.key, "head", head).await;
        set.expect("the pool's head");
    }

    pub(crate) async fn advance(&mut self, ms: f64) {
        let mut head = self.head().await;
        let now = self.now_ms().await + ms;
        head[..CLOCK_BYTES].copy_from_slice(&now.to_be_bytes());
        let set: Result<(), _> = self.connection.hset(&self.key, "head", head).await;
        set.expect("the pool's head");
    }
}
