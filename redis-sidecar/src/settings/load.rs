//! Reading the settings, and telling where each came from.

use super::redis::without_password;
use super::words::plain;
use super::{Settings, SettingsError};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// `BERTH__REDIS__URL` sets `redis.url`.
const ENVIRONMENT_PREFIX: &str = "BERTH__";

/// Where a value came from, for `--print-config`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    File(PathBuf),
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Variable(name) => write!(f, "${name}"),
        }
    }
}

#[derive(Debug)]
pub struct Loaded {
    pub settings: Settings,
    origins: BTreeMap<String, Origin>,
}

/// Reads the file, if any, and lays the environment over it.
pub fn load(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Loaded, SettingsError> {
    let mut table = Table::new();
    let mut origins = BTreeMap::new();
    if let Some(path) = file {
        let text = std::fs::read_to_string(path).map_err(|error| SettingsError::Read {
            path: path.into(),
            error,
        })?;
        // Read as settings first: only this way does an error tell the line it is in.
        let read = read_settings(path, &text);
        table = toml::from_str(&text).map_err(|error| refusal(path, &text, "", &error))?;
        refuse_former(&table)?;
        read?;
        for (leaf, _) in leaves(&table) {
            origins.insert(leaf, Origin::File(path.into()));
        }
    }
    for (variable, text) in environment {
        if let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX) {
            let names: Vec<String> = name.to_lowercase().split("__").map(str::to_owned).collect();
            let path = overlay(&mut table, &names, parse_value(&text)).map_err(|reason| {
                SettingsError::Variable {
                    variable: variable.clone(),
                    reason,
                }
            })?;
            refuse_former(&table)?;
            check_alone(&path, &table, &variable)?;
            origins.insert(path, Origin::Variable(variable));
        }
    }
    let settings: Settings = Value::Table(table)
        .try_into()
        .map_err(|error: toml::de::Error| SettingsError::Value(without_values(error.message())))?;
    settings.validate()?;
    Ok(Loaded { settings, origins })
}

fn read_settings(path: &Path, text: &str) -> Result<Settings, SettingsError> {
    let parsed = toml::Deserializer::parse(text);
    let parsed = parsed.map_err(|error| refusal(path, text, "", &error))?;
    serde_path_to_error::deserialize(parsed).map_err(|error| {
        let setting = error.path().to_string();
        refusal(path, text, &setting, error.inner())
    })
}

/// Which setting, and in which line; not the line itself, which TOML would show: a password may be in it.
fn refusal(path: &Path, text: &str, setting: &str, error: &toml::de::Error) -> SettingsError {
    let start = error.span().map(|span| span.start);
    let before = start.and_then(|start| text.get(..start));
    let line = before.map_or_else(String::new, |before| {
        format!(", line {}", before.matches('\n').count() + 1)
    });
    let message = without_values(error.message());
    SettingsError::Syntax {
        path: path.into(),
        line,
        message: match setting {
            "" | "." => message,
            setting => format!("{setting}: {message}"),
        },
    }
}

/// serde shows the text that it did not want: `invalid type: string "…", expected`.
fn without_values(message: &str) -> String {
    let message = plain(message);
    match (
        message.split_once("string \""),
        message.rsplit_once("\", expected"),
    ) {
        (Some((before, _)), Some((_, after))) => format!("{before}a string, expected{after}"),
        _ => message,
    }
}

/// What an earlier version read, with what to write instead.
fn refuse_former(table: &Table) -> Result<(), SettingsError> {
    if table.contains_key("allow_remote") {
        return Err(SettingsError::Value(
            "allow_remote is no more: an address that other hosts can reach is written as [[listeners]], with \
             tokens or tls.client_ca_file: docs/listeners.md"
                .into(),
        ));
    }
    Ok(())
}

/// After each variable the settings must still make sense, or that variable is to blame.
fn check_alone(path: &str, table: &Table, variable: &str) -> Result<(), SettingsError> {
    match Value::Table(table.clone()).try_into::<Settings>() {
        Ok(_) => Ok(()),
        Err(error) => Err(SettingsError::Variable {
            variable: variable.to_owned(),
            reason: format!("{path}: {}", without_values(error.message())),
        }),
    }
}

/// `3`, `true` and `["a"]` mean what they mean in TOML; anything else is text.
pub(crate) fn parse_value(text: &str) -> Value {
    toml::from_str::<Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Puts the value where the names lead, and returns the path. Variables are written in capitals, so a
/// name that the file has in another case is meant.
fn overlay(table: &mut Table, names: &[String], value: Value) -> Result<String, String> {
    let Some((first, rest)) = names.split_first() else {
        return Err("names no setting".into());
    };
    let known = table.keys().find(|key| key.eq_ignore_ascii_case(first));
    let name = known.unwrap_or(first).clone();
    if rest.is_empty() {
        table.insert(name.clone(), value);
        return Ok(name);
    }
    let inner = table
        .entry(&name)
        .or_insert_with(|| Value::Table(Table::new()))
        .as_table_mut()
        .ok_or_else(|| format!("{name} has no parts"))?;
    Ok(format!("{name}.{}", overlay(inner, rest, value)?))
}

fn leaves(table: &Table) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        if let Value::Table(inner) = value {
            let below = leaves(inner).into_iter();
            found.extend(below.map(|(rest, value)| (format!("{key}.{rest}"), value)));
        } else {
            found.push((key.clone(), value.clone()));
        }
    }
    found
}

impl Loaded {
    /// Every value in force and where it came from, one per line.
    pub fn describe(&self) -> String {
        let table = Table::try_from(&self.settings).unwrap_or_default();
        let mut text = String::new();
        for (path, value) in leaves(&table) {
            let origin = match self.origins.get(&path) {
                Some(origin) => origin.to_string(),
                None => "default".into(),
            };
            let value = if path == "redis.url" {
                Value::String(without_password(&self.settings.redis.url))
            } else {
                value
            };
            text.push_str(&format!("{path} = {value}  # {origin}\n"));
        }
        text
    }
}
