//! `berth check`: each rule with a bad example and a good one, in check/<rule>/.

use crate::support::Pool;
use redis_sidecar::check::{Given, Info, Report, Rule, page, rules};
use std::path::{Path, PathBuf};
use std::process::Command;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check")
}

fn top(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)
}

/// What is said about an Envoy file, a settings file and an answer of INFO, as far as each is there.
fn judged(directory: &Path, name: &str) -> Report {
    let file =
        |ending: &str| Some(directory.join(format!("{name}.{ending}"))).filter(|it| it.exists());
    let (envoy, config, info) = (file("yaml"), file("toml"), file("info"));
    assert!(
        envoy.is_some() || config.is_some() || info.is_some(),
        "{} has no example named {name}",
        directory.display()
    );
    let envoy: Vec<PathBuf> = envoy.into_iter().collect();
    let mut given = Given::read(&envoy, config.as_deref(), [].into_iter()).expect("files");
    let read = |info: PathBuf| {
        let text = std::fs::read_to_string(info).expect("an answer of INFO");
        Info::parse("redis", &text)
    };
    given.redis = info.map(read).into_iter().collect();
    given.judge()
}

#[test]
fn each_rule_finds_its_bad_example_and_nothing_in_its_good_one() {
    for Rule { id, severity, .. } in rules() {
        let directory = examples().join(id);
        let bad = judged(&directory, "bad");
        assert_eq!(bad.rules(), [*id], "{id}\n{bad}");
        let is_error = *severity == redis_sidecar::check::Severity::Error;
        assert_eq!(bad.is_refused(), is_error, "{id}");
        let good = judged(&directory, "good");
        assert!(good.rules().is_empty(), "{id}\n{good}");
    }
}

/// What Envoy understands too.
#[test]
fn other_spellings_are_found_as_well() {
    const RELOAD: &str = "failure_policy: FAIL_RELOAD";
    const ROUTE: &str = "cluster: berth_workers, timeout: 0s";
    const TIMEOUT: &str = "connect_timeout: 0.5s";
    let directory = tempfile::tempdir().expect("a directory");
    for (part, spelled, rules) in [
        (RELOAD, "fail_open: true", &["fail-open"][..]),
        (RELOAD, "failure_policy: 3", &["fail-open"]),
        (RELOAD, "failurePolicy: FAIL_OPEN", &["fail-open"]),
        (RELOAD, "failure_policy: FAIL_CLOSED", &["no-reload"]),
        (RELOAD, "failurePolicy: FAIL_RELOAD", &[]),
        (
            "protobuf.StringValue",
            "protobuf.Struct",
            &["plugin-configuration"],
        ),
        ("idle_timeout: 0s", "idle_timeout: 60s", &["idle-timeout"]),
        (TIMEOUT, "connectTimeout: 0.999s", &[]),
        (TIMEOUT, "connectTimeout: 1s", &["worker-timeout"]),
        (TIMEOUT, "alt_stat_name: workers", &["worker-timeout"]),
        (
            ROUTE,
            "cluster: berth_workers, idle_timeout: 1s",
            &["idle-timeout"],
        ),
        (
            ROUTE,
            "cluster: berth_workers, retry_policy: {retry_on: reset}",
            &["retries"],
        ),
        (
            ROUTE,
            "cluster: berth_workers, retry_policy: {retry_on: reset, num_retries: 0}",
            &[],
        ),
        (
            ROUTE,
            "weighted_clusters: {clusters: [{name: berth_workers, weight: 1}]}",
            &[],
        ),
        (
            ROUTE,
            "cluster: berth_workers, request_mirror_policies: [{cluster: berth_workers}]",
            &["bypass"],
        ),
        ("{cluster: passthrough}", "{cluster: berth_workers}", &[]),
        ("{cluster: passthrough}", "{cluster_header: x-cluster}", &[]),
        (
            ROUTE,
            "cluster: berth_workers, request_mirror_policies: [{cluster_header: x-copy}]",
            &["bypass"],
        ),
        (
            "value: '{",
            "value: '{\"proxy_id\": \"a b\", ",
            &["plugin-configuration"],
        ),
    ] {
        let text = std::fs::read_to_string(examples().join("fail-open/good.yaml")).expect("a file");
        assert!(text.contains(part), "{part}");
        let file = directory.path().join("envoy.yaml");
        std::fs::write(&file, text.replacen(part, spelled, 1)).expect("written");
        let report = judged(directory.path(), "envoy");
        assert_eq!(report.rules(), rules, "{spelled}\n{report}");
    }
}

