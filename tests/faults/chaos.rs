//! Row 21, in short: half a minute, with a seed that kills an Envoy and a worker, stops a sidecar and an
//! Envoy, and wipes the store. `make chaos` has more.

use harness::fleet::scratch;
use std::process::Command;

#[test]
fn half_a_minute_of_faults_ends_without_violation_and_without_leak() {
    let directory = scratch();
    let ended = Command::new(env!("CARGO_BIN_EXE_chaos"))
        .args(["--seed", "411", "--minutes", "0.5"])
        .arg("--report")
        .arg(directory.path().join("report.json"))
        .status();
    assert!(ended.expect("chaos").success());
}
