//! Workers that cannot be reached, or that nobody hears of, get nothing new.

use admission::message::{AdmitAnswer, Use};
use harness::api::{PoolView, WorkerState};
use harness::client::{Client, Refused};
use harness::load::Attempt;
use harness::worker::Worker;
use harness::{Fleet, Load, RouteBy, RunningFleet, Visit, paths};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// Sessions that a worker is ahead of all others: lifetime_first sends it every client until the
/// others have had as many, which takes them longer than a test.
const HEAD_START: usize = 500;

/// Gives a worker its head start: while all places of the others are taken, every lease is its own.
/// No Envoy takes part, so it need not be able to reach the worker.
async fn favour(fleet: &RunningFleet, favourite: &Worker) {
    let api = fleet.api();
    let (mut taken, mut served) = (Vec::new(), 0);
    for seq in 1.. {
        let AdmitAnswer::Admitted(admitted) = api.admit(&api.question(seq)).await.unwrap() else {
            panic!("the favourite has a place");
        };
        if admitted.worker != *favourite.id() {
            taken.push(admitted.lease);
            continue;
        }
        api.give_back(&[admitted.lease], Use::Used).await.unwrap();
        served += 1;
        if served == HEAD_START {
            break;
        }
    }
    api.give_back(&taken, Use::Unused).await.unwrap();
}

fn failures<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> Vec<&'a Refused> {
    attempts
        .filter_map(|attempt| attempt.refused.as_ref())
        .collect()
}

/// Clients that come while the pool's favourite cannot be reached.
async fn assert_costs_at_most_two_percent_after_the_first_second(fleet: &RunningFleet) {
    let load = Load {
        sessions: 400,
        every: Duration::from_millis(10),
        session: Duration::from_millis(5),
    };
    let attempts = load.drive(fleet).await;
    for refused in failures(attempts.iter()) {
        assert_eq!(
            (refused.status, &refused.reason),
            (503, &None),
            "a clean error of Envoy"
        );
    }
    let late = || {
        attempts
            .iter()
            .filter(|attempt| attempt.begun.as_secs() >= 1)
    };
    let (failed, all) = (failures(late()).len(), late().count());
    assert!(failed * 50 <= all, "{failed} of {all} failed");
    assert!(
        fleet.view().await.ejections_total >= 1,
        "the favourite was tried"
    );
    fleet
        .sees("no place is lost", |pool| pool.active == 0)
        .await;
    fleet.assert_consistent().await;
}

#[tokio::test]
async fn a_dead_worker_costs_at_most_two_percent_after_the_first_second() {
    let fleet = Fleet::new()
        .envoys(2)
        .workers(3)
        .max_concurrent(50)
        .up()
        .await;
    favour(&fleet, &fleet.workers[0]).await;
    fleet.workers[0].stop_serving().await;
    assert_costs_at_most_two_percent_after_the_first_second(&fleet).await;
}

#[tokio::test]
async fn a_worker_that_envoy_does_not_know_costs_at_most_two_percent_after_the_first_second() {
    let fleet = Fleet::new()
        .envoys(2)
        .workers(3)
        .strangers(1)
        .max_concurrent(50)
        .route_by(RouteBy::StatefulSession)
        .up()
        .await;
    let stranger = &fleet.workers[3];
    favour(&fleet, stranger).await;
    assert_costs_at_most_two_percent_after_the_first_second(&fleet).await;
    assert_eq!(stranger.journal().opened_total(), 0);
}

#[tokio::test]
async fn an_ejected_worker_that_comes_back_is_taken_in_again() {
    let fleet = Fleet::new()
        .policy(|policy| policy.ejection_ms = 200)
        .up()
        .await;
    fleet.workers[0].stop_serving().await;
    let refused = fleet.client().websocket("/").await.refused();
    assert_eq!((refused.status, refused.reason), (503, None));
    fleet
        .sees("it is ejected", |pool| pool.ejections_total == 1)
        .await;
    fleet.workers[0].resume_serving().await.unwrap();
    harness::eventually("it gets sessions again", async || {
        matches!(fleet.client().websocket("/").await, Visit::Admitted(_))
    })
    .await;
    let available = |pool: &PoolView| pool.available() == 1;
    fleet
        .sees("it is an ordinary worker again", available)
        .await;
}

