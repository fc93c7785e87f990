//! Whether Envoy would start with a configuration, without starting it.

use crate::paths;
use serde_json::{Value, json};
use std::process::Command;

/// The shipped filter is where this build left it, whatever path the configuration has.
///
/// # Errors
/// What Envoy said, if it refuses.
pub fn validate(config: &Value) -> Result<(), String> {
    let mut config = config.clone();
    replace(
        &mut config,
        &json!(paths::shipped_filter_wasm()),
        &json!(paths::filter_wasm()),
    );
    let file = tempfile::Builder::new().suffix(".json").tempfile();
    let file = file.map_err(|error| error.to_string())?;
    super::write(file.path(), &config);
    let ended = Command::new(paths::envoy())
        .args([
            "--mode",
            "validate",
            "--log-level",
            "error",
            "--disable-hot-restart",
        ])
        .arg("--config-path")
        .arg(file.path())
        .output()
        .map_err(|error| error.to_string())?;
    if ended.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&ended.stderr).into_owned())
}

fn replace(value: &mut Value, old: &Value, new: &Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, old, new)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| replace(field, old, new)),
        Value::String(_) if *value == *old => *value = new.clone(),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
