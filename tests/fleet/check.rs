//! What `berth check` refuses, Envoy accepts: that is the point of it.

use futures_util::{StreamExt, stream};
use harness::envoy::validate;
use harness::paths;
use serde_json::Value;
use std::collections::BTreeMap;

/// What Envoy refuses itself, at least in the build that is tested with: the filter refuses its
/// configuration, and there is no runtime but V8.
const REFUSED: [&str; 2] = ["plugin-configuration/bad.yaml", "runtime/bad.yaml"];

/// At a time; each takes a core for half a second.
const AT_ONCE: usize = 2;

/// Every example for Envoy by its name; of those with the same text only one.
fn examples() -> BTreeMap<String, Value> {
    let directory = paths::top().join("redis-sidecar/tests/check");
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for rule in std::fs::read_dir(directory).expect("examples").flatten() {
        for kind in ["bad.yaml", "good.yaml"] {
            let name = format!("{}/{kind}", rule.file_name().to_string_lossy());
            if let Ok(text) = std::fs::read_to_string(rule.path().join(kind)) {
                texts.entry(text).or_insert(name);
            }
        }
    }
    let parsed = texts.into_iter().map(|(text, name)| {
        let value = serde_saphyr::from_str(&text).expect("YAML");
        (name, value)
    });
    parsed.collect()
}

#[tokio::test]
async fn envoy_accepts_every_example_the_bad_ones_too() {
    let examples = examples();
    assert!(examples.len() > 40, "{}", examples.len());
    let tries = examples.into_iter().map(|(name, config)| async {
        let tried = tokio::task::spawn_blocking(move || validate(&config)).await;
        (name, tried.expect("no panic"))
    });
    let tried: Vec<_> = stream::iter(tries)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    for (name, accepted) in tried {
        let expected = !REFUSED.contains(&name.as_str());
        assert_eq!(accepted.is_ok(), expected, "{name}: {accepted:?}");
    }
}
