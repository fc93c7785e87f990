//! Prints what the last run of the fault tests measured: `make recoveries`.

use harness::recovery::{self, Recovery};
use std::collections::BTreeMap;
use std::process::ExitCode;

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() -> ExitCode {
    let file = recovery::file();
    let Ok(text) = std::fs::read_to_string(&file) else {
        eprintln!("there is no {}: run `make test`", file.display());
        return ExitCode::FAILURE;
    };
    // The last measurement of each counts.
    let mut last = BTreeMap::new();
    for line in text.lines() {
        if let Ok(recovery) = serde_json::from_str::<Recovery>(line) {
            last.insert((recovery.row, recovery.fault.clone()), recovery);
        }
    }
    println!(
        "{:>3}  {:<46} {:>9} {:>11}",
        "row", "fault", "target ms", "measured ms"
    );
    for recovery in last.values() {
        let Recovery {
            row,
            fault,
            target_ms,
            measured_ms,
        } = recovery;
        let over = if measured_ms > target_ms {
            "  over"
        } else {
            ""
        };
        println!("{row:>3}  {fault:<46} {target_ms:>9} {measured_ms:>11}{over}");
    }
    ExitCode::SUCCESS
}
