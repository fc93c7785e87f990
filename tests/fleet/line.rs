//! The line: that it is used, and what happens where it cannot be.

use harness::{Fleet, RunningFleet, close_all, eventually};

/// How many filter VMs have a line to this sidecar.
async fn lines(fleet: &RunningFleet, sidecar: usize) -> Option<u64> {
    let metrics = fleet.sidecars[sidecar].api().metrics().await.ok()?;
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("berth_lines "))?;
    line.parse().ok()
}

/// One request, which opens a line if there is none, and then as many as it takes to see it up.
async fn line_is_up(fleet: &RunningFleet) {
    eventually("a line is up", async || {
        fleet.admits(0).await && lines(fleet, 0).await == Some(1)
    })
    .await;
}

#[tokio::test]
async fn what_is_asked_after_the_first_goes_by_a_line() {
    let fleet = Fleet::new().max_concurrent(4).up().await;
    assert_eq!(lines(&fleet, 0).await, Some(0));
    line_is_up(&fleet).await;
    let sessions = fleet.sessions(4).await;
    assert_eq!(lines(&fleet, 0).await, Some(1));
    assert!(!fleet.admits(0).await, "the fifth");
    close_all(sessions).await;
    fleet.sees("all are back", |pool| pool.active == 0).await;
}

#[tokio::test]
async fn a_sidecar_that_is_replaced_gets_a_line_again() {
    let mut fleet = Fleet::new().max_concurrent(4).up().await;
    line_is_up(&fleet).await;
    let sessions = fleet.sessions(2).await;
    for _ in 0..3 {
        fleet.sidecars[0].process.kill();
        fleet.sidecars[0].restart().await;
        line_is_up(&fleet).await;
    }
    assert_eq!(fleet.open_at_workers(), 2);
    close_all(sessions).await;
    fleet.sees("all are back", |pool| pool.active == 0).await;
}
