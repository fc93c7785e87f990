//! Berth's Envoy filter. It only translates: Envoy's callbacks become events, effects become calls
//! on Envoy. What is decided is decided in `admission`.
//!
//! `root` lives as long as its VM: it reads the configuration, delivers news, watches the waiting.
//! `stream` lives as long as one HTTP stream. `vm` is what they share, `questions` how streams ask
//! through the root, `line` the call that stays open for that. `routing` tells Envoy where to go, `sidecar`
//! writes and reads the messages, and `host` is the only file that calls Envoy.

#![forbid(unsafe_code)]

mod host;
mod line;
mod metrics;
mod questions;
mod root;
mod routing;
mod sidecar;
mod stream;
mod vm;

use proxy_wasm::traits::RootContext;
use proxy_wasm::types::LogLevel;

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|id| -> Box<dyn RootContext> { Box::new(root::Root::new(id)) });
}}
