//! The sidecar's settings: one TOML file, overridden by environment variables. Unknown settings
//! and bad values stop the start with a message that names them.

use admission::id::PoolName;
use admission::policy::Policy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// `BERTH__REDIS__URL` sets `redis.url`.
const ENVIRONMENT_PREFIX: &str = "BERTH__";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where to listen: `127.0.0.1:7070` or `unix:/run/berth/berth.sock`.
    pub listen: Vec<Listen>,
    /// Whoever reaches the API can take and release every place, so an address that others can
    /// reach must be asked for twice.
    pub allow_remote: bool,
    /// How long a question may take; the filter waits 50 ms longer.
    pub answer_timeout_ms: u64,
    /// How often pools are looked after when nobody asks for a place.
    pub reap_ms: u64,
    pub redis: RedisSettings,
    pub pools: BTreeMap<PoolName, Policy>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RedisSettings {
    pub url: String,
    /// How long Redis may take to answer or to accept a connection.
    pub timeout_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 7070)))],
            allow_remote: false,
            answer_timeout_ms: 250,
            reap_ms: 500,
            redis: RedisSettings::default(),
            pools: BTreeMap::new(),
        }
    }
}

impl Default for RedisSettings {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379".into(),
            timeout_ms: 150,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(_) => Err(format!("{text:?}: a Unix socket needs an absolute path")),
            None => text
                .parse()
                .map(Self::Tcp)
                .map_err(|_| format!("{text:?} is neither ip:port nor unix:/path")),
        }
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> String {
        listen.to_string()
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("cannot read {}: {error}", path.display())]
    Read {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("{}: {error}", path.display())]
    Syntax {
        path: PathBuf,
        error: toml::de::Error,
    },
    #[error("{variable} names no setting: {reason}")]
    Variable { variable: String, reason: String },
    #[error("settings: {0}")]
    Value(String),
}

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
        // Read as settings first: only this way does an error show the line it is in.
        let syntax = |error| SettingsError::Syntax {
            path: path.into(),
            error,
        };
        toml::from_str::<Settings>(&text).map_err(syntax)?;
        table = toml::from_str(&text).map_err(syntax)?;
        for (leaf, _) in leaves(&table) {
            origins.insert(leaf, Origin::File(path.into()));
        }
    }
    for (variable, text) in environment {
        if let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX) {
            let path = name.to_lowercase().replace("__", ".");
            overlay(&mut table, &path, parse_value(&text)).map_err(|reason| {
                SettingsError::Variable {
                    variable: variable.clone(),
                    reason,
                }
            })?;
            check_alone(&path, &table, &variable)?;
            origins.insert(path, Origin::Variable(variable));
        }
    }
    let settings: Settings = Value::Table(table)
        .try_into()
        .map_err(|error| SettingsError::Value(error.to_string()))?;
    settings.validate()?;
    Ok(Loaded { settings, origins })
}

/// After each variable the settings must still make sense, or that variable is to blame.
fn check_alone(path: &str, table: &Table, variable: &str) -> Result<(), SettingsError> {
    match Value::Table(table.clone()).try_into::<Settings>() {
        Ok(_) => Ok(()),
        Err(error) => Err(SettingsError::Variable {
            variable: variable.to_owned(),
            reason: format!("{path}: {}", error.message()),
        }),
    }
}

