//! `berth policy` and `berth explain`, as processes of their own that ask a sidecar.

use crate::support::{Pool, default_policy};
use admission::policy::{Policy, Strategy};
use redis_sidecar::{App, app};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};

const BUDGET: Duration = Duration::from_secs(10);

/// A pool behind a sidecar with two doors.
struct Sidecar {
    pool: Pool,
    address: SocketAddr,
    directory: tempfile::TempDir,
}

impl Sidecar {
    async fn start() -> Self {
        let pool = Pool::with(|_| {}).await;
        let directory = tempfile::tempdir().unwrap();
        let router = app(App::new(pool.store.clone(), BUDGET));
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let unix = UnixListener::bind(directory.path().join("berth.sock")).unwrap();
        let other = router.clone();
        tokio::spawn(async move { axum::serve(tcp, router).await });
        tokio::spawn(async move { axum::serve(unix, other).await });
        Self {
            pool,
            address,
            directory,
        }
    }

    fn socket(&self) -> String {
        let path = self.directory.path().join("berth.sock");
        format!("unix:{}", path.display())
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// `berth policy …` through the TCP door.
    async fn policy(&self, words: &[&str]) -> Ended {
        berth_at(&self.address.to_string(), words, "").await
    }

    async fn in_force(&self) -> Policy {
        self.pool.view().await.policy
    }
}

#[derive(Debug, PartialEq)]
struct Ended {
    status: Option<i32>,
    output: String,
    errors: String,
}

impl Ended {
    fn output(self) -> String {
        assert_eq!((self.status, &*self.errors), (Some(0), ""));
        self.output
    }

    /// The sentence of a command that failed.
    fn refusal(self) -> String {
        assert_eq!(
            (self.status, &*self.output),
            (Some(1), ""),
            "{}",
            self.errors
        );
        self.errors
    }
}

async fn berth_at(address: &str, words: &[&str], input: &str) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    command
        .arg("policy")
        .args(words)
        .env("BERTH_SIDECAR", address);
    run(command, input.to_owned()).await
}

async fn run(mut command: Command, input: String) -> Ended {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let run = move || {
        let mut child = command.spawn().unwrap();
        // One that reads no input may be gone already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    Ended {
        status: output.status.code(),
        output: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
    }
}

#[tokio::test]
async fn what_show_prints_set_reads_through_either_door() {
    let sidecar = Sidecar::start().await;
    for door in [sidecar.address.to_string(), sidecar.socket()] {
        let shown = berth_at(&door, &["show", "demo"], "").await.output();
        let policy: Policy = serde_json::from_str(&shown).unwrap();
        assert_eq!(policy, default_policy());
        let set = berth_at(&door, &["set", "demo", "-"], &shown).await;
        let line = "pool demo: policy version 1, strategy lifetime_first\n";
        assert_eq!(set.output(), line, "the same policy is no new one");
    }
}

#[tokio::test]
async fn a_file_is_the_whole_policy() {
    let sidecar = Sidecar::start().await;
    let toml = "strategy = \"sewt\"\nmax_concurrent = 5\n[sewt]\nalpha = 0.5\n";
    let toml = sidecar.file("policy.toml", toml);
    let set = sidecar.policy(&["set", "demo", &toml]).await;
    assert_eq!(set.output(), "pool demo: policy version 2, strategy sewt\n");
    let mut expected = Policy {
        strategy: Strategy::Sewt,
        max_concurrent: 5,
        ..Policy::default()
    };
    expected.sewt.alpha = 0.5;
    assert_eq!(sidecar.in_force().await, expected);
    let json = sidecar.file("policy.json", r#"{"strategy": "roundrobin"}"#);
    let set = sidecar.policy(&["set", "demo", &json]).await;
    let line = "pool demo: policy version 3, strategy round_robin\n";
    assert_eq!(set.output(), line);
    assert_eq!(sidecar.in_force().await.max_concurrent, 2);
}

#[tokio::test]
async fn named_settings_change_and_the_others_stay() {
    let sidecar = Sidecar::start().await;
    let set = sidecar.policy(&["set", "demo", "--strategy", "sewt"]).await;
    assert_eq!(set.output(), "pool demo: policy version 2, strategy sewt\n");
    let words = ["set", "demo", "--set", "max_concurrent=4"];
    let words = [&words[..], &["--set", "sewt.estimator=p95"]].concat();
    let set = sidecar.policy(&words).await;
    assert_eq!(set.output(), "pool demo: policy version 3, strategy sewt\n");
    let mut expected = Policy {
        strategy: Strategy::Sewt,
        max_concurrent: 4,
        ..default_policy()
    };
    expected.sewt.estimator = admission::policy::Estimator::P95;
    assert_eq!(sidecar.in_force().await, expected);
}

#[tokio::test]
async fn a_refusal_is_the_sidecars_own_sentence() {
    let sidecar = Sidecar::start().await;
    let missing = sidecar.directory.path().join("none").display().to_string();
    let broken = sidecar.file("broken.json", "{\"strategy\": }");
    let empty = sidecar.file("empty.toml", "");
    for (words, named) in [
        (&["show", "other"][..], "pool other is not known"),
        (
            &["set", "other", "--strategy", "sewt"],
            "pool other is not known",
        ),
        (
            &["set", "demo", "--strategy", "best"],
            "strategy: unknown variant `best`",
        ),
        (
            &["set", "demo", "--set", "max_concurent=4"],
            "unknown field `max_concurent`",
        ),
        (
            &["set", "demo", "--set", "max_concurrent=no"],
            "max_concurrent: invalid type",
        ),
        (
            &["set", "demo", "--set", "max_concurrent=0"],
            "max_concurrent must be",
        ),
        (
            &["set", "demo", "--set", "sewt.alpha=2"],
            "sewt.alpha must be",
        ),
        (
            &["set", "demo", "--set", "max_lifetime.x=2"],
            "max_lifetime has no parts",
        ),
        (&["set", "demo", &missing], "none: No such file"),
        (&["set", "demo", &broken], "broken.json: expected value"),
        (&["set", "demo", &empty], "empty.toml: names no setting"),
        (&["set", "demo", "-"], "standard input: names no setting"),
    ] {
        let refusal = sidecar.policy(words).await.refusal();
        assert!(refusal.starts_with("berth: "), "{words:?}: {refusal}");
        assert!(refusal.contains(named), "{words:?}: {refusal}");
    }
    assert_eq!(sidecar.pool.view().await.head.policy_version, 1);
}

#[tokio::test]
async fn whoever_does_not_answer_as_a_sidecar_is_named_with_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let nobody = format!("unix:{}/none.sock", directory.path().display());
    let refusal = berth_at(&nobody, &["show", "demo"], "").await.refusal();
    for part in [nobody.as_str(), "berth serve", "--sidecar", "BERTH_SIDECAR"] {
        assert!(refusal.contains(part), "{refusal}");
    }
    let stranger = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = stranger.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(stranger, axum::Router::new()).await });
    let refusal = berth_at(&address, &["show", "demo"], "").await.refusal();
    assert!(
        refusal.contains(&address) && refusal.contains("no sidecar"),
        "{refusal}"
    );
}

