//! When sidecar or Redis are gone: a typed answer in time, and living sessions go on.

use harness::api::PoolView;
use harness::client::{Refused, Session};
use harness::envoy::{Envoy, RouteBy};
use harness::{Fleet, RunningFleet, eventually};
use hyper::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// What the filter gives one question, by default.
const BUDGET: Duration = Duration::from_millis(300);
/// What a busy machine may add. Together they are less than the watchdog's second, which is what comes next.
const SLACK: Duration = Duration::from_millis(500);

/// Comes until it is let in: these fleets are too impatient for a busy machine.
async fn admitted(fleet: &RunningFleet) -> Session {
    let mut sessions = fleet.sessions(1).await;
    sessions.remove(0)
}

/// Five attempts one after the other: their refusals, and how long the middle one took.
async fn five_refusals(fleet: &RunningFleet) -> (Vec<Refused>, Duration) {
    let (mut refusals, mut times) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let start = Instant::now();
        refusals.push(fleet.client().websocket("/").await.refused());
        times.push(start.elapsed());
    }
    times.sort_unstable();
    (refusals, times[2])
}

fn assert_typed(refusals: &[Refused], reason: &str) {
    for refused in refusals {
        assert_eq!(
            (refused.status, refused.reason.as_deref()),
            (503, Some(reason))
        );
        assert_eq!(refused.retry_after_s, Some(1));
    }
}

