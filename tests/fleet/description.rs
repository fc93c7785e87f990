//! The routes of a running sidecar, called by their description, docs/openapi.yaml: what fits and what does
//! not, thousands of times. description.py makes names meet.

use harness::{Fleet, paths};
use std::path::Path;
use std::process::{Command, Output};

/// How long, where `BERTH_ROUTES_SECONDS` does not say it, and how.
#[cfg(not(feature = "full"))]
const EFFORT: (&str, &str) = ("15", "fuzzing");
#[cfg(feature = "full")]
const EFFORT: (&str, &str) = ("90", "coverage,fuzzing");

/// No answer is a 5xx, each is as described, and what does not fit is refused. That what fits is accepted
/// cannot be asked: a lease must be its holder's own, which no schema says.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,\
                      negative_data_rejection,unsupported_method";

fn schemathesis(url: &str, directory: &Path) -> Command {
    let (seconds, phases) = EFFORT;
    let variable = |name, default: &str| std::env::var(name).unwrap_or(default.to_owned());
    let seconds = variable("BERTH_ROUTES_SECONDS", seconds);
    let seed = variable("BERTH_FUZZ_SEED", "1");
    let mut command = Command::new(paths::schemathesis());
    command
        .current_dir(directory)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SCHEMATHESIS_HOOKS", paths::top().join("tests/fleet/description.py"))
        .arg("--config-file")
        .arg(paths::top().join("tests/fleet/description.toml"))
        .arg("run")
        .arg(paths::top().join("docs/openapi.yaml"))
        .args(["--url", url])
        // It hangs for as long as its holder lives.
        .args(["--exclude-path", "/v1/presence"])
        .args(["--checks", CHECKS, "--phases", phases, "--max-time", &seconds])
        .args(["--seed", &seed, "--request-timeout", "30", "--no-color", "--warnings", "off"]);
    command
}

/// `N generated, N passed`
fn cases(report: &str) -> Option<u64> {
    let (before, _) = report.split_once(" generated,")?;
    before.rsplit(char::is_whitespace).next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_routes_keep_to_their_description() {
    let fleet = Fleet::new().envoys(0).sidecars(1).workers(0).up().await;
    let address = fleet.sidecars[0].listen().to_string();
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = schemathesis(&format!("http://{address}"), directory.path());
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    let Output { status, stdout, .. } = ran.expect("a task").expect("schemathesis");
    let report = String::from_utf8_lossy(&stdout);
    assert!(status.success(), "{report}");
    assert!(cases(&report).is_some_and(|cases| cases > 0), "{report}");
    eprintln!(
        "{}",
        report.lines().rev().take(12).collect::<Vec<_>>().join("\n")
    );
    let audit = Command::new(paths::program("berth"))
        .args(["audit", "demo", "--sidecar", &address])
        .output()
        .expect("berth");
    assert!(
        audit.status.success(),
        "{}",
        String::from_utf8_lossy(&audit.stdout)
    );
}
