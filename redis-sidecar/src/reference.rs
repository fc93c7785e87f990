//! Every setting on one page: `berth settings` writes docs/settings.md. Defaults are those of the code;
//! tests hold that each setting is here and nothing else is.

mod filter;
mod policy;
mod sidecar;

use admission::policy::Policy;
use serde_json::Value;
use std::fmt::Write as _;

/// One setting, as the page shows it.
#[derive(Debug, Clone, Copy)]
struct Setting {
    /// With its sections: `requests.rate`.
    name: &'static str,
    /// What it may be, with its unit.
    range: &'static str,
    example: &'static str,
    meaning: &'static str,
}

/// `name range example meaning`, line by line.
macro_rules! settings {
    ($($name:literal, $range:literal, $example:literal, $meaning:literal;)+) => {
        &[$(super::Setting {
            name: $name,
            range: $range,
            example: $example,
            meaning: $meaning,
        }),+]
    };
}
use settings;

const INTRODUCTION: &str = "\
# Settings

<!-- Written by `berth settings`; `make test` fails when it is out of date. -->

There are two places. **`berth.toml`** is the sidecar's file: the sidecar's own settings, and the
policy of each pool. A policy lives in Redis and can be changed while the pool is in service
(`berth policy set`). The **plugin configuration** in Envoy's file is JSON for the filter: what to look
at in a request. Limits are not in it, because Envoy drains a listener that changes.

Every setting has a default and may be left out, except the filter's `pool`. Unknown settings and
values out of range are refused by name. Settings of `berth.toml` can be given as variables, which
win: `BERTH__REDIS__URL` is `redis.url`, `BERTH__POOLS__DEMO__MAX_CONCURRENT` is a pool's limit.
Times end in their unit (`_ms`, `_s`).
";

/// The whole page.
pub fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    let sidecar = serde_json::to_value(crate::settings::Settings::default()).unwrap_or_default();
    section(
        &mut page,
        "The sidecar",
        "At the top of `berth.toml`.",
        sidecar::SETTINGS,
        &|name| default_in(&sidecar, name),
    );
    let policy = serde_json::to_value(Policy::default()).unwrap_or_default();
    section(
        &mut page,
        "A pool's policy",
        "In `[pools.<name>]` of `berth.toml`, and in `PUT /v1/pools/<name>/policy`. A name with a dot \
         is in a section of its own: `[pools.<name>.requests]`.",
        policy::SETTINGS,
        &|name| default_in(&policy, name),
    );
    section(
        &mut page,
        "The filter",
        "JSON, the `value` of the plugin's `configuration` in `envoy/envoy.yaml`.",
        filter::SETTINGS,
        &filter::default_of,
    );
    page
}

fn section(
    page: &mut String,
    title: &str,
    place: &str,
    settings: &[Setting],
    default_of: &dyn Fn(&str) -> String,
) {
    // Writing to a String cannot fail.
    let _ = write!(page, "\n## {title}\n\n{place}\n\n");
    page.push_str("| setting | default | range | example | meaning |\n|---|---|---|---|---|\n");
    for setting in settings {
        let Setting {
            name,
            range,
            example,
            meaning,
        } = setting;
        let default = default_of(name);
        let _ = writeln!(
            page,
            "| `{name}` | {default} | {range} | `{example}` | {meaning} |"
        );
    }
}

/// As JSON spells it; a dash for what is left out.
fn default_in(defaults: &Value, name: &str) -> String {
    let pointer = format!("/{}", name.replace('.', "/"));
    match defaults.pointer(&pointer) {
        Some(Value::Null) | None => "–".to_owned(),
        Some(value) => format!("`{value}`"),
    }
}

#[cfg(test)]
mod tests;
