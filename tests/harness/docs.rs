//! The examples in docs/, so that what is shown is what is tested.

use crate::paths;
use serde_json::Value;

/// What an example is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Filter,
    Policy,
}

/// The settings of the filter that docs/limits.md shows under this name.
pub fn filter_example(name: &str) -> Value {
    match serde_json::from_str(&limits_example(name, "json")) {
        Ok(settings) => settings,
        Err(error) => panic!("the example {name} is not JSON: {error}"),
    }
}

/// The part of a policy that it shows.
pub fn policy_example(name: &str) -> Value {
    match toml::from_str(&limits_example(name, "toml")) {
        Ok(settings) => settings,
        Err(error) => panic!("the example {name} is not TOML: {error}"),
    }
}

fn limits_example(name: &str, language: &str) -> String {
    match block("docs/limits.md", name, language) {
        Some(block) => block,
        None => panic!("docs/limits.md has no example {name} in {language}"),
    }
}

/// The block of this language behind the comment `<!-- example: name -->`.
pub fn block(file: &str, name: &str, language: &str) -> Option<String> {
    let file = paths::top().join(file);
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => panic!("{}: {error}", file.display()),
    };
    let start = format!("<!-- example: {name} -->\n```{language}\n");
    let (_, rest) = text.split_once(&start)?;
    Some(rest.split_once("```")?.0.to_owned())
}