#[tokio::test]
async fn a_flag_wins_over_the_variable_and_misuse_is_told() {
    let sidecar = Sidecar::start().await;
    let flag = ["show", "demo", "--sidecar", &sidecar.socket()];
    berth_at("127.0.0.1:1", &flag, "").await.output();
    for (words, named) in [
        (&["set", "demo"][..], "FILE"),
        (
            &["set", "demo", "-", "--strategy", "sewt"],
            "cannot be used with",
        ),
        (&["show", "a pool"], "a pool name may contain only"),
        (
            &["show", "demo", "--sidecar", "nowhere"],
            "expected host:port",
        ),
    ] {
        let ended = sidecar.policy(words).await;
        assert_eq!(ended.status, Some(2), "{words:?}");
        assert!(ended.errors.contains(named), "{words:?}: {}", ended.errors);
    }
    let help = sidecar.policy(&["set", "--help"]).await.output();
    assert!(
        help.contains("berth policy set demo --strategy sewt"),
        "{help}"
    );
}

#[tokio::test]
async fn explain_tells_who_would_be_chosen_and_what_keeps_the_others_out() {
    let sidecar = Sidecar::start().await;
    for worker in ["w1", "w2"] {
        sidecar.pool.register(worker, "a").await;
    }
    let name = admission::id::WorkerId::parse("w2").unwrap();
    sidecar
        .pool
        .store
        .drain(&sidecar.pool.name, &name)
        .await
        .unwrap();
    let explain = async |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command
            .args(["explain", "demo", "--sidecar", &sidecar.socket()])
            .args(words);
        run(command, String::new()).await
    };
    let text = explain(&[]).await.output();
    assert_eq!(
        text,
        "pool demo, strategy lifetime_first: w1 would be chosen\n  \
         the highest lifetime below primary_below, or, if all are above, the highest of all; \
         then the fewest leases\n\
         worker  rank, lowest first  kept out by  inputs\n\
         w1                       0               active=0 lifetime=0 primary_below=50\n\
         w2                          draining     active=0 lifetime=0 primary_below=50\n"
    );
    let own = explain(&["--self", "w1"]).await.output();
    assert!(!own.contains("--self"), "{own}");
    let nobody = explain(&["--self", "w9"]).await.output();
    assert!(
        nobody.contains("--self w9 is no worker of this pool"),
        "{nobody}"
    );
    let json = explain(&["--json", "--operation", "begin"]).await.output();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["chosen"], "w1");
    let refused = explain(&["--operation", "drop"]).await;
    assert!(
        refused.errors.contains("query, execute or begin"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn leases_and_audit_tell_who_holds_what_and_fail_when_figures_are_off() {
    let sidecar = Sidecar::start().await;
    sidecar.pool.register("w1", "a").await;
    sidecar.pool.admit().await;
    let ask = async |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command
            .args(words)
            .args(["demo", "--sidecar", &sidecar.socket()]);
        run(command, String::new()).await
    };
    let table = ask(&["leases"]).await.output();
    let heading = table.lines().next().unwrap();
    assert!(heading.starts_with("holder "), "{table}");
    assert!(
        table.contains("envoy-1/") && table.contains("reserved"),
        "{table}"
    );
    let json = ask(&["leases", "--json"]).await.output();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["worker"], "w1");
    let audit = ask(&["audit"]).await.output();
    assert_eq!(
        audit,
        "pool demo: 1 leases, 1 workers, 1 holders\nall figures agree with the leases\n"
    );
    let gone = ["ZREM", "ws:{demo}:heartbeats", "w1"];
    sidecar.pool.redis.command(&gone).await;
    let audit = ask(&["audit"]).await;
    assert_eq!(audit.status, Some(1));
    assert!(audit.output.contains("heartbeats: off by 3"), "{audit:?}");
    assert_eq!(audit.errors, "berth: the kept figures are off by 3\n");
}

#[test]
fn whoever_has_read_enough_is_no_error() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ended = Command::new(env!("CARGO_BIN_EXE_berth"))
        .arg("openapi")
        .stdout(writer)
        .output()
        .expect("berth");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.is_empty(), "{said}");
}
