//! What operators see: the sidecar's /metrics and the filter's figures in Envoy's /stats.

use harness::{Fleet, RunningFleet, close_all, eventually, split};

/// The value of the first series whose name and labels contain every one of `parts`.
fn series(metrics: &str, name: &str, parts: &[&str]) -> Option<f64> {
    let lines = metrics.lines().filter(|line| {
        let named = line
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['{', ' ']));
        named && parts.iter().all(|part| line.contains(part))
    });
    lines
        .filter_map(|line| line.rsplit_once(' ')?.1.parse().ok())
        .next()
}

async fn metrics(fleet: &RunningFleet) -> String {
    fleet.api().metrics().await.unwrap()
}

#[tokio::test]
async fn the_sidecar_tells_active_rejected_and_proxies() {
    let fleet = Fleet::new()
        .envoys(2)
        .sidecars(1)
        .max_concurrent(2)
        .up()
        .await;
    let (admitted, refused) = split(fleet.websockets(6).await);
    assert_eq!((admitted.len(), refused.len()), (2, 4));
    let text = metrics(&fleet).await;
    let demo = [r#"pool="demo""#];
    assert_eq!(
        series(&text, "websocket_connections_active_total", &demo),
        Some(2.0),
        "{text}"
    );
    assert_eq!(
        series(&text, "websocket_connections_rejected_total", &demo),
        Some(4.0),
        "{text}"
    );
    for proxy in [r#"proxy_id="envoy-1""#, r#"proxy_id="envoy-2""#] {
        assert_eq!(
            series(&text, "websocket_proxy_instance", &[proxy]),
            Some(1.0),
            "{text}"
        );
    }
    assert_eq!(
        series(&text, "berth_admissions_total", &demo),
        Some(2.0),
        "{text}"
    );
    assert_eq!(
        series(&text, "berth_decision_seconds_count", &demo),
        Some(6.0),
        "{text}"
    );
    let worker = [r#"worker="worker-1""#];
    assert_eq!(
        series(&text, "berth_worker_lifetime", &worker),
        Some(2.0),
        "{text}"
    );
    close_all(admitted).await;
    fleet
        .sees("all places are free", |pool| pool.active == 0)
        .await;
    let text = metrics(&fleet).await;
    assert_eq!(
        series(&text, "websocket_connections_active_total", &demo),
        Some(0.0),
        "{text}"
    );
}

#[tokio::test]
async fn every_name_follows_the_rules() {
    let fleet = Fleet::new().up().await;
    fleet.client().websocket("/").await.admitted().close().await;
    let text = metrics(&fleet).await;
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let kinds: Vec<_> = kinds.filter_map(|line| line.split_once(' ')).collect();
    assert!(!kinds.is_empty(), "{text}");
    for (name, kind) in kinds {
        let ours = name.starts_with("berth_");
        assert!(ours || name.starts_with("websocket_"), "{name}");
        assert!(
            !ours || kind == "counter" || !name.ends_with("_total"),
            "{name} is a {kind}"
        );
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[tokio::test]
async fn the_filter_counts_in_envoys_stats() {
    let fleet = Fleet::new().max_concurrent(1).up().await;
    let envoy = &fleet.envoys[0];
    let session = envoy.client().websocket("/").await.admitted();
    envoy.client().websocket("/").await.refused();
    assert_eq!(envoy.stat("berth.denied.pool_full").await, 1);
    // What every request changes is told by ticks.
    eventually("the session is counted", async || {
        envoy.stat("berth.active").await == 1
    })
    .await;
    assert_eq!(envoy.stat("berth.admitted").await, 1);
    session.close().await;
    eventually("the gauge is back", async || {
        envoy.stat("berth.active").await == 0
    })
    .await;
    fleet.sidecars[0].process.kill();
    envoy.client().websocket("/").await.refused();
    assert_eq!(envoy.stat("berth.outages").await, 1);
}
