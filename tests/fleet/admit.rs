//! Who is let in, and where to.

use admission::message::AdmitAnswer;
use futures_util::future::join_all;
use harness::client::worker_of;
use harness::{Fleet, RouteBy, close_all, split};
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test]
async fn of_ten_websockets_through_two_envoys_exactly_two_are_admitted_round_after_round() {
    let fleet = Fleet::new()
        .envoys(2)
        .workers(1)
        .max_concurrent(2)
        .up()
        .await;
    for round in 1..=50 {
        let (admitted, refused) = split(fleet.websockets(10).await);
        assert_eq!((admitted.len(), refused.len()), (2, 8), "round {round}");
        for refusal in refused {
            assert_eq!(
                (refusal.status, refusal.reason.as_deref()),
                (503, Some("pool_full"))
            );
            assert_eq!(refusal.retry_after_s, Some(1));
            assert!(refusal.body.contains("pool_full"), "{refusal:?}");
        }
        close_all(admitted).await;
        fleet
            .sees("all places are free", |pool| pool.active == 0)
            .await;
    }
    let (admitted, _) = split(fleet.websockets(2).await);
    assert_eq!(admitted.len(), 2);
    fleet.assert_consistent().await;
}

#[tokio::test]
async fn stateful_session_routes_each_session_to_the_worker_that_has_its_place() {
    let fleet = Fleet::new()
        .envoys(2)
        .workers(3)
        .max_concurrent(1)
        .route_by(RouteBy::StatefulSession)
        .up()
        .await;
    for _round in 1..=5 {
        let (mut admitted, refused) = split(fleet.websockets(8).await);
        let workers: BTreeSet<_> = admitted
            .iter()
            .map(|session| session.worker.clone())
            .collect();
        assert_eq!((admitted.len(), workers.len(), refused.len()), (3, 3, 5));
        for session in &mut admitted {
            assert!(session.echoes("hello").await);
        }
        close_all(admitted).await;
        fleet
            .sees("all places are free", |pool| pool.active == 0)
            .await;
    }
    fleet.assert_consistent().await;
}

#[tokio::test]
async fn only_listed_paths_need_a_lease() {
    let fleet = Fleet::new()
        .max_concurrent(1)
        .delay_ms(300)
        .filter(|filter| {
            filter["admit"] = json!("paths");
            filter["paths"] = json!(["/run"]);
        })
        .up()
        .await;
    let client = fleet.client();
    let answers = join_all([
        client.get("/run/1"),
        client.get("/run/2"),
        client.get("/other"),
    ]);
    let [first, second, other] = answers.await.try_into().unwrap();
    let mut statuses = [first.status().as_u16(), second.status().as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503], "one place, two requests");
    assert_eq!(other.status(), 200);
    assert!(String::from_utf8_lossy(other.body()).contains("passthrough"));
}

#[tokio::test]
async fn everything_needs_a_lease_when_everything_is_asked_for() {
    let fleet = Fleet::new()
        .max_concurrent(1)
        .filter(|filter| filter["admit"] = json!("everything"))
        .up()
        .await;
    let answer = fleet.client().get("/any").await;
    assert_eq!(worker_of(answer.headers()), "worker-1");
    fleet
        .sees("the request gave its place back", |pool| pool.active == 0)
        .await;
    let _session = fleet.client().websocket("/").await.admitted();
    assert_eq!(fleet.client().get("/any").await.status(), 503);
    assert_eq!(fleet.view().await.lifetimes(), 2);
}

#[tokio::test]
async fn plain_requests_pass_untouched_even_when_the_pool_is_full() {
    let fleet = Fleet::new().max_concurrent(1).up().await;
    let _session = fleet.client().websocket("/").await.admitted();
    let answer = fleet.client().get("/plain").await;
    assert_eq!(answer.status(), 200);
    let body: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
    assert_eq!(
        (&body["backend"], &body["path"]),
        (&json!("passthrough"), &json!("/plain"))
    );
    assert_eq!(fleet.view().await.active, 1);
}

#[tokio::test]
async fn a_websocket_over_http2_takes_a_place_and_gives_it_back() {
    let fleet = Fleet::new().max_concurrent(1).up().await;
    let client = fleet.client();
    let mut session = client.websocket_over_http2("/").await.unwrap().admitted();
    assert_eq!(session.worker, "worker-1");
    assert!(session.echoes("over HTTP/2").await);
    let refused = client.websocket_over_http2("/").await.unwrap().refused();
    assert_eq!(
        (refused.status, refused.reason.as_deref()),
        (503, Some("pool_full"))
    );
    session.close().await;
    fleet
        .sees("the place is free", |pool| pool.active == 0)
        .await;
}

#[tokio::test]
async fn of_two_hundred_racing_websockets_ten_find_a_place() {
    let fleet = Fleet::new()
        .envoys(2)
        .workers(5)
        .max_concurrent(2)
        .up()
        .await;
    let (mut admitted, refused) = split(fleet.websockets(200).await);
    assert_eq!((admitted.len(), refused.len()), (10, 190));
    for session in &mut admitted {
        assert!(session.echoes("here").await);
    }
    fleet.assert_consistent().await;
    let view = fleet.view().await;
    assert_eq!((view.active, view.lifetimes()), (10, 10));
    close_all(admitted).await;
    fleet
        .sees("all places are free", |pool| pool.active == 0)
        .await;
}

#[tokio::test]
async fn of_two_hundred_racing_leases_ten_are_given_and_asking_again_changes_nothing() {
    let fleet = Fleet::new()
        .sidecars(2)
        .workers(5)
        .max_concurrent(2)
        .up()
        .await;
    let apis = [fleet.sidecars[0].api(), fleet.sidecars[1].api()];
    let requests: Vec<_> = (1..=200).map(|seq| apis[0].question(seq)).collect();
    let ask = || {
        join_all(
            requests
                .iter()
                .zip(apis.iter().cycle())
                .map(|(request, api)| api.admit(request)),
        )
    };
    let given = |answers: &[AdmitAnswer]| {
        answers
            .iter()
            .filter(|answer| matches!(answer, AdmitAnswer::Admitted(_)))
            .count()
    };
    let first: Vec<AdmitAnswer> = ask().await.into_iter().map(Result::unwrap).collect();
    assert_eq!(given(&first), 10);
    let again: Vec<AdmitAnswer> = ask().await.into_iter().map(Result::unwrap).collect();
    for (first, again) in first.iter().zip(&again) {
        let (AdmitAnswer::Admitted(first), AdmitAnswer::Admitted(again)) = (first, again) else {
            continue;
        };
        assert_eq!(
            first.worker, again.worker,
            "the same lease, the same worker"
        );
    }
    assert_eq!(given(&again), 10);
    let view = fleet.view().await;
    assert_eq!((view.active, view.lifetimes()), (10, 10));
    fleet.assert_consistent().await;
}
