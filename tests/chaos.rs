//! What needs the machine for itself: a measurement, and the chaos of row 21.

#[path = "faults/closing.rs"]
mod closing;

use harness::fleet::scratch;
use std::process::Command;
use tokio::sync::Mutex;

/// Held by each test here.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Row 21, in short: half a minute. The seed was chosen for what it draws: an Envoy and a worker die, a
/// sidecar stops, links fail, the store is wiped. How far it gets depends on how soon the fleet is well
/// again after each. `make chaos` has more.
#[tokio::test]
async fn half_a_minute_of_faults_ends_without_violation_and_without_leak() {
    let _alone = ALONE.lock().await;
    let directory = scratch();
    let ended = Command::new(env!("CARGO_BIN_EXE_chaos"))
        .args(["--seed", "411", "--minutes", "0.5"])
        .arg("--report")
        .arg(directory.path().join("report.json"))
        .status();
    assert!(ended.expect("chaos").success());
}
