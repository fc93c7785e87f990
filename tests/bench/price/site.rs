//! Processes that several parts raise alike.

use crate::backend::Backend;
use admission::id::{Address, Incarnation, WorkerId};
use admission::message::RegisterRequest;
use admission::policy::Policy;
use harness::envoy::{self, Filter, Listeners, Restarts, RouteBy};
use harness::http::{Failure, Target};
use harness::ports;
use harness::redis::Redis;
use harness::sidecar::{self, Sidecar};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;

/// Nobody gives up on a slow answer: what is late is to be seen as late.
pub(crate) const PATIENCE_MS: u64 = 10_000;
const DAY_MS: u64 = 86_400_000;
/// The shipped pace of the reaper.
const REAP_MS: u64 = 500;

/// The shipped policy with room for everybody, for workers that send no heartbeats and holders that do
/// not beat: neither Lua nor an ext_authz service does.
pub(crate) fn policy() -> Policy {
    Policy {
        lease_ttl_ms: DAY_MS,
        ..shipped_policy()
    }
}

/// The same where all that hold do beat.
pub(crate) fn shipped_policy() -> Policy {
    Policy {
        max_concurrent: 2_000_000,
        heartbeat_ttl_ms: DAY_MS,
        forget_ms: DAY_MS,
        // A new pool would first wait for holders that there are none of.
        rebuild_ms: 0,
        ..Policy::default()
    }
}

pub(crate) fn worker() -> Result<WorkerId, Failure> {
    Ok(WorkerId::parse("worker-1")?)
}

pub(crate) fn registration(address: SocketAddr) -> Result<RegisterRequest, Failure> {
    Ok(RegisterRequest {
        address: Address::parse(&address.to_string())?,
        incarnation: Incarnation::parse("a")?,
        max_concurrent: None,
        weight: 1.0,
        lifetime: None,
        origin: None,
    })
}

/// A Redis of its own, ready.
pub(crate) async fn redis(name: &str, directory: &Path) -> Result<Redis, Failure> {
    let place = directory.join(name);
    std::fs::create_dir_all(&place)?;
    let redis = Redis::start(ports::free(), &place);
    redis.ready().await;
    Ok(redis)
}

/// A sidecar of this Redis, ready, whose pool has the backend as its one worker.
pub(crate) async fn sidecar(
    name: &str,
    redis: &Redis,
    policy: Policy,
    backend: &Backend,
    directory: &Path,
) -> Result<Sidecar, Failure> {
    sidecar_with(name, redis, policy, backend, directory, json!({})).await
}

/// The same with other settings.
pub(crate) async fn sidecar_with(
    name: &str,
    redis: &Redis,
    policy: Policy,
    backend: &Backend,
    directory: &Path,
    more: Value,
) -> Result<Sidecar, Failure> {
    let settings = sidecar::Settings {
        name: name.to_owned(),
        listen: ports::free(),
        socket: Some(directory.join(format!("{name}.sock"))),
        redis_url: redis.url(),
        pool: harness::fleet::pool(),
        policy,
        reap_ms: REAP_MS,
        patience_ms: Some(PATIENCE_MS),
        log_level: "warn",
        guarded: None,
        more,
    };
    let sidecar = Sidecar::start(settings, directory);
    sidecar.ready().await;
    let request = registration(backend.address)?;
    sidecar.api().register(&worker()?, &request).await?;
    Ok(sidecar)
}

/// One Envoy before this backend, with one thread.
pub(crate) fn envoy_settings(
    number: usize,
    sidecar: &Sidecar,
    backend: &Backend,
) -> envoy::Settings {
    envoy::Settings {
        name: format!("envoy-{number}"),
        route_by: RouteBy::OriginalDst,
        listen: ports::free(),
        least_request: Some(ports::free()),
        admin: ports::free(),
        sidecar: Target::from(sidecar.listen()),
        spare: None,
        passthrough: backend.address,
        workers: vec![backend.address],
        concurrency: 1,
        listeners: Listeners::Fixed,
        restarts: Restarts::Cold,
        filter: Filter::Shipped,
        verify_tokens: false,
        sidecar_transport: None,
    }
}
