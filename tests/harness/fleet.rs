//! The builder that every test starts with.
//!
//! `let fleet = Fleet::new().envoys(2).workers(1).max_concurrent(2).up().await;`

mod breakable;
mod guarded;
mod outlook;
mod running;
mod start;

pub use guarded::WORKER_TOKEN;
pub use outlook::{Journals, Outlook};
pub use running::RunningFleet;

use crate::docs::{self, Part};
use crate::envoy::{Filter, Listeners, Restarts, RouteBy};
use crate::redis::{self, Persistence, WallClock};
use admission::id::PoolName;
use admission::policy::{Policy, Strategy};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use tempfile::TempDir;

/// A change to the filter's settings, made for each Envoy.
type AdjustFilter = Box<dyn Fn(&mut Value)>;

/// A fleet to be raised. Each test raises its own, with a Redis of its own.
pub struct Fleet {
    envoys: usize,
    sidecars: Option<usize>,
    unix_sockets: bool,
    workers: usize,
    strangers: usize,
    route_by: RouteBy,
    policy: Policy,
    heartbeat: Duration,
    restart: Duration,
    delays: Vec<Duration>,
    least_request: bool,
    patient: bool,
    reap_ms: u64,
    redis: redis::Settings,
    redis_url: Option<String>,
    redis_links: bool,
    sidecar_links: bool,
    spare: bool,
    listeners: Listeners,
    restarts: Restarts,
    filter: Filter,
    verify_tokens: bool,
    sidecar_settings: Value,
    log_level: &'static str,
    guarded: Option<&'static str>,
    adjust_filter: AdjustFilter,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").finish_non_exhaustive()
    }
}

impl Default for Fleet {
    fn default() -> Self {
        Self::new()
    }
}

impl Fleet {
    pub fn new() -> Self {
        Self {
            envoys: 1,
            sidecars: None,
            unix_sockets: false,
            workers: 1,
            strangers: 0,
            route_by: RouteBy::OriginalDst,
            policy: Policy {
                // Chance would make tests tell different stories.
                strategy: Strategy::LifetimeFirst,
                // No test but those of lifetimes should reach it.
                max_lifetime: 1_000_000,
                // A new pool would make every test wait.
                rebuild_ms: 0,
                ..Policy::default()
            },
            heartbeat: Duration::from_millis(100),
            restart: Duration::from_millis(100),
            delays: vec![Duration::ZERO],
            least_request: false,
            patient: true,
            reap_ms: 50,
            redis: redis::Settings::default(),
            redis_url: None,
            redis_links: false,
            sidecar_links: false,
            spare: false,
            listeners: Listeners::Fixed,
            restarts: Restarts::Cold,
            filter: Filter::Shipped,
            verify_tokens: false,
            sidecar_settings: json!({}),
            log_level: "info",
            guarded: None,
            adjust_filter: Box::new(|_| {}),
        }
    }

    pub fn envoys(self, envoys: usize) -> Self {
        Self { envoys, ..self }
    }

    /// One per Envoy unless said otherwise; Envoys take turns.
    pub fn sidecars(self, sidecars: usize) -> Self {
        Self {
            sidecars: Some(sidecars),
            ..self
        }
    }

    /// Envoy talks to its sidecar over a Unix socket.
    pub fn unix_sockets(self) -> Self {
        Self {
            unix_sockets: true,
            ..self
        }
    }

    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// Further workers, last in the list, that are in the pool but not in Envoy's cluster.
    pub fn strangers(self, strangers: usize) -> Self {
        Self { strangers, ..self }
    }

    pub fn route_by(self, route_by: RouteBy) -> Self {
        Self { route_by, ..self }
    }

    pub fn max_concurrent(self, max_concurrent: u32) -> Self {
        self.policy(|policy| policy.max_concurrent = max_concurrent)
    }

    pub fn policy(mut self, adjust: impl FnOnce(&mut Policy)) -> Self {
        adjust(&mut self.policy);
        self
    }

    /// Clients need a token of `envoy::tokens`.
    pub fn verify_tokens(self) -> Self {
        Self {
            verify_tokens: true,
            ..self
        }
    }

    /// Further settings of every sidecar, as its file has them.
    pub fn sidecar_settings(self, sidecar_settings: Value) -> Self {
        Self {
            sidecar_settings,
            ..self
        }
    }

    /// How much sidecars say, as in `RUST_LOG`.
    pub fn log_level(self, log_level: &'static str) -> Self {
        Self { log_level, ..self }
    }

    /// Sidecars are reached through the door that docs/listeners.md shows under this name: by Envoys if
    /// it serves them, by workers if it serves those.
    pub fn guarded(self, example: &'static str) -> Self {
        Self {
            guarded: Some(example),
            ..self
        }
    }

