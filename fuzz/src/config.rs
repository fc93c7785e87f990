//! The filter's configuration and a pool's policy, as operators may write them.

use crate::is_same;
use admission::config::{Admit, FilterConfig, Mode};
use admission::inspect::{Inspected, demand, operation};
use admission::policy::{Policy, Strategy};

pub(crate) fn run(input: &[u8]) {
    match FilterConfig::parse(input) {
        Ok(config) => use_config(&config),
        Err(error) => assert!(
            error.to_string().contains("plugin configuration"),
            "{error}"
        ),
    }
    let Ok(policy) = serde_json::from_slice::<Policy>(input) else {
        return;
    };
    match policy.validate() {
        Ok(()) => use_policy(&policy),
        Err(error) => assert!(error.to_string().starts_with(error.field), "{error}"),
    }
}

/// What was accepted must be of use.
fn use_config(config: &FilterConfig) {
    assert!(config.watchdog_ms > 0 && config.ask_timeout_ms > 0);
    assert!(config.mode == Mode::Proxy || config.own.is_some());
    for path in config.paths.iter() {
        let request = Inspected {
            path: path.clone().into(),
            upgrade: Vec::new(),
        };
        assert_eq!(config.admit, Admit::Paths);
        assert_eq!(
            demand(config, &request),
            admission::inspect::Demand::Request
        );
    }
    for rule in &config.operations {
        let found = operation(config, rule.path.as_bytes());
        assert_eq!(found, Some(rule.operation), "{} is hidden", rule.path);
    }
}

/// What was accepted goes to Redis as JSON and comes back in a pool's view.
fn use_policy(policy: &Policy) {
    let written = serde_json::to_value(policy).expect("a policy is JSON");
    let again: Policy = serde_json::from_value(written.clone()).expect("a policy that was written");
    let rewritten = serde_json::to_value(&again).expect("a policy is JSON");
    assert!(is_same(&written, &rewritten), "{written} {rewritten}");
    assert_eq!(again.validate(), Ok(()));
    assert!(policy.strategy != Strategy::LifetimeFirst || policy.max_lifetime > 0);
}
