//! Raises real fleets (Redis, sidecars, Envoys, workers) on loopback, for the tests and the demo.
//!
//! | file | what it is |
//! |---|---|
//! | `fleet` | the builder every test starts with |
//! | `redis`, `sidecar`, `envoy` | one real process each |
//! | `compose` | the same as containers, raised by compose.yaml |
//! | `fault` | what can be done to a fleet, however it was raised |
//! | `scenario` | faults, and what must hold then, however it was raised |
//! | `sentinel`, `cluster` | several Redis that stand in for each other, or share the slots |
//! | `fault_proxy` | a link between two of them that can fail |
//! | `clock` | a wall clock for Redis that jumps |
//! | `worker` | a worker that registers, serves, recycles; as a task here or as `demo-worker` |
//! | `backend` | where requests without a lease go |
//! | `decoy` | a server that nobody may reach |
//! | `docs` | the examples in docs/ |
//! | `certificates` | a CA, and whom it has signed |
//! | `scribe` | a sidecar that only writes down what it is asked |
//! | `client` | what clients do: WebSockets over HTTP/1.1 and HTTP/2, plain requests, raw bytes |
//! | `history` | whether a worker ever had a session too many, by the workers' own journals |
//! | `recovery` | how long the fleet took to be well again |
//! | `monitor` | what Redis is asked, and when |
//! | `prober` | a client that comes again and again while a fault is on |
//! | `load` | many sessions at a steady rate |
//! | `api` | the sidecar's HTTP interface |
//! | `wait` | conditions with deadlines, in place of sleeps |
//! | `paths`, `ports`, `process`, `http`, `resp` | what the others stand on |

pub mod api;
pub mod backend;
pub mod certificates;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod compose;
pub mod decoy;
pub mod docs;
pub mod envoy;
pub mod fault;
pub mod fault_proxy;
pub mod fleet;
pub mod history;
pub mod http;
pub mod load;
pub mod monitor;
pub mod paths;
pub mod ports;
pub mod prober;
pub mod process;
pub mod recovery;
pub mod redis;
pub mod resp;
pub mod scenario;
pub mod scribe;
pub mod sentinel;
pub mod sidecar;
pub mod wait;
pub mod worker;

pub use client::{Session, Visit, close_all, split};
pub use cluster::RedisCluster;
pub use compose::{Compose, ComposeFleet};
pub use envoy::RouteBy;
pub use fault::{Fault, Link, Part, Raised};
pub use fleet::{Fleet, Outlook, RunningFleet};
pub use history::History;
pub use load::Load;
pub use prober::Prober;
pub use recovery::Promise;
pub use sentinel::SentinelGroup;
pub use wait::eventually;
