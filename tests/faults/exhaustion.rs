//! Row 20: a sidecar without file descriptors, or without memory. Failures are typed, nothing is corrupted,
//! and all is well when there is room again.

use futures_util::future::join_all;
use harness::http::{self, Target};
use harness::wait::eventually;
use harness::{Fleet, Promise, RunningFleet};
use hyper::Method;
use rustix::process::Resource;
use std::time::Instant;
use tokio::net::TcpStream;

async fn assert_no_drift(fleet: &RunningFleet) {
    let audit = fleet.api().audit().await.unwrap();
    let drift = audit["drift"].as_object().unwrap();
    assert!(drift.values().all(|off| off == 0), "{audit}");
}

async fn tells_of_an_outage(fleet: &RunningFleet) -> bool {
    let visit = fleet.client().visit("/").await;
    let Ok(harness::Visit::Refused(refused)) = visit else {
        return false;
    };
    refused.status == 503 && refused.reason.as_deref() == Some("outage")
}

#[tokio::test]
async fn a_sidecar_without_file_descriptors_fails_in_words_and_recovers() {
    let fleet = Fleet::new().as_shipped().max_concurrent(5).up().await;
    let sessions = fleet.sessions(2).await;
    let process = &fleet.sidecars[0].process;
    // None above the first three, which are in use: what is closed from now on cannot be opened again.
    let former = process.limit(Resource::Nofile, Some(3));
    // Who is connected already is served, with nothing new to open.
    eventually("Envoy's connection goes on", async || fleet.admits(0).await).await;
    // Redis cannot be reached anew.
    fleet.redis.told("CLIENT KILL TYPE normal").await;
    eventually("a client is told", async || {
        tells_of_an_outage(&fleet).await
    })
    .await;
    let stranger = TcpStream::connect(fleet.sidecars[0].listen()).await;
    drop(stranger);
    process.expect_running();
    process.limit(Resource::Nofile, former);
    let start = Instant::now();
    let promise = Promise::new(20, "no file descriptors: served again", 3000);
    promise
        .kept_since(start, async || fleet.admits(0).await)
        .await;
    assert_no_drift(&fleet).await;
    fleet.assert_unharmed(sessions).await;
}

/// Beats as large as they may be, all at once.
async fn large_beats(target: &Target) -> Vec<Option<u16>> {
    let body = format!(r#"{{"pool": "{}"}}"#, "x".repeat(4_000_000));
    let calls = (0..16).map(|_| {
        let body = body.clone();
        async move {
            let answer = http::send_json(target, Method::POST, "/v1/renew", body).await;
            answer.ok().map(|answer| answer.status().as_u16())
        }
    });
    join_all(calls).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_without_memory_corrupts_nothing() {
    let fleet = Fleet::new().as_shipped().max_concurrent(5);
    let mut fleet = fleet.up().await;
    let sessions = fleet.sessions(2).await;
    let sidecar = &fleet.sidecars[0];
    let size = sidecar.process.memory_kib("VmData") * 1024;
    let former = sidecar
        .process
        .limit(Resource::Data, Some(size + 4 * 1024 * 1024));
    let answers = large_beats(&sidecar.target()).await;
    // Its end takes a moment.
    eventually("the sidecar has ended, or answers", async || {
        sidecar.process.ended().is_some() || http::get(&sidecar.target(), "/healthz").await.is_ok()
    })
    .await;
    let lives = sidecar.process.ended().is_none();
    eprintln!(
        "16 beats of 4 MB with 4 MiB of memory left: {answers:?}; the sidecar lives: {lives}"
    );
    let typed = |answer: &Option<u16>| answer.is_none_or(|it| [400, 503].contains(&it));
    assert!(answers.iter().all(typed), "{answers:?}");
    if lives {
        sidecar.process.limit(Resource::Data, former);
    } else {
        // What Envoy says meanwhile is typed, and whoever watches over the sidecar starts another.
        eventually("a client is told", async || {
            tells_of_an_outage(&fleet).await
        })
        .await;
        fleet.sidecars[0].restart().await;
    }
    let start = Instant::now();
    let promise = Promise::new(20, "no memory: served again", 3000);
    promise
        .kept_since(start, async || fleet.admits(0).await)
        .await;
    assert_no_drift(&fleet).await;
    fleet.assert_unharmed(sessions).await;
}