/// Clients come in again.
async fn assert_recovers(fleet: &RunningFleet) {
    eventually("clients are admitted again", async || {
        let (admitted, _) = harness::split(vec![fleet.client().websocket("/").await]);
        !admitted.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_dead_sidecar_is_an_outage_until_it_is_back() {
    let mut fleet = Fleet::new().impatient().max_concurrent(10).up().await;
    let mut session = admitted(&fleet).await;
    fleet.sidecars[0].process.kill();
    let (refusals, median) = five_refusals(&fleet).await;
    assert_typed(&refusals, "outage");
    assert!(median <= BUDGET + SLACK, "refused after {median:?}");
    assert!(session.echoes("the session goes on").await);
    assert_eq!(
        fleet.client().get("/").await.status(),
        200,
        "no lease, no outage"
    );

    fleet.sidecars[0].restart().await;
    assert_recovers(&fleet).await;
    assert!(session.echoes("and on").await);
    let one_left = |pool: &PoolView| pool.active == 1;
    fleet
        .sees("nothing but the living session holds a place", one_left)
        .await;
}

#[tokio::test]
async fn a_session_that_ends_while_the_sidecar_is_dead_gives_its_place_back_later() {
    let mut fleet = Fleet::new().impatient().max_concurrent(1).up().await;
    let session = admitted(&fleet).await;
    fleet.sidecars[0].process.kill();
    session.close().await;
    fleet.sidecars[0].restart().await;
    fleet
        .sees("the place is free", |pool| pool.active == 0)
        .await;
    admitted(&fleet).await;
}

#[tokio::test]
async fn a_frozen_sidecar_is_an_outage_within_the_budget() {
    let fleet = Fleet::new().impatient().max_concurrent(10).up().await;
    let mut session = admitted(&fleet).await;
    fleet.sidecars[0].process.freeze().await;
    let (refusals, median) = five_refusals(&fleet).await;
    assert_typed(&refusals, "outage");
    assert!(median <= BUDGET + SLACK, "refused after {median:?}");
    assert!(session.echoes("the session goes on").await);

    fleet.sidecars[0].process.thaw();
    assert_recovers(&fleet).await;
    let one_left = |pool: &PoolView| pool.active == 1;
    fleet
        .sees("what was asked for and given up holds no place", one_left)
        .await;
}

#[tokio::test]
async fn the_watchdog_answers_when_the_sidecar_may_take_for_ever() {
    let fleet = Fleet::new()
        .impatient()
        .filter(|filter| {
            filter["ask_timeout_ms"] = 10_000.into();
            filter["watchdog_ms"] = 300.into();
        })
        .up()
        .await;
    fleet.sidecars[0].process.freeze().await;
    let (refusals, median) = five_refusals(&fleet).await;
    assert_typed(&refusals, "overdue");
    assert!(median <= 2 * BUDGET + SLACK, "refused after {median:?}");
    fleet.sidecars[0].process.thaw();
    fleet
        .sees("what was given up holds no place", |pool| pool.active == 0)
        .await;
    assert_recovers(&fleet).await;
}

#[tokio::test]
async fn a_frozen_redis_is_an_outage_within_the_budget() {
    let fleet = Fleet::new().impatient().max_concurrent(10).up().await;
    let mut session = admitted(&fleet).await;
    fleet.redis.process.freeze().await;
    let (refusals, median) = five_refusals(&fleet).await;
    assert_typed(&refusals, "outage");
    assert!(median <= BUDGET + SLACK, "refused after {median:?}");
    assert!(session.echoes("the session goes on").await);

    fleet.redis.process.thaw();
    assert_recovers(&fleet).await;
    let one_left = |pool: &PoolView| pool.active == 1;
    fleet
        .sees("what was asked for and given up holds no place", one_left)
        .await;
}

#[tokio::test]
async fn a_dead_redis_is_an_outage_until_it_is_back() {
    let mut fleet = Fleet::new().impatient().max_concurrent(10).up().await;
    let mut session = admitted(&fleet).await;
    fleet.redis.process.kill();
    let (refusals, median) = five_refusals(&fleet).await;
    assert_typed(&refusals, "outage");
    assert!(median <= BUDGET + SLACK, "refused after {median:?}");
    assert!(session.echoes("the session goes on").await);

    // It comes back empty: pools and workers introduce themselves again.
    fleet.redis.restart().await;
    assert_recovers(&fleet).await;
    assert!(session.echoes("and on").await);
}

#[tokio::test]
async fn an_outage_at_one_envoy_does_not_concern_the_other() {
    let fleet = Fleet::new()
        .impatient()
        .envoys(2)
        .max_concurrent(10)
        .up()
        .await;
    fleet.sidecars[0].process.kill();
    let refused = fleet.envoys[0].client().websocket("/").await.refused();
    assert_eq!(refused.reason.as_deref(), Some("outage"));
    fleet.sessions_of(1, 1).await;
}

const MARK: &str = "x-berth-fallback";

/// What the backend, or the worker, says of a request that brings the filter's own mark.
async fn marked(fleet: &RunningFleet, path: &str) -> Value {
    let headers = HeaderMap::from_iter([(
        hyper::header::HeaderName::from_static(MARK),
        HeaderValue::from_static("outage"),
    )]);
    let answer = fleet.client().get_with(path, headers).await;
    serde_json::from_slice(answer.body()).unwrap_or_default()
}

/// How many requests Envoy sent to the cluster `fallback`.
async fn fallen_back(envoy: &Envoy) -> u64 {
    envoy.stat("cluster.fallback.upstream_rq_total").await
}

async fn assert_falls_back(route_by: RouteBy) {
    let fleet = Fleet::new().impatient().route_by(route_by);
    let fleet = fleet.max_concurrent(10).filter(|filter| {
        filter["on_outage"] = json!("allow");
        filter["admit"] = json!("paths");
        filter["paths"] = json!(["/run"]);
    });
    let mut fleet = fleet.up().await;
    eventually("a request reaches the worker", async || {
        marked(&fleet, "/run").await["worker"] == "worker-1"
    })
    .await;
    let unleased = marked(&fleet, "/other").await;
    assert_eq!(unleased["headers"][MARK], Value::Null, "{unleased}");
    // A busy machine may have had an outage of its own.
    let before = fallen_back(&fleet.envoys[0]).await;

    fleet.sidecars[0].process.kill();
    let unleased = marked(&fleet, "/other").await;
    assert_eq!(unleased["headers"][MARK], Value::Null, "{unleased}");
    for _ in 0..3 {
        let answer = marked(&fleet, "/run").await;
        assert_eq!(answer["headers"][MARK], "outage", "{answer}");
    }
    let upgrade = fleet.client().websocket("/run").await.refused();
    assert_eq!(
        upgrade.reason, None,
        "the backend's own answer: {upgrade:?}"
    );
    let envoy = &fleet.envoys[0];
    assert_eq!(fallen_back(envoy).await, before + 4);
    assert_eq!(envoy.stat("berth.fallback").await, before + 4);
    assert_eq!(envoy.stat("berth.outages").await, 0);

    fleet.sidecars[0].restart().await;
    eventually("requests reach the worker again", async || {
        marked(&fleet, "/run").await["worker"] == "worker-1"
    })
    .await;
    fleet
        .sees("what was asked for in vain holds no place", |pool| {
            pool.active == 0
        })
        .await;
}

#[tokio::test]
async fn with_allow_requests_reach_the_fallback_while_nobody_can_be_asked() {
    assert_falls_back(RouteBy::OriginalDst).await;
}

#[tokio::test]
async fn with_allow_requests_reach_the_fallback_before_an_ordinary_cluster() {
    assert_falls_back(RouteBy::StatefulSession).await;
}

/// With a timeout that must run out first, the request is paused when the filter lets it go.
#[tokio::test]
async fn with_allow_requests_reach_the_fallback_when_answers_are_late() {
    let fleet = Fleet::new().impatient().filter(|filter| {
        filter["on_outage"] = json!("allow");
        filter["admit"] = json!("everything");
    });
    let fleet = fleet.up().await;
    fleet.sidecars[0].process.freeze().await;
    let start = Instant::now();
    assert_eq!(marked(&fleet, "/").await["headers"][MARK], "outage");
    assert!(start.elapsed() <= BUDGET + SLACK, "{:?}", start.elapsed());
    fleet.sidecars[0].process.thaw();
    fleet
        .sees("what was given up holds no place", |pool| pool.active == 0)
        .await;
}

/// How many VMs are in an outage.
async fn in_outage(envoy: &Envoy) -> u64 {
    let stats = envoy.stats("berth.outage").await;
    let gauge = stats
        .iter()
        .find(|(name, _)| name.ends_with("berth.outage"));
    gauge.map_or(0, |(_, value)| *value)
}

#[tokio::test]
async fn an_outage_is_logged_once_when_it_begins_and_once_when_it_is_over() {
    let mut fleet = Fleet::new().impatient().up().await;
    fleet.told().await;
    let before = fleet.envoys[0].stat("berth.outage_begins").await;
    assert_eq!(in_outage(&fleet.envoys[0]).await, 0);
    fleet.sidecars[0].process.kill();
    five_refusals(&fleet).await;
    // The thread that serves, and Envoy's main thread, which beats too.
    eventually("both VMs know", async || {
        in_outage(&fleet.envoys[0]).await == 2
    })
    .await;
    five_refusals(&fleet).await;
    fleet.sidecars[0].restart().await;
    let envoy = &fleet.envoys[0];
    eventually("both know that it is over", async || {
        in_outage(envoy).await == 0
    })
    .await;
    // Two for this one; a busy machine may have more of its own.
    eventually(
        "each is logged when it begins and when it is over",
        async || {
            let begins = envoy.stat("berth.outage_begins").await;
            let said = ["outage: no answer", "outage over after"];
            let logged = said.map(|line| envoy.process.logged(line) as u64);
            begins >= before + 2 && logged == [begins; 2]
        },
    )
    .await;
    assert_eq!(envoy.process.logged("10 requests found nobody to ask"), 1);
}

#[tokio::test]
async fn the_sidecar_says_once_that_redis_is_lost_and_once_that_it_is_back() {
    let fleet = Fleet::new().impatient().up().await;
    let log = &fleet.sidecars[0].process;
    let said = || {
        let lines = ["lost Redis", "Redis is back", "cannot connect to Redis"];
        lines.map(|line| log.logged(line))
    };
    let figure = async |name: &str| -> Option<usize> {
        let text = fleet.api().metrics().await.unwrap_or_default();
        let mut figures = text.lines().filter_map(|line| line.strip_prefix(name));
        figures.next()?.trim().parse().ok()
    };
    // It may have been there before Redis.
    let [lost, back, absent] = said();
    fleet.redis.process.freeze().await;
    five_refusals(&fleet).await;
    assert_eq!(said(), [lost + 1, back, absent]);
    assert_eq!(figure("berth_store_up ").await, Some(0));
    fleet.redis.process.thaw();
    // A busy machine may lose it once more.
    eventually("Redis is back as often as it was lost", async || {
        let [lost, back, _] = said();
        figure("berth_store_up ").await == Some(1) && lost == back
    })
    .await;
    assert_eq!(figure("berth_store_losses_total ").await, Some(said()[0]));
}
