//! Row 6: messages that overtake each other, come twice, come when nobody thinks of them any more, or
//! cannot be taken.

use admission::id::LeaseId;
use admission::message::{
    AdmitAnswer, Admitted, DenyReason, Held, Release, ReleaseAnswer, ReleaseRequest, RenewRequest,
};
use harness::api::{Api, PoolView, test_holder};
use harness::client::UPGRADE;
use harness::fleet::pool;
use harness::{Fleet, Promise, RunningFleet, close_all};
use std::time::{Duration, Instant};

fn lease(number: u64) -> LeaseId {
    LeaseId {
        epoch: test_holder().epoch,
        seq: number,
    }
}

async fn release(api: &Api, number: u64) -> ReleaseAnswer {
    let request = ReleaseRequest {
        pool: pool(),
        holder: test_holder(),
        releases: vec![Release::unused(lease(number))],
    };
    api.release(&request).await.expect("an answer")
}

async fn admit(api: &Api, number: u64) -> AdmitAnswer {
    api.admit(&api.question(number)).await.expect("an answer")
}

async fn admitted(api: &Api, number: u64) -> Admitted {
    match admit(api, number).await {
        AdmitAnswer::Admitted(admitted) => admitted,
        answer => panic!("{number}: {answer:?}"),
    }
}

async fn assert_cancelled(api: &Api, number: u64) {
    match admit(api, number).await {
        AdmitAnswer::Denied(denied) => assert_eq!(denied.reason, DenyReason::Cancelled),
        answer => panic!("{number}: {answer:?}"),
    }
}

/// One beat that lists nothing, in the name of a proxy that is a test.
async fn beat(api: &Api, beat: u64, held: &[u64]) {
    let mut all = Held::default();
    held.iter().for_each(|number| all.add(*number));
    let request = RenewRequest {
        pool: pool(),
        holder: test_holder(),
        beat,
        asking: vec![],
        rebuild: None,
        ended: vec![],
        held: Some(all),
        leases: None,
    };
    api.renew(&request).await.expect("an answer");
}

#[tokio::test]
async fn a_release_that_overtakes_its_admit_leaves_nothing_for_it() {
    let fleet = Fleet::new().up().await;
    let api = fleet.api();
    let answer = release(&api, 1).await;
    assert_eq!((answer.released, answer.unknown), (0, 1));
    assert_cancelled(&api, 1).await;
    assert_eq!(fleet.view().await.active, 0);
    assert_eq!(fleet.view().await.lifetimes(), 0);
}

#[tokio::test]
async fn what_comes_twice_counts_once() {
    let fleet = Fleet::new().max_concurrent(2).up().await;
    let api = fleet.api();
    let first = admitted(&api, 1).await;
    assert_eq!(admitted(&api, 1).await, first, "the same answer");
    admitted(&api, 2).await;
    let view = fleet.view().await;
    assert_eq!((view.active, view.lifetimes()), (2, 2));
    assert_eq!(release(&api, 1).await.released, 1);
    assert_eq!(release(&api, 1).await.released, 0);
    assert_eq!(
        fleet.view().await.active,
        1,
        "the other lease has its place"
    );
    assert_cancelled(&api, 1).await;
}

#[tokio::test]
async fn what_is_replayed_long_after_is_not_believed() {
    const TTL_MS: u64 = 500;
    let fleet = Fleet::new().max_concurrent(2);
    let fleet = fleet
        .policy(|policy| policy.lease_ttl_ms = TTL_MS)
        .up()
        .await;
    let api = fleet.api();
    beat(&api, 1, &[]).await;
    let (kept, ended) = ((1 << 24) + 1, (1 << 24) + 2);
    admitted(&api, kept).await;
    admitted(&api, ended).await;
    release(&api, ended).await;
    let start = Instant::now();
    for number in 2.. {
        beat(&api, number, &[kept]).await;
        if start.elapsed() > Duration::from_millis(3 * TTL_MS) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(TTL_MS / 5)).await;
    }
    assert_cancelled(&api, ended).await;
    assert_eq!(release(&api, ended).await.released, 0);
    assert_eq!(admitted(&api, kept).await.lease, lease(kept));
    assert_eq!(fleet.view().await.active, 1, "only the one that was kept");
}

/// Clients come and leave while their questions and releases are late, lost, or cut short.
async fn churn(fleet: &RunningFleet) {
    let link = &fleet.sidecar_links[0];
    for round in 0..40_u64 {
        link.delay(Duration::from_millis(round * 37 % 120));
        let client = fleet.client().raw(UPGRADE).await.unwrap();
        // Another moment each time: that is the point.
        tokio::time::sleep(Duration::from_millis(round * 53 % 200)).await;
        match round % 8 {
            3 => link.cut().await,
            7 => link.cut_after(40),
            _ => {}
        }
        drop(client);
    }
    link.heal().await;
}

#[tokio::test]
async fn late_lost_and_torn_messages_leave_nothing_behind() {
    let fleet = Fleet::new().as_shipped().sidecars_through_proxy();
    let fleet = fleet.max_concurrent(3).up().await;
    churn(&fleet).await;
    let start = Instant::now();
    let promise = Promise::new(6, "messages late, lost and torn", 4000);
    let empty = |pool: &PoolView| pool.active == 0;
    let clean = async || fleet.api().view().await.is_ok_and(|view| empty(&view));
    promise.kept_since(start, clean).await;
    let lasting = Duration::from_secs(1);
    fleet.stays(lasting, "nothing comes late", empty).await;
    let sessions = fleet.sessions(3).await;
    fleet.assert_consistent().await;
    drop(sessions);
}

/// What was learned about the worker is no record any more: the script breaks on it. The release is
/// given up, not repeated, and the next beat tells what it would have told.
#[tokio::test]
async fn a_release_that_the_store_breaks_on_is_told_by_the_next_beat() {
    let fleet = Fleet::new().as_shipped().up().await;
    let sessions = fleet.sessions(1).await;
    fleet.told().await;
    fleet
        .redis
        .told("HSET ws:{demo}:live report:worker-1 x")
        .await;
    close_all(sessions).await;
    harness::eventually("the release is given up", async || {
        fleet.envoys[0].stat("berth.dropped").await == 1
    })
    .await;
    fleet
        .redis
        .told("HDEL ws:{demo}:live report:worker-1")
        .await;
    let promise = Promise::new(6, "release that the store breaks on", 4000);
    let free = async || fleet.is_exact(0).await;
    promise.kept_since(Instant::now(), free).await;
    let view = fleet.view().await;
    assert_eq!(view.repaired("renounced"), 1, "{view:#?}");
    fleet.assert_consistent().await;
}
