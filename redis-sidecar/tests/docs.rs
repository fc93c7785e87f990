//! What the documents name is there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn document(name: &str) -> String {
    let path = top().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file with this ending below a directory, as one text.
fn sources(directory: &Path, ending: &str) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            text += &sources(&path, ending);
        } else if path.extension().is_some_and(|found| found == ending) {
            text += &std::fs::read_to_string(&path).unwrap_or_default();
        }
    }
    text
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !text.is_empty() && text.chars().all(allowed)
}

/// Without what OpenMetrics puts behind a name.
fn bare(metric: &str) -> String {
    let endings = ["_total", "_bucket", "_count", "_sum"];
    let ending = endings.iter().find(|ending| metric.ends_with(**ending));
    metric[..metric.len() - ending.map_or(0, |ending| ending.len())].to_owned()
}

/// `register("name", …)`, wherever the sidecar makes a metric.
fn exported() -> BTreeSet<String> {
    let metrics = top().join("redis-sidecar/src");
    let text = document("redis-sidecar/src/metrics.rs") + &sources(&metrics.join("metrics"), "rs");
    let names = text.split("register(").skip(1).filter_map(|rest| {
        let name = rest.trim_start().strip_prefix('"')?.split('"').next()?;
        is_word(name).then_some(name)
    });
    names
        .map(
            |name| match name.starts_with("berth_") || name.starts_with("websocket_") {
                true => bare(name),
                false => bare(&format!("berth_{name}")),
            },
        )
        .collect()
}

#[test]
fn the_runbook_names_every_metric_and_no_other() {
    let runbook = document("docs/runbook.md");
    // `berth_denials_total{reason}` and `rate(berth_denials_total[5m])` name the metric, too.
    let words =
        quoted(&runbook).flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let named: BTreeSet<String> = words
        .filter(|word| word.starts_with("berth_") || word.starts_with("websocket_"))
        // The filter's own, and the words both kinds begin with: tests/fleet/observability.rs knows those.
        .filter(|word| !word.starts_with("berth_filter_") && *word != "berth_")
        .map(bare)
        .collect();
    assert!(!named.is_empty());
    assert_eq!(named, exported());
}

#[test]
fn the_runbook_names_every_figure_of_the_filter() {
    let runbook = document("docs/runbook.md");
    let source = document("filter/src/metrics.rs");
    let names = source.split("\"berth.").skip(1);
    let names: Vec<&str> = names
        .filter_map(|rest| rest.split(['"', '{']).next())
        .collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        let name = name.trim_end_matches('.');
        let told =
            quoted(&runbook).any(|text| text == name || text.starts_with(&format!("{name}.")));
        assert!(told, "docs/runbook.md does not name {name}");
    }
}

/// A test's name has at least two underscores; nothing else in the page does.
#[test]
fn every_test_that_security_names_exists() {
    let page = document("SECURITY.md");
    let tests = quoted(&page).filter(|text| is_word(text) && text.matches('_').count() >= 2);
    let tests: BTreeSet<&str> = tests.collect();
    assert!(tests.len() > 10, "{tests:?}");
    let code = ["admission", "fuzz", "redis-sidecar", "tests"];
    let code: String = code.map(|name| sources(&top().join(name), "rs")).concat();
    for test in tests {
        assert!(
            code.contains(&format!("fn {test}(")),
            "SECURITY.md names {test}"
        );
    }
}

/// The threats of SECURITY.md and the counters that `make mutants` removes, row by row.
#[test]
fn every_threat_has_a_counter_that_is_removed_on_trial() {
    let page = document("SECURITY.md");
    let table: toml::Table = document("tests/mutants/counters.toml")
        .parse()
        .expect("TOML");
    let mut threats = table["threat"].as_array().expect("a list").iter();
    let rows = page.lines().filter(|line| line.starts_with("| "));
    for row in rows.skip(1) {
        let attack = row.split('|').nth(2).map(str::trim);
        let threat = threats.next().expect("as many as there are rows");
        assert_eq!(threat["attack"].as_str(), attack);
        let tests: BTreeSet<&str> = quoted(row).collect();
        let counters = threat["guard"].as_array().expect("at least one");
        for counter in counters {
            let text = |field: &str| counter[field].as_str().expect("text");
            assert!(tests.contains(text("test")), "{attack:?}: {}", text("test"));
            let found = document(text("file")).matches(text("with")).count();
            assert_eq!(
                found,
                1,
                "{} must have this once: {}",
                text("file"),
                text("with")
            );
        }
    }
    assert!(threats.next().is_none(), "more than there are rows");
}

#[test]
fn every_file_that_the_documents_link_to_exists() {
    for (name, directory) in [("SECURITY.md", ""), ("docs/runbook.md", "docs")] {
        let page = document(name);
        for link in page
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', '#']).next())
        {
            let outside = link.contains("://") || link.is_empty();
            let path = top().join(directory).join(link);
            assert!(outside || path.exists(), "{name} links to {link}");
        }
    }
}
