//! Workers that leave: nothing new comes, and what they have is finished.

use harness::api::WorkerState;
use harness::fleet::{pool, scratch};
use harness::process::Process;
use harness::{Fleet, eventually, paths, ports};
use std::process::Command;

#[tokio::test]
async fn a_draining_worker_finishes_its_sessions_and_gets_no_new_ones() {
    let fleet = Fleet::new().max_concurrent(10).up().await;
    let mut session = fleet.client().websocket("/").await.admitted();
    fleet.api().drain(fleet.workers[0].id()).await.unwrap();
    let refused = fleet.client().websocket("/").await.refused();
    assert_eq!(
        (refused.status, refused.reason.as_deref()),
        (503, Some("no_worker"))
    );
    assert!(session.echoes("the session goes on").await);
    assert_eq!(
        fleet.state_of("worker-1").await,
        Some(WorkerState::Draining)
    );
    session.close().await;
    fleet
        .sees("its place is free", |pool| pool.active == 0)
        .await;
}

#[tokio::test]
async fn a_worker_process_that_is_told_to_end_leaves_the_pool_first() {
    let fleet = Fleet::new().workers(0).up().await;
    let directory = scratch();
    let mut command = Command::new(paths::program("demo-worker"));
    command.args([
        "--id",
        "leaver",
        "--pool",
        pool().as_str(),
        "--heartbeat-ms",
        "100",
    ]);
    command.args(["--listen", &ports::free().to_string()]);
    command.args(["--sidecar", &fleet.sidecars[0].target().to_string()]);
    let worker = Process::start("leaver", &mut command, directory.path().join("leaver.log"));
    fleet
        .sees("it is in the pool", |pool| pool.available() == 1)
        .await;
    let mut session = fleet.client().websocket("/").await.admitted();
    assert_eq!(session.worker, "leaver");

    worker.terminate();
    let removed = Some(WorkerState::Removed);
    fleet
        .sees("it has left", |pool| pool.state("leaver") == removed)
        .await;
    assert!(session.echoes("the session goes on").await);
    assert_eq!(
        fleet
            .client()
            .websocket("/")
            .await
            .refused()
            .reason
            .as_deref(),
        Some("no_worker")
    );
    session.close().await;
    eventually("it has ended", async || {
        worker.ended().is_some_and(|status| status.success())
    })
    .await;
    fleet
        .sees("nothing is left of it", |pool| pool.workers.is_empty())
        .await;
}