    /// Takes the settings that docs/limits.md shows under this name: the filter's, the policy's, or both.
    pub fn example(mut self, name: &'static str, parts: &[Part]) -> Self {
        if parts.contains(&Part::Policy) {
            let mut whole = serde_json::to_value(&self.policy).unwrap_or_default();
            merge(&mut whole, docs::policy_example(name));
            self.policy = match serde_json::from_value(whole) {
                Ok(policy) => policy,
                Err(error) => panic!("the example {name} is no policy: {error}"),
            };
        }
        if parts.contains(&Part::Filter) {
            return self.filter(move |settings| merge(settings, docs::filter_example(name)));
        }
        self
    }

    /// Changes the filter's settings, e.g. `.filter(|filter| filter["admit"] = json!("everything"))`.
    pub fn filter(self, adjust: impl Fn(&mut Value) + 'static) -> Self {
        Self {
            adjust_filter: Box::new(adjust),
            ..self
        }
    }

    pub fn heartbeat_ms(self, heartbeat_ms: u64) -> Self {
        Self {
            heartbeat: Duration::from_millis(heartbeat_ms),
            ..self
        }
    }

    /// How long a worker's restart takes.
    pub fn restart_ms(self, restart_ms: u64) -> Self {
        Self {
            restart: Duration::from_millis(restart_ms),
            ..self
        }
    }

    /// How long a worker thinks before it answers.
    pub fn delay_ms(self, delay_ms: u64) -> Self {
        self.delays_ms(&[delay_ms])
    }

    /// The same for workers that differ; they take turns.
    pub fn delays_ms(self, delays_ms: &[u64]) -> Self {
        Self {
            delays: delays_ms
                .iter()
                .copied()
                .map(Duration::from_millis)
                .collect(),
            ..self
        }
    }

    /// Each Envoy also has a listener without Berth, where its own LEAST_REQUEST chooses a worker.
    pub fn least_request(self) -> Self {
        Self {
            least_request: true,
            ..self
        }
    }

    /// With the timeouts that are shipped, for what is about time. Without, nobody gives up on a slow
    /// answer, so that a busy machine does not look like an outage.
    pub fn impatient(self) -> Self {
        Self {
            patient: false,
            ..self
        }
    }

    /// With all times as they are shipped, for what is about faults: nobody is more patient, reaps
    /// more often or rebuilds sooner than a user's fleet.
    pub fn as_shipped(self) -> Self {
        let rebuild_ms = Policy::default().rebuild_ms;
        let fleet = self.policy(|policy| policy.rebuild_ms = rebuild_ms);
        Self {
            patient: false,
            reap_ms: 500,
            ..fleet
        }
    }

    /// Redis writes an append-only file and finds it again when it restarts.
    pub fn redis_aof(mut self) -> Self {
        self.redis.persistence = Persistence::AppendOnly;
        self
    }

    /// The wall clock of Redis can be made to jump.
    pub fn redis_with_jumping_clock(mut self) -> Self {
        self.redis.wall_clock = WallClock::Jumping;
        self
    }

    /// Sidecars go to a Redis of the test's own; the fleet's stands idle.
    pub fn redis_at(self, url: String) -> Self {
        Self {
            redis_url: Some(url),
            ..self
        }
    }

    /// A link that can fail between each sidecar and Redis: `fleet.redis_links`.
    pub fn redis_through_proxy(self) -> Self {
        Self {
            redis_links: true,
            ..self
        }
    }

    /// A link that can fail between each Envoy and its sidecar: `fleet.sidecar_links`. The spare
    /// is reached directly.
    pub fn sidecars_through_proxy(self) -> Self {
        Self {
            sidecar_links: true,
            ..self
        }
    }

    /// Each Envoy has the next sidecar as its spare; there are at least two.
    pub fn spare(self) -> Self {
        Self {
            spare: true,
            ..self
        }
    }

    /// Listeners can be replaced while Envoy runs.
    pub fn watched_listeners(self) -> Self {
        Self {
            listeners: Listeners::Watched,
            ..self
        }
    }

    /// An Envoy can be replaced while its sessions go on.
    pub fn hot_restarts(self) -> Self {
        Self {
            restarts: Restarts::Hot,
            ..self
        }
    }

    /// The filter can be killed by a header.
    pub fn poisonable(self) -> Self {
        Self {
            filter: Filter::Poisonable,
            ..self
        }
    }
}

/// A directory for the logs of one test; its name tells where those come from that stay.
pub fn scratch() -> TempDir {
    let directory = tempfile::Builder::new().prefix("berth-test-").tempdir();
    directory.expect("a directory for logs")
}

/// Each fleet has its own Redis, so one name does for all.
pub fn pool() -> PoolName {
    PoolName::parse("demo").expect("a pool name")
}

/// What the example says takes the place of what was there, setting by setting.
pub(crate) fn merge(settings: &mut Value, example: Value) {
    match (settings.as_object_mut(), example) {
        (Some(settings), Value::Object(example)) => {
            for (name, value) in example {
                merge(settings.entry(name).or_insert(Value::Null), value);
            }
        }
        (_, example) => *settings = example,
    }
}
