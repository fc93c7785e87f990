//! Policies that may be set, at the edges of what may be set.

use super::words::{STRATEGIES, Words};
use serde_json::{Value, json};

pub(super) fn any(dice: &mut fastrand::Rng) -> Value {
    let strategy = dice.of(&STRATEGIES);
    let mut policy = json!({
        "strategy": strategy,
        "max_concurrent": dice.of(&[1, 2, 3, 2_097_151]),
        "max_lifetime": dice.of(&[1, 5, 20, 4_294_967_295_u32]),
        "global_conn": dice.of(&[0, 1, 5, 4_294_967_295_u32]),
        "rebuild_ms": 0,
        "lease_ttl_ms": dice.of(&[100, 15_000, 86_400_000]),
        "heartbeat_ttl_ms": dice.of(&[10, 60_000, 86_400_000]),
        "forget_ms": 86_400_000,
        "ejection_ms": dice.of(&[1, 1000]),
        "service_time": dice.of(&["response", "session", "handshake"]),
        "sewt": {"estimator": dice.of(&["ema", "p95", "p99"]), "adaptive_alpha": dice.bool(),
            "alpha": dice.of(&[1e-300, 0.2, 1.0]), "alpha_min": 1e-300, "alpha_max": 1.0,
            "size_buckets": [dice.of(&[0, 10]), dice.of(&[10, u64::MAX])]},
        "score": score(dice),
        "karma": {"rule": dice.of(&["cumulative", "memoryless"]), "floor": dice.of(&[0.001, 1.0]),
            "period_ms": dice.of(&[10, 60_000, 86_400_000])},
        "nodeads": {"dead_after": dice.u8(..64)},
        "affinity": {"mode": dice.of(&["require", "prefer"]), "ttl_ms": dice.of(&[100, 60_000]),
            "keys_max": dice.of(&[1, 2, 100])},
    });
    let other = dice.of(&STRATEGIES);
    if other != strategy && dice.bool() {
        policy["shadow_strategy"] = json!(other);
    }
    if dice.bool() {
        policy["requests"] = limit(dice);
    }
    if dice.bool() {
        let mut client = limit(dice);
        client["max_concurrent"] = json!(dice.of(&[0, 1, 3]));
        client["keys_max"] = json!(dice.of(&[1, 2, 100]));
        policy["client"] = client;
    }
    if dice.one_in(3) {
        let limits = [
            "all",
            "max_concurrent",
            "global_conn",
            "client.max_concurrent",
        ];
        policy["shadow"] = json!([dice.of(&limits)]);
    }
    policy
}

fn score(dice: &mut fastrand::Rng) -> Value {
    let figure = |dice: &mut fastrand::Rng| dice.of(&[5e-324, 1e-300, 1.0, 300.0, 1e308]);
    json!({"top_k": dice.of(&[1, 3, 16]), "relative_latency": dice.bool(),
        "relative_k": figure(dice), "latency_max_ms": figure(dice), "errors_max": figure(dice),
        "timeouts_max": figure(dice), "wait_max": figure(dice), "uptime_full_s": figure(dice),
        "begin_tx_free_min": dice.of(&[0.0, 1.0])})
}

fn limit(dice: &mut fastrand::Rng) -> Value {
    match dice.one_in(3) {
        true => json!({"rate": dice.of(&["1/s", "1000000/d"]), "algorithm": "fixed_window"}),
        false => json!({"rate": dice.of(&["1000000/ms", "3/250ms", "1/d"]),
            "burst": dice.of(&[1, 10, 1_000_000])}),
    }
}
