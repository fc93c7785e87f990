//! observability/: alerts are those of the runbook, and every figure that they and the dashboard name exists.

use harness::http::{self, Target};
use harness::{Fleet, paths};
use serde_json::Value;
use std::collections::BTreeSet;

/// Of Envoy itself; all others are the filter's or the sidecar's.
const ENVOYS_OWN: [&str; 1] = ["envoy_cluster_membership_healthy"];

fn read(file: &str) -> String {
    match std::fs::read_to_string(paths::top().join(file)) {
        Ok(text) => text,
        Err(error) => panic!("{file}: {error}"),
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alert {
    name: String,
    expression: String,
    /// In seconds.
    lasting: u32,
}

fn rules() -> Vec<Alert> {
    let rules: Value = serde_saphyr::from_str(&read("observability/alerts.yaml")).expect("YAML");
    let text = |rule: &Value, field: &str| rule[field].as_str().unwrap_or_default().to_owned();
    let rules = rules["groups"][0]["rules"].as_array().expect("rules");
    let alert = |rule: &Value| Alert {
        name: text(rule, "alert"),
        expression: text(rule, "expr"),
        lasting: seconds(&text(rule, "for")),
    };
    rules.iter().map(alert).collect()
}

/// `5s`, `1m`, `5 min`, and nothing or a dash for at once.
fn seconds(text: &str) -> u32 {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    let number = digits.parse().unwrap_or(0);
    let unit = text[digits.len()..].trim();
    number * if unit.starts_with('m') { 60 } else { 1 }
}

/// Rows of the runbook's table that have a name.
fn documented() -> Vec<Alert> {
    let runbook = read("docs/runbook.md");
    let rows = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("| Berth"));
    let alert = |row: &str| {
        let cells: Vec<&str> = row.split(" | ").collect();
        Alert {
            name: format!("Berth{}", cells[0]),
            expression: cells[1].trim_matches('`').to_owned(),
            lasting: seconds(cells[2]),
        }
    };
    rows.map(alert).collect()
}

#[test]
fn alerts_are_those_of_the_runbook() {
    let rules = rules();
    assert!(rules.len() > 20, "{}", rules.len());
    assert_eq!(rules, documented());
}

/// A command, a setting or a figure to look at: more than "look into it".
#[test]
fn the_runbook_says_what_to_type_for_each_alert() {
    let runbook = read("docs/runbook.md");
    let rows = runbook.lines().filter(|line| line.starts_with("| Berth"));
    for row in rows {
        let last = row.trim_end_matches(" |").rsplit(" | ").next();
        assert!(last.is_some_and(|cell| cell.contains('`')), "{row}");
    }
}

/// Names of metrics in the alerts and the dashboard, without what Prometheus adds.
fn named() -> BTreeSet<String> {
    let dashboard = read("observability/grafana/dashboards/berth.json");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array());
    let shown = targets
        .flatten()
        .filter_map(|target| target["expr"].as_str());
    let mut text: String = shown.collect::<Vec<_>>().join(" ");
    for rule in rules() {
        text = format!("{text} {}", rule.expression);
    }
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let ours = |word: &&str| {
        ["berth_", "websocket_", "envoy_"]
            .iter()
            .any(|it| word.starts_with(it))
    };
    // The values of labels are quoted, so only the clusters' names look alike.
    let of_labels = ["berth_sidecar", "envoy_cluster_name"];
    let names = words.filter(ours).filter(|word| !of_labels.contains(word));
    names.map(bare).collect()
}

fn bare(name: &str) -> String {
    let suffixes = ["_total", "_bucket", "_count", "_sum"];
    let stripped = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
    stripped.unwrap_or(name).to_owned()
}

/// What the sidecar registers: a figure that nobody has moved yet is not in its answer.
fn registered() -> BTreeSet<String> {
    let directory = "redis-sidecar/src/metrics";
    let files = ["../metrics.rs", "atomic.rs", "doors.rs", "pools.rs"];
    let mut names = BTreeSet::new();
    for file in files {
        let text = read(&format!("{directory}/{file}"));
        for call in text.split("register(").skip(1) {
            let argument = call.trim_start().strip_prefix('"');
            if let Some((name, _)) = argument.and_then(|rest| rest.split_once('"')) {
                // Most are registered below a prefix.
                names.extend([name.to_owned(), format!("berth_{name}")]);
            }
        }
    }
    names
}

#[tokio::test]
async fn every_figure_that_is_watched_exists() {
    let fleet = Fleet::new().up().await;
    let admin = Target::from(fleet.envoys[0].admin());
    let stats = http::get(&admin, "/stats/prometheus").await.unwrap();
    let stats = String::from_utf8_lossy(stats.body()).into_owned();
    let registered = registered();
    let exists = |name: &str| match name.strip_prefix("berth_filter_") {
        // As prometheus.yaml renames them.
        Some(name) => stats.contains(&format!("\nberth_{name}{{")),
        None if name.starts_with("envoy_") => {
            ENVOYS_OWN.contains(&name) && stats.contains(&format!("\n{name}{{"))
        }
        None => registered.contains(name),
    };
    let named = named();
    let missing: Vec<&String> = named.iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(named.len() > 30, "{named:?}");
}
