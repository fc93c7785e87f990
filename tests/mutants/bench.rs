//! Builds what a test needs in the copy, and runs the test there.

use crate::suite::{SUITES, Sees, Suite};
use crate::tree::Tree;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longer than any of the tests takes on a busy machine, with all its own deadlines.
const TEST_MAX: Duration = Duration::from_secs(240);
/// What libtest ends with when a test failed. A test that dies of a signal says nothing.
const TEST_FAILED: i32 = 101;

/// Everything is built again and again, and what takes long in a release is not what is tried here.
const QUICKLY: [(&str, &str); 6] = [
    ("CARGO_TERM_COLOR", "never"),
    ("CARGO_INCREMENTAL", "1"),
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ("CARGO_PROFILE_FILTER_LTO", "off"),
    ("CARGO_PROFILE_FILTER_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_FILTER_CODEGEN_UNITS", "16"),
];

/// A test, in a program that was built from the tree as it is.
#[derive(Debug)]
struct Test {
    suite: &'static Suite,
    program: PathBuf,
    /// Its name with the modules that it is in.
    path: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// With the line of the assertion that did not hold.
    Failed(String),
    /// It was still running when nobody waits any more.
    Hung,
}

#[derive(Debug)]
pub(crate) struct Bench<'a> {
    tree: &'a Tree,
    target: PathBuf,
    log: PathBuf,
    /// By name.
    tests: BTreeMap<String, Test>,
}

impl<'a> Bench<'a> {
    /// Builds what these tests need.
    pub(crate) fn set_up(
        tree: &'a Tree,
        directory: &Path,
        names: &BTreeSet<&str>,
    ) -> Result<Self, String> {
        let mut bench = Self {
            tree,
            target: directory.join("target"),
            log: directory.join("log"),
            tests: BTreeMap::new(),
        };
        for suite in &SUITES {
            let sources = tree.sources(&Path::new(suite.directory).join(suite.sources))?;
            let is_there = |name: &&&str| sources.contains(&format!("fn {name}("));
            let wanted: Vec<&str> = names.iter().filter(is_there).copied().collect();
            if wanted.is_empty() {
                continue;
            }
            bench.build(suite)?;
            let program = bench.build_suite(suite)?;
            let paths = listed(&program)?;
            for name in wanted {
                let is_it = |path: &&String| path.rsplit("::").next() == Some(name);
                let path = paths.iter().find(is_it);
                let path = path.ok_or_else(|| format!("{} has no test {name}", suite.name))?;
                let test = Test {
                    suite,
                    program: program.clone(),
                    path: path.clone(),
                };
                bench.tests.insert(name.to_owned(), test);
            }
        }
        Ok(bench)
    }

    /// All of one program at the same time.
    pub(crate) fn expect_to_pass(&self) -> Result<(), String> {
        let mut by_program: BTreeMap<&Path, Vec<&Test>> = BTreeMap::new();
        for test in self.tests.values() {
            by_program.entry(&test.program).or_default().push(test);
        }
        for tests in by_program.values() {
            if self.run_all(tests)? != Outcome::Passed {
                return Err(self.told("a test fails without any mutant"));
            }
        }
        Ok(())
    }

    /// What must be built before this test can see a mutant.
    pub(crate) fn build_for(&self, test: &str) -> Result<(), String> {
        self.build(self.find(test)?.suite)
    }

    fn build(&self, suite: &Suite) -> Result<(), String> {
        match suite.sees {
            Sees::Built => self.build_suite(suite).map(|_| ()),
            Sees::Started => self.build_programs(),
        }
    }

    pub(crate) fn run(&self, test: &str) -> Result<Outcome, String> {
        self.run_all(&[self.find(test)?])
    }

    fn find(&self, test: &str) -> Result<&Test, String> {
        let found = self.tests.get(test);
        found.ok_or_else(|| format!("there is no test {test}"))
    }

    fn build_programs(&self) -> Result<(), String> {
        self.cargo("build --bin berth --bin demo-worker")?;
        let filter = "build --profile filter -p filter --target wasm32-wasip1";
        self.cargo(filter).map(|_| ())
    }

    /// Returns the program.
    fn build_suite(&self, suite: &Suite) -> Result<PathBuf, String> {
        let (package, target) = (suite.package, suite.target());
        let words = format!("test --no-run --message-format=json -p {package} {target}");
        let told = self.cargo(&words)?;
        let lines = told.lines();
        let built = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut built = built.filter(|it| it["target"]["name"] == suite.name);
        let program = built.find_map(|it| Some(it["executable"].as_str()?.into()));
        program.ok_or_else(|| format!("cargo built no test program {}", suite.name))
    }

    /// What it writes to its standard output.
    fn cargo(&self, words: &str) -> Result<String, String> {
        let mut command = Command::new("cargo");
        let words = words.split(' ').chain(["--quiet", "--locked"]);
        command.args(words).current_dir(&self.tree.top);
        command.env("CARGO_TARGET_DIR", &self.target).envs(QUICKLY);
        let log = File::create(&self.log).map_err(|error| error.to_string())?;
        let output = command.stderr(log).output();
        let output = output.map_err(|error| format!("cargo: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(self.told("does not compile")),
        }
    }

    /// Of one program.
    fn run_all(&self, tests: &[&Test]) -> Result<Outcome, String> {
        let Some(Test { suite, program, .. }) = tests.first() else {
            return Ok(Outcome::Passed);
        };
        let log = || File::options().create(true).append(true).open(&self.log);
        let (out, err) = match (log(), log()) {
            (Ok(out), Ok(err)) => (out, err),
            (Err(error), _) | (_, Err(error)) => return Err(error.to_string()),
        };
        let mut command = Command::new(program);
        command
            .arg("--exact")
            .args(tests.iter().map(|test| &test.path));
        command.current_dir(self.tree.top.join(suite.directory));
        command.env("BERTH_BIN_DIR", self.target.join("debug"));
        let filter = "wasm32-wasip1/filter/filter.wasm";
        command.env("BERTH_FILTER_WASM", self.target.join(filter));
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let mut child = command
            .spawn()
            .map_err(|error| format!("{}: {error}", suite.name))?;
        match ended(&mut child) {
            None => Ok(Outcome::Hung),
            Some(status) if status.success() => Ok(Outcome::Passed),
            Some(status) if status.code() == Some(TEST_FAILED) => {
                self.panicked_at().map(Outcome::Failed)
            }
            Some(status) => Err(self.told(&format!("{} ended with {status}", suite.name))),
        }
    }

    fn panicked_at(&self) -> Result<String, String> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let line = log
            .split_once(" panicked at ")
            .and_then(|(_, rest)| rest.lines().next());
        let line = line.map(|line| line.trim_end_matches(':').to_owned());
        line.ok_or_else(|| self.told("a test failed without a word"))
    }

    /// With the end of the log.
    fn told(&self, what: &str) -> String {
        const LINES: usize = 40;
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LINES)..].join("\n");
        format!("{what}\n{tail}")
    }
}

fn listed(program: &Path) -> Result<Vec<String>, String> {
    let output = Command::new(program)
        .args(["--list", "--format=terse"])
        .output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tests = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(tests.map(str::to_owned).collect())
}

/// Whoever takes too long is killed, and so are the processes that it started.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing else runs here, and the standard library waits for a child without a deadline only"
)]
fn ended(child: &mut Child) -> Option<ExitStatus> {
    const PAUSE: Duration = Duration::from_millis(20);
    let end = Instant::now() + TEST_MAX;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}
