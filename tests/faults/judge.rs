//! The judge of the others: the history checker finds what is there to be found.

use harness::history::OVERLAP_MAX;
use harness::{Fleet, History, eventually};

#[tokio::test]
async fn a_session_too_many_is_a_violation_when_it_lasts() {
    let fleet = Fleet::new().max_concurrent(2).up().await;
    let sessions = fleet.sessions(2).await;
    tokio::time::sleep(2 * OVERLAP_MAX).await;
    let history = History::of(&fleet.workers, 1);
    assert_eq!(history.violations.len(), 1, "{history}");
    assert_eq!(history.violations[0].peak, 2);
    assert!(History::of(&fleet.workers, 2).violations.is_empty());
    drop(sessions);
    eventually("both have ended", async || fleet.open_at_workers() == 0).await;
    let judged = History::of(&fleet.workers, 1).violations[0].lasted;
    tokio::time::sleep(OVERLAP_MAX).await;
    let later = History::of(&fleet.workers, 1).violations[0].lasted;
    assert_eq!(judged, later, "what is over lasts no longer");
}

/// A guard less: a store that forgets and waits for nobody gives places away that are taken. The
/// holder of the sessions stands still, so that it cannot tell in time.
#[tokio::test]
async fn a_store_that_never_rebuilds_is_found_out() {
    let fleet = Fleet::new().envoys(2).max_concurrent(3).up().await;
    let _held = fleet.sessions_of(0, 3).await;
    fleet.envoys[0].process.freeze().await;
    fleet.redis.told("FLUSHALL").await;
    let _too_many = fleet.sessions_of(1, 3).await;
    tokio::time::sleep(2 * OVERLAP_MAX).await;
    let history = History::of(&fleet.workers, 3);
    assert_eq!(history.violations.len(), 1, "{history}");
    assert_eq!(history.violations[0].peak, 6);
}