/// `3`, `true` and `["a"]` mean what they mean in TOML; anything else is text.
fn parse_value(text: &str) -> Value {
    toml::from_str::<Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

fn overlay(table: &mut Table, path: &str, value: Value) -> Result<(), String> {
    match path.split_once('.') {
        None => {
            table.insert(path.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => {
            let inner = table
                .entry(first)
                .or_insert_with(|| Value::Table(Table::new()))
                .as_table_mut()
                .ok_or_else(|| format!("{first} has no parts"))?;
            overlay(inner, rest, value)
        }
    }
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

impl Settings {
    fn validate(&self) -> Result<(), SettingsError> {
        let refuse = |message: String| Err(SettingsError::Value(message));
        if self.listen.is_empty() {
            return refuse("listen must name at least one address".into());
        }
        for listen in &self.listen {
            if let Listen::Tcp(address) = listen
                && !address.ip().is_loopback()
                && !self.allow_remote
            {
                return refuse(format!(
                    "listen: {address} can be reached from other hosts, and whoever reaches the \
                     API can take and release every place; listen on loopback or a Unix socket, \
                     or set allow_remote = true on a network you trust"
                ));
            }
        }
        if !(10..=60_000).contains(&self.answer_timeout_ms) {
            return refuse("answer_timeout_ms must be between 10 and 60000".into());
        }
        // The pool's clock takes no step above 6 s: slower reaping would slow the clock.
        if !(1..=3_000).contains(&self.reap_ms) {
            return refuse("reap_ms must be between 1 and 3000".into());
        }
        if !(1..=60_000).contains(&self.redis.timeout_ms) {
            return refuse("redis.timeout_ms must be between 1 and 60000".into());
        }
        for (pool, policy) in &self.pools {
            if let Err(error) = policy.validate() {
                return refuse(format!("pools.{pool}: {error}"));
            }
        }
        Ok(())
    }
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

/// A URL as it may be shown: `redis://user:secret@host` becomes `redis://user:***@host`.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    match rest.rsplit_once('@') {
        Some((credentials, host)) => {
            let user = credentials.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:***@{host}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn load_text(file: &str, environment: &[(&str, &str)]) -> Result<Loaded, SettingsError> {
        let mut config = tempfile::NamedTempFile::new().unwrap();
        config.write_all(file.as_bytes()).unwrap();
        let environment = environment
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        load(Some(config.path()), environment)
    }

    fn refused(file: &str, environment: &[(&str, &str)]) -> String {
        load_text(file, environment).unwrap_err().to_string()
    }

    #[test]
    fn the_environment_overrides_the_file() {
        let file = "[redis]\nurl = \"redis://a\"\n[pools.demo]\nmax_concurrent = 3";
        let environment = [
            ("BERTH__REDIS__URL", "redis://b"),
            ("BERTH__POOLS__DEMO__MAX_LIFETIME", "7"),
            ("BERTH__LISTEN", r#"["unix:/tmp/b.sock"]"#),
        ];
        let settings = load_text(file, &environment).unwrap().settings;
        assert_eq!(settings.redis.url, "redis://b");
        assert_eq!(settings.listen, [Listen::Unix("/tmp/b.sock".into())]);
        let demo = &settings.pools[&PoolName::parse("demo").unwrap()];
        assert_eq!((demo.max_concurrent, demo.max_lifetime), (3, 7));
    }

    #[test]
    fn the_shipped_file_shows_every_setting_with_its_default() {
        let text = include_str!("../berth.toml");
        let shipped = load_text(text, &[]).unwrap();
        let pool = PoolName::parse("demo").unwrap();
        let expected = Settings {
            pools: BTreeMap::from([(pool, Policy::default())]),
            ..Settings::default()
        };
        assert_eq!(shipped.settings, expected);
        assert!(
            !shipped.describe().contains("# default"),
            "{}",
            shipped.describe()
        );
    }

    #[test]
    fn a_bad_setting_is_named() {
        assert!(refused("lisen = []", &[]).contains("lisen"));
        assert!(refused("[pools.demo]\nmax_concurrent = -1", &[]).contains("max_concurrent"));
        assert!(refused("[pools.demo]\nstrategy = \"best\"", &[]).contains("best"));
        let file = "[pools.demo]\nstrategy = \"lifetime_first\"\nmax_lifetime = 0";
        assert!(refused(file, &[]).contains("pools.demo: max_lifetime"));
        assert!(refused("reap_ms = 0", &[]).contains("reap_ms"));
    }

    #[test]
    fn a_bad_variable_is_named() {
        let message = refused("", &[("BERTH__REAP_MS", "soon")]);
        assert!(
            message.contains("BERTH__REAP_MS") && message.contains("reap_ms"),
            "{message}"
        );
        assert!(refused("", &[("BERTH__REAP", "1")]).contains("BERTH__REAP"));
    }

    #[test]
    fn an_address_that_others_can_reach_must_be_asked_for_twice() {
        let file = "listen = [\"0.0.0.0:7070\"]";
        assert!(refused(file, &[]).contains("allow_remote"));
        assert!(load_text(&format!("allow_remote = true\n{file}"), &[]).is_ok());
    }

    #[test]
    fn the_description_tells_origins_and_hides_passwords() {
        let file = "[redis]\nurl = \"redis://berth:secret@db:6379\"";
        let text = load_text(file, &[("BERTH__REAP_MS", "50")])
            .unwrap()
            .describe();
        assert!(text.contains("reap_ms = 50  # $BERTH__REAP_MS"), "{text}");
        assert!(
            text.contains("answer_timeout_ms = 250  # default"),
            "{text}"
        );
        assert!(
            text.contains("redis://berth:***@db:6379") && !text.contains("secret"),
            "{text}"
        );
    }
}
