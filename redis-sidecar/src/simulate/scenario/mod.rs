//! The built-in scenarios. Each tries what the documents that Berth's strategies come from promise,
//! and prints the promise beside the figure.

mod heterogeneous;
mod homogeneous;
mod karma;
mod newcomer;
mod sawtooth;
mod slowdown;
mod timeline;

use super::report::Report;
use super::{Setup, SimulateError};

type Run = fn(&Setup) -> Result<Report, SimulateError>;

struct Scenario {
    name: &'static str,
    about: &'static str,
    run: Run,
}

const ALL: [Scenario; 7] = [
    Scenario {
        name: "heterogeneous",
        about: "workers of 5, 10, 50 and 100 ms, 1 to 32 clients",
        run: heterogeneous::run,
    },
    Scenario {
        name: "homogeneous-5",
        about: "four workers of 20 ms ±5 %, 1 to 32 clients",
        run: |setup| homogeneous::run(setup, 5.0),
    },
    Scenario {
        name: "homogeneous-15",
        about: "four workers of 20 ms ±15 %, 1 to 32 clients",
        run: |setup| homogeneous::run(setup, 15.0),
    },
    Scenario {
        name: "slowdown",
        about: "one of four workers of 20 ms slows down to 200 ms at half time",
        run: slowdown::run,
    },
    Scenario {
        name: "newcomer",
        about: "a fifth worker of 20 ms joins four at half time",
        run: newcomer::run,
    },
    Scenario {
        name: "sawtooth",
        about: "four workers that restart after 20 sessions each: fast, as usual, and slow",
        run: sawtooth::run,
    },
    Scenario {
        name: "karma",
        about: "nodeads on workers of 10, 5, 30 and 3 ms, over eleven periods",
        run: karma::run,
    },
];

pub(super) fn list() -> String {
    let line = |scenario: &Scenario| format!("{:<15} {}\n", scenario.name, scenario.about);
    ALL.iter().map(line).collect()
}

pub(super) fn find(name: &str) -> Result<Run, SimulateError> {
    let found = ALL.iter().find(|scenario| scenario.name == name);
    found
        .map(|scenario| scenario.run)
        .ok_or_else(|| SimulateError::Scenario(name.to_owned()))
}
