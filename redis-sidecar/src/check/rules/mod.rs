//! The rules, each a small function. Only what Envoy, the sidecar or Redis accept without a word is worth
//! a rule: what they refuse themselves, they say themselves.

pub(super) mod chain;
pub(super) mod clients;
pub(super) mod plugin;
pub(super) mod redis;
pub(super) mod routes;
pub(super) mod session;
pub(super) mod settings;
pub(super) mod sidecar;
pub(super) mod workers;
