//! Berth's sidecar. A request's way through it:
//!
//! `routes` (HTTP and JSON) → `store` (one function per verb) → `scripts` (the Lua text) and
//! `keys` (what it touches) → `link` (the connection to Redis) → `decode` (its answers).
//!
//! It has no state of its own worth keeping: any number of sidecars serve the same pools.

mod decode;
pub mod error;
mod keys;
mod link;
pub mod metrics;
pub mod reaper;
mod routes;
pub mod scripts;
pub mod serve;
pub mod settings;
pub mod store;
pub mod view;

pub use keys::pool_keys;
pub use routes::{App, app};
