//! Conditions with deadlines. Nothing in the tests sleeps and hopes.

use std::time::{Duration, Instant};

/// Far beyond what anything here takes: a slow machine is not a failed test.
pub const DEADLINE: Duration = Duration::from_secs(20);
pub(crate) const POLL: Duration = Duration::from_millis(10);

/// Waits until `condition` holds; panics with `what` if it does not in time.
pub async fn eventually(what: &str, condition: impl AsyncFnMut() -> bool) {
    assert!(
        holds_within(DEADLINE, condition).await,
        "not within {} s: {what}",
        DEADLINE.as_secs()
    );
}

pub async fn holds_within(deadline: Duration, mut condition: impl AsyncFnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if condition().await {
            return true;
        }
        if start.elapsed() > deadline {
            return false;
        }
        tokio::time::sleep(POLL).await;
    }
}
