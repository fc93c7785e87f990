//! How many commands an admission makes.

use crate::scripts;
use crate::site;
use admission::id::{Epoch, HolderId, LeaseId, PoolName, ProxyId};
use admission::message::{AdmitAnswer, AdmitRequest, AffinityRequest};
use admission::policy::{Policy, Strategy};
use harness::fleet;
use harness::http::Failure;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Commands that an admission makes inside of its script, by what is switched on.
pub(super) async fn count(place: &Path) -> Result<Value, Failure> {
    let base = calls_of(place, "base", site::policy(), |_| {}).await?;
    let limits: Policy = serde_json::from_value(json!({
        "global_conn": 1_000_000,
        "requests": {"rate": "1000000/s", "burst": 1000},
        "client": {"max_concurrent": 1000, "rate": "1000000/s", "burst": 1000},
        "max_concurrent": 1000, "rebuild_ms": 0,
    }))?;
    let keys = |request: &mut AdmitRequest| {
        request.client = Some("tenant".into());
        request.affinity = Some(AffinityRequest {
            key: "session".into(),
            bind: true,
        });
    };
    let all = calls_of(place, "limits", limits.clone(), keys).await?;
    let shadowed = Policy {
        shadow_strategy: Some(Strategy::LeastConnections),
        ..limits
    };
    // A key that is bound leaves nothing to choose, neither for a strategy nor for its shadow.
    let unbound = |request: &mut AdmitRequest| {
        let number = request.lease.seq;
        request.client = Some("tenant".into());
        request.affinity = Some(AffinityRequest {
            key: format!("session-{number}"),
            bind: true,
        });
    };
    let shadow = calls_of(place, "unbound", shadowed.clone(), |_| {}).await?;
    let everything = calls_of(place, "everything", shadowed, unbound).await?;
    Ok(
        json!({"base": base, "limits_client_affinity": all, "shadow": shadow, "everything": everything}),
    )
}

async fn calls_of(
    place: &Path,
    name: &str,
    policy: Policy,
    adjust: impl Fn(&mut AdmitRequest),
) -> Result<f64, Failure> {
    const ADMISSIONS: u64 = 100;
    let redis = site::redis(name, place).await?;
    let pool: PoolName = fleet::pool();
    let pools = BTreeMap::from([(pool.clone(), policy)]);
    let store = scripts::store(redis.url(), pools, 4).await?;
    let holder = HolderId {
        proxy: ProxyId::parse("bench")?,
        epoch: Epoch::from_random([1; 16]),
    };
    for seq in 0..=ADMISSIONS {
        let epoch = holder.epoch.clone();
        let lease = LeaseId { epoch, seq };
        let mut request = AdmitRequest::new(pool.clone(), holder.clone(), lease);
        adjust(&mut request);
        let answer = store.admit(&request).await?;
        if !matches!(answer, AdmitAnswer::Admitted(_)) {
            return Err(format!("{name}: not admitted: {answer:?}").into());
        }
        // The first one makes its holder known.
        if seq == 0 {
            redis.told("CONFIG RESETSTAT").await;
        }
    }
    let told = redis.told("INFO commandstats").await;
    let apart = [
        "cmdstat_fcall:",
        "cmdstat_config",
        "cmdstat_info",
        "cmdstat_ping",
    ];
    let lines = (told.lines()).filter(|line| !apart.iter().any(|name| line.starts_with(name)));
    let calls = lines.filter_map(|line| line.split_once("calls=")?.1.split(',').next());
    let calls: u64 = calls.filter_map(|calls| calls.parse::<u64>().ok()).sum();
    Ok(calls as f64 / ADMISSIONS as f64)
}
