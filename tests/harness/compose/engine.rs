//! The commands of Docker and of Compose.

use std::process::{Command, Output};

/// Without an engine there is nothing to test, and no test may say that it passed.
pub(super) fn expect_answer() {
    let answer = run(Command::new("docker").args(["info", "--format", "{{.ServerVersion}}"]));
    if let Err(error) = answer {
        panic!("no Docker engine answers ({error}): start one, or leave `make test-compose` out");
    }
}

/// What `docker` prints, with these arguments.
pub(super) fn docker(arguments: &[&str]) -> Result<String, String> {
    run(Command::new("docker").args(arguments))
}

/// The same, of a command that must succeed.
pub(super) fn must(arguments: &[&str]) -> String {
    match docker(arguments) {
        Ok(output) => output,
        Err(error) => panic!("docker {}: {error}", arguments.join(" ")),
    }
}

/// Compose v2 where there is one, else docker-compose, which is the same from version 1.29 on.
pub(super) fn compose() -> Command {
    let mut command = Command::new("docker");
    command.arg("compose");
    if docker(&["compose", "version"]).is_ok() {
        command
    } else {
        Command::new("docker-compose")
    }
}

pub(super) fn run(command: &mut Command) -> Result<String, String> {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().map_err(|error| error.to_string())?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).trim_end().to_owned());
    }
    Err(format!(
        "{status}: {}",
        String::from_utf8_lossy(&stderr).trim_end()
    ))
}
