//! Berth's sidecar. A request's way through it:
//!
//! `routes` (HTTP and JSON) → `store` (one function per verb) → `library` (the Lua text) and
//! `keys` (what it touches) → `link` (the way to Redis) → `decode` (its answers).
//!
//! Before all that, `connection` accepts who comes, and `doors` decides who is let in.
//!
//! It has no state of its own worth keeping: any number of sidecars serve the same pools.
//!
//! `operator` is the other side: the commands that ask a running sidecar. `check` judges settings before
//! they are used.

#![forbid(unsafe_code)]

pub mod acl;
pub mod atomic;
mod auditor;
pub mod check;
mod connection;
mod decode;
mod doors;
pub mod error;
pub mod explain;
mod keys;
pub mod lease_view;
pub mod library;
mod link;
pub mod log;
pub mod metrics;
pub mod operator;
pub mod plot;
pub mod presence;
pub mod reaper;
pub mod reference;
mod request_keys;
mod routes;
pub mod serve;
pub mod settings;
pub mod simulate;
pub mod store;
mod untaken;
pub mod view;

/// The description of the routes, as `berth openapi` prints it.
pub const OPENAPI: &str = include_str!("../../docs/openapi.yaml");

pub use keys::pool_keys;
pub use routes::{App, app};
