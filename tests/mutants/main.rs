//! Shows that the tests bite: in a copy of the tree, removes one guard at a time, and expects the test that is
//! there for it to fail.
//!
//! `make mutants`
//!
//! The guards are in the tables beside this file: core.toml has those of the core, counters.toml those against
//! the threats of SECURITY.md. (The scripts' other guards are removed by redis-sidecar/tests/mutants.rs, without
//! a build.) Ends with the line "N guards, N missed".

mod bench;
mod guard;
mod suite;
mod tree;

use bench::{Bench, Outcome};
use clap::Parser;
use guard::{Extent, Guard};
use harness::paths;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;
use tree::Tree;

#[derive(Debug, Parser)]
struct Options {
    /// Only guards whose name, file or test has this in it.
    #[arg(long, default_value = "")]
    only: String,
    /// Of the counters to each threat only the first.
    #[arg(long)]
    sample: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("mutants: {reason}");
            ExitCode::from(2)
        }
    }
}

/// How many guards can be removed without their test's noticing. Fails where nothing can be said: a guard that
/// is not there, a mutant that does not compile, a test that fails without any.
#[expect(clippy::print_stdout, reason = "the list is what this program is for")]
fn run(options: &Options) -> Result<usize, String> {
    let extent = match options.sample {
        true => Extent::First,
        false => Extent::All,
    };
    let mut guards = guard::read(&paths::top().join("tests/mutants"), extent)?;
    guards.retain(|guard| guard.mentions(&options.only));
    if guards.is_empty() {
        return Err(format!("no guard mentions {:?}", options.only));
    }
    let directory = paths::target().join("mutants");
    let tree = Tree::copy(&paths::top(), directory.join("tree"))?;
    let mutants = mutants(&guards, &tree)?;

    let started = Instant::now();
    let tests: BTreeSet<&str> = guards.iter().map(|guard| guard.test.as_str()).collect();
    let bench = Bench::set_up(&tree, &directory, &tests)?;
    println!("built in {} s", started.elapsed().as_secs());
    bench.expect_to_pass()?;
    println!("{} tests pass on the tree as it is; without", tests.len());

    let mut missed = 0;
    for (guard, mutant) in guards.iter().zip(mutants) {
        let started = Instant::now();
        let changed = tree.change(&guard.file, &mutant)?;
        let tried = bench
            .build_for(&guard.test)
            .and_then(|()| bench.run(&guard.test));
        changed.undo()?;
        let outcome = tried.map_err(|reason| format!("{}: {reason}", guard.name))?;
        let (verdict, how) = match outcome {
            Outcome::Failed(line) => ("caught", line),
            Outcome::Passed => ("missed", "it passes".to_owned()),
            Outcome::Hung => ("missed", "it does not end".to_owned()),
        };
        missed += usize::from(verdict == "missed");
        let (name, test, seconds) = (&guard.name, &guard.test, started.elapsed().as_secs());
        println!("  {verdict}  {name}: {test}, {how} ({seconds} s)");
    }
    println!("\n{} guards, {missed} missed", guards.len());
    Ok(missed)
}

/// All of them before anything is built: a table that no longer fits is told at once.
fn mutants(guards: &[Guard], tree: &Tree) -> Result<Vec<String>, String> {
    let mutant = |guard: &Guard| guard.removed_from(&tree.read(&guard.file)?);
    guards.iter().map(mutant).collect()
}