/// Every way to the workers that is not the filter's.
#[test]
fn side_doors_of_any_make_are_found() {
    const DOOR: &str = "{cluster: berth_workers}";
    const PROXY: &str =
        "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("envoy.yaml");
    let text = std::fs::read_to_string(examples().join("bypass/bad.yaml")).expect("a file");
    let whole: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
    for route in [
        "{cluster_header: x-cluster}",
        "{weighted_clusters: {clusters: [{cluster_header: x-cluster, weight: 1}]}}",
        "{cluster: passthrough, request_mirror_policies: [{cluster_header: x-copy}]}",
    ] {
        assert!(text.contains(DOOR));
        std::fs::write(&file, text.replacen(DOOR, route, 1)).expect("written");
        let report = judged(directory.path(), "envoy");
        assert_eq!(report.rules(), ["bypass"], "{route}\n{report}");
    }
    for (cluster, rules) in [("berth_workers", &["bypass"][..]), ("passthrough", &[])] {
        let mut changed = whole.clone();
        let clusters = serde_json::json!([{"name": "passthrough", "weight": 1}, {"name": cluster, "weight": 1}]);
        changed["static_resources"]["listeners"][1]["filter_chains"][0]["filters"][0] = serde_json::json!({
            "name": "envoy.filters.network.tcp_proxy",
            "typed_config": {"@type": PROXY, "stat_prefix": "side-door", "weighted_clusters": {"clusters": clusters}},
        });
        std::fs::write(&file, changed.to_string()).expect("written");
        let report = judged(directory.path(), "envoy");
        assert_eq!(report.rules(), rules, "{cluster}\n{report}");
    }
}

#[test]
fn every_example_belongs_to_a_rule() {
    let known: Vec<&str> = rules().map(|rule| rule.id).collect();
    for directory in std::fs::read_dir(examples()).expect("examples").flatten() {
        let name = directory.file_name().into_string().expect("a name");
        assert!(known.contains(&name.as_str()), "{name} is no rule");
    }
    let mut unique = known.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), known.len(), "two rules have one name");
}

#[test]
fn what_is_shipped_is_fine() {
    let config = top("redis-sidecar/berth.toml");
    for file in ["envoy.yaml", "stateful-session.yaml", "lua-filter.yaml"] {
        let envoy = [top("envoy").join(file)];
        let given = Given::read(&envoy, Some(&config), [].into_iter()).expect("shipped files");
        let report = given.judge();
        assert!(report.rules().is_empty(), "{file}\n{report}");
    }
}

#[test]
fn the_page_in_docs_is_this_one() {
    let docs = std::fs::read_to_string(top("docs/check.md")).unwrap_or_default();
    assert!(
        docs == page(),
        "docs/check.md is out of date: `make settings` writes it"
    );
}

/// Whatever is left out or turned into something else, the answer is a report.
#[test]
fn no_shape_of_a_file_is_too_odd() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = std::fs::read_to_string(top("envoy/stateful-session.yaml")).expect("a file");
    let whole: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
    let mut tried = 0;
    for pointer in pointers(&whole, String::new()) {
        for odd in ["null", "7", "\"\"", "[[]]", "{}"] {
            let mut changed = whole.clone();
            *changed.pointer_mut(&pointer).expect("a value") =
                serde_json::from_str(odd).expect("JSON");
            std::fs::write(file.path(), changed.to_string()).expect("written");
            let envoy = [file.path().to_owned()];
            let given = Given::read(&envoy, None, [].into_iter()).expect("JSON is YAML");
            assert!(!given.judge().to_string().is_empty());
            tried += 1;
        }
    }
    assert!(tried > 500, "{tried}");
}

fn pointers(value: &serde_json::Value, at: String) -> Vec<String> {
    let mut found = Vec::new();
    let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
    for (name, below) in value.as_object().into_iter().flatten() {
        found.extend(pointers(below, format!("{at}/{}", escaped(name))));
    }
    for (index, below) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(pointers(below, format!("{at}/{index}")));
    }
    found.push(at);
    found
}

