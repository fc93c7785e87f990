use super::{filter, page, policy, sidecar};
use crate::settings::Settings;
use admission::config::FilterConfig;
use admission::policy::Policy;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The names of a table of defaults, those of sections with their section.
fn names(defaults: &Value, prefix: &str, whole: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (name, value) in defaults.as_object().into_iter().flatten() {
        let name = format!("{prefix}{name}");
        if value.is_object() && !whole.contains(&name.as_str()) {
            found.extend(names(value, &format!("{name}."), whole));
        } else {
            found.insert(name);
        }
    }
    found
}

fn listed(settings: &[super::Setting]) -> BTreeSet<String> {
    settings.iter().map(|it| it.name.to_owned()).collect()
}

#[test]
fn every_setting_of_the_sidecar_is_on_the_page() {
    let files = json!({"filter_file": "f", "operator_file": "o", "metrics_file": "m"});
    let whole = Settings {
        tokens: serde_json::from_value(files).unwrap(),
        ..Settings::default()
    };
    let defaults = serde_json::to_value(whole).unwrap();
    assert_eq!(names(&defaults, "", &["pools"]), listed(sidecar::SETTINGS));
}

#[test]
fn every_setting_of_a_policy_is_on_the_page() {
    let whole = Policy {
        shadow_strategy: Some(admission::policy::Strategy::Sewt),
        requests: serde_json::from_value(json!({"rate": "1/s"})).unwrap(),
        client: serde_json::from_value(json!({"rate": "1/s"})).unwrap(),
        ..Policy::default()
    };
    let defaults = serde_json::to_value(whole).unwrap();
    let weights = ["score.query", "score.execute", "score.begin"];
    assert_eq!(names(&defaults, "", &weights), listed(policy::SETTINGS));
}

#[test]
fn every_setting_of_the_filter_is_on_the_page() {
    // Who is told of a setting that it does not know names those that it does.
    let error = FilterConfig::parse(br#"{"?": 1}"#).unwrap_err().to_string();
    let known = error.split("expected one of ").nth(1).unwrap();
    let known = known.split('`').skip(1).step_by(2).map(str::to_owned);
    assert_eq!(known.collect::<BTreeSet<_>>(), listed(filter::SETTINGS));
}

#[test]
fn the_filters_defaults_are_as_the_page_says() {
    let plain = FilterConfig::parse(br#"{"pool": "p"}"#).unwrap();
    for setting in filter::SETTINGS {
        let default = filter::default_of(setting.name);
        let Ok(value) = serde_json::from_str::<Value>(default.trim_matches('`')) else {
            assert_eq!(default, "–", "{}", setting.name);
            continue;
        };
        let config = json!({"pool": "p", setting.name: value}).to_string();
        let parsed = FilterConfig::parse(config.as_bytes());
        assert_eq!(parsed.as_ref(), Ok(&plain), "{}", setting.name);
    }
}

#[test]
fn the_page_in_docs_is_this_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md");
    let docs = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        docs == page(),
        "docs/settings.md is out of date: `make settings` writes it"
    );
}