/// A listener that lets nobody in, not even to wait: connections are neither taken nor refused.
async fn black_hole(address: SocketAddr) -> (TcpListener, Vec<TcpStream>) {
    const REFUSED_IF_LATE: Duration = Duration::from_millis(200);
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    let listener = socket.listen(0).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = timeout(REFUSED_IF_LATE, TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
    }
    (listener, waiting)
}

/// How long the shipped Envoy waits for a worker.
fn connect_timeout() -> Duration {
    let text = std::fs::read_to_string(paths::top().join("envoy/envoy.yaml")).unwrap();
    let config: Value = serde_saphyr::from_str(&text).unwrap();
    let clusters = config["static_resources"]["clusters"].as_array().unwrap();
    let workers = clusters.iter().find(|it| it["name"] == "berth_workers");
    let seconds = workers.and_then(|it| it["connect_timeout"].as_str()?.strip_suffix('s'));
    Duration::from_secs_f64(seconds.unwrap().parse().unwrap())
}

/// How often a client fails that comes again after a short pause until it is let in.
async fn failures_of(client: Client) -> usize {
    const PAUSE: Duration = Duration::from_millis(100);
    let mut failures = 0;
    while let Visit::Refused(refused) = client.websocket("/").await {
        assert_eq!((refused.status, refused.reason), (503, None));
        failures += 1;
        tokio::time::sleep(PAUSE).await;
    }
    failures
}

/// Who was sent there by another Envoy, a moment before the first failure was known, fails as well, and
/// comes again while the exile lasts.
#[tokio::test]
async fn a_worker_that_swallows_connections_costs_no_client_two_attempts() {
    const MOMENT: Duration = Duration::from_millis(50);
    let fleet = Fleet::new().envoys(2).workers(2).max_concurrent(50);
    let fleet = fleet.up().await;
    favour(&fleet, &fleet.workers[0]).await;
    fleet.workers[0].stop_serving().await;
    let _hole = black_hole(fleet.workers[0].address()).await;
    let second = async {
        tokio::time::sleep(connect_timeout() - MOMENT).await;
        failures_of(fleet.envoys[1].client()).await
    };
    let failures = tokio::join!(failures_of(fleet.client()), second);
    assert!(failures.0 >= 1);
    assert!(failures.1 <= 1, "{failures:?}");
}

#[tokio::test]
async fn while_ejected_a_worker_gets_nothing() {
    let fleet = Fleet::new()
        .policy(|policy| policy.ejection_ms = 20_000)
        .up()
        .await;
    fleet.workers[0].stop_serving().await;
    fleet.client().websocket("/").await.refused();
    let ejected = Some(WorkerState::Ejected);
    fleet
        .sees("it is ejected", |pool| pool.state("worker-1") == ejected)
        .await;
    fleet.workers[0].resume_serving().await.unwrap();
    let refused = fleet.client().websocket("/").await.refused();
    assert_eq!(refused.reason.as_deref(), Some("no_worker"));
    assert_eq!(fleet.workers[0].journal().opened_total(), 0);
}

#[tokio::test]
async fn a_worker_whose_heartbeats_end_gets_nothing_and_its_sessions_go_on() {
    let fleet = Fleet::new()
        .policy(|policy| policy.heartbeat_ttl_ms = 500)
        .up()
        .await;
    let mut session = fleet.client().websocket("/").await.admitted();
    fleet.workers[0].stop_heartbeats();
    let absent = Some(WorkerState::Absent);
    fleet
        .sees("it is absent", |pool| pool.state("worker-1") == absent)
        .await;
    let refused = fleet.client().websocket("/").await.refused();
    assert_eq!(
        (refused.status, refused.reason.as_deref()),
        (503, Some("no_worker"))
    );
    assert!(session.echoes("the session goes on").await);
    session.close().await;
    fleet
        .sees("its place is free", |pool| pool.active == 0)
        .await;
}

#[tokio::test]
async fn an_empty_pool_says_so() {
    let fleet = Fleet::new().workers(0).up().await;
    let refused = fleet.client().websocket("/").await.refused();
    assert_eq!(
        (refused.status, refused.reason.as_deref()),
        (503, Some("no_worker"))
    );
}