#[test]
fn listeners_clusters_and_routes_may_be_in_files_of_their_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = std::fs::read_to_string(examples().join("bypass/bad.yaml")).expect("a file");
    let whole: serde_json::Value = serde_saphyr::from_str(&text).expect("YAML");
    let mut envoy = Vec::new();
    for part in ["listeners", "clusters"] {
        let resources = serde_json::json!({"resources": whole["static_resources"][part]});
        envoy.push(directory.path().join(part));
        std::fs::write(directory.path().join(part), resources.to_string()).expect("written");
    }
    let given = Given::read(&envoy, None, [].into_iter()).expect("files");
    assert_eq!(given.judge().rules(), ["bypass"]);
}

/// Its exit code, and what it printed.
fn berth(words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
    let ended = command.arg("check").args(words).output().expect("berth");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

fn path(file: PathBuf) -> String {
    file.display().to_string()
}

#[tokio::test]
async fn a_redis_that_evicts_is_refused() {
    let pool = Pool::with(|_| {}).await;
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("berth.toml");
    let text = format!("[redis]\nurl = {:?}\n[pools.demo]\n", pool.redis.url());
    std::fs::write(&config, text).expect("written");
    let envoy = path(top("envoy/envoy.yaml"));
    let words = ["--envoy", &envoy, "--config", &path(config), "-o", "json"];

    let (status, report, errors) = berth(&words);
    assert_eq!((status, &*errors), (Some(0), ""), "{report}");
    assert!(report.contains("maxmemory-policy noeviction"), "{report}");
    assert!(report.contains("\"not_judged\": []"), "{report}");

    let evict = ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"];
    pool.redis.command(&evict).await;
    let (status, report, _) = berth(&words);
    assert_eq!(status, Some(5));
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(
        (&report["errors"], &report["findings"][0]["rule"]),
        (&1.into(), &"eviction".into())
    );
}

/// A pool may be made by an operator: the file need not name it.
#[tokio::test]
async fn a_pool_that_is_in_redis_is_known() {
    let pool = Pool::with(|_| {}).await;
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("berth.toml");
    std::fs::write(&config, format!("redis.url = {:?}\n", pool.redis.url())).expect("written");
    let envoy = path(top("envoy/envoy.yaml"));
    let words = ["--envoy", &envoy, "--config", &path(config)];
    let (status, report, _) = berth(&words);
    assert_eq!(status, Some(0), "{report}");
    let (status, report, _) = berth(&[&words[..], &["--offline"]].concat());
    assert_eq!(status, Some(5), "{report}");
    assert!(report.contains("unknown-pool"), "{report}");
}

#[test]
fn exit_codes_say_what_it_was() {
    let bad = path(examples().join("fail-open/bad.yaml"));
    let (status, report, _) = berth(&["--envoy", &bad, "--offline"]);
    assert_eq!(status, Some(5));
    assert!(report.contains("failure_policy is FAIL_OPEN"), "{report}");
    assert!(
        report.ends_with("refused: 1 errors, 0 warnings\n"),
        "{report}"
    );

    let nobody = tempfile::tempdir().expect("a directory");
    let config = nobody.path().join("berth.toml");
    let url = format!(
        "redis.url = \"redis+unix://{}/redis.sock\"\n",
        nobody.path().display()
    );
    std::fs::write(&config, url).expect("written");
    let (status, report, errors) = berth(&["--config", &path(config)]);
    assert_eq!(status, Some(4));
    let verdict = "not judged: Envoy: name its files by --envoy\nnot judged: Redis: it cannot be asked\n\
                   fine as far as it was judged: 0 errors, 0 warnings\n";
    assert!(report.ends_with(verdict), "{report}");
    assert!(errors.contains("--offline"), "{errors}");

    for words in [&["--envoy", "/nowhere.yaml", "--offline"][..], &["--wrong"]] {
        assert_eq!(berth(words).0, Some(2), "{words:?}");
    }
    let torn = nobody.path().join("torn.yaml");
    std::fs::write(&torn, "a: [").expect("written");
    let (status, _, errors) = berth(&["--envoy", &path(torn), "--offline"]);
    assert_eq!(status, Some(2));
    assert!(errors.contains("neither YAML nor JSON"), "{errors}");
}
