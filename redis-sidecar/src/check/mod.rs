//! `berth check`: reads Envoy's files, berth.toml and the Redis that runs, and refuses what would break a
//! promise without a word.
//!
//! `place` looks into files, `envoy` finds what concerns Berth in them, `rules` judge it, one small
//! function each; `report` and `page` write it down.

mod capabilities;
mod envoy;
mod page;
mod place;
mod redis;
mod report;
mod rule;
mod rules;

pub use capabilities::USED as CAPABILITIES;
pub use page::page;
pub use place::Spot;
pub use redis::Info;
pub use report::Report;
pub use rule::{About, Rule, Severity, all as rules};

use crate::settings::{self, RedisSettings, Settings, SettingsError};
use admission::id::PoolName;
use envoy::Envoy;
use rule::{SettingsFile, Subject};
use serde_json::Value;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub struct Options {
    /// A file of Envoy's (YAML or JSON): its bootstrap file, or one with listeners, clusters or routes.
    /// May be given several times; the files of one Envoy are judged together.
    #[arg(long, value_name = "FILE")]
    envoy: Vec<PathBuf>,
    /// The sidecar's settings file (TOML); variables named BERTH__… count as they do for `serve`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Do not ask Redis.
    #[arg(long)]
    offline: bool,
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Print every rule with its reason and remedy, as docs/check.md has it.
    #[arg(long, exclusive = true)]
    rules: bool,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Output {
    #[default]
    Table,
    Json,
}

/// How it ended, by the exit codes of all commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Fine = 0,
    /// A file could not be read.
    Usage = 2,
    /// Redis could not be asked, and nothing else is wrong.
    Unreachable = 4,
    Refused = 5,
}

/// What was given to judge.
#[derive(Debug, Default)]
pub struct Given {
    envoy: Vec<(String, Value)>,
    settings: Option<(String, Result<Settings, String>)>,
    /// None if it was not asked, several if it is a cluster.
    pub redis: Vec<Info>,
    /// Why Redis was not asked, if it was not.
    unasked: Option<&'static str>,
}

/// Says what is to be printed, what is to be said about it on standard error, and how it ended.
pub async fn run(
    options: Options,
    environment: impl Iterator<Item = (String, String)> + Clone,
) -> (String, Option<String>, Verdict) {
    if options.rules {
        return (page(), None, Verdict::Fine);
    }
    let config = options.config.as_deref();
    if options.offline && options.envoy.is_empty() && config.is_none() {
        let message = "there is nothing to look at: name files by --envoy and --config".to_owned();
        return (String::new(), Some(message), Verdict::Usage);
    }
    let mut given = match Given::read(&options.envoy, config, environment.clone()) {
        Ok(given) => given,
        Err(message) => return (String::new(), Some(message), Verdict::Usage),
    };
    let redis = match given.redis_settings(environment) {
        Ok(redis) => redis.filter(|_| !options.offline),
        Err(message) => return (String::new(), Some(message), Verdict::Usage),
    };
    given.unasked = Some(if options.offline {
        "--offline"
    } else {
        "the settings do not say where it is"
    });
    let mut unreachable = None;
    if let Some(redis) = redis {
        let name = settings::without_password(&redis.url);
        match Info::ask(&name, &redis, &given.pools()).await {
            Ok(infos) => given.redis = infos,
            Err(error) => {
                given.unasked = Some("it cannot be asked");
                unreachable = Some(format!(
                    "Redis at {name} cannot be asked ({error}): correct redis.url, redis.user or \
                     redis.password_file, or use --offline"
                ));
            }
        }
    }
    let report = given.judge();
    let verdict = match (report.is_refused(), &unreachable) {
        (true, _) => Verdict::Refused,
        (false, Some(_)) => Verdict::Unreachable,
        (false, None) => Verdict::Fine,
    };
    let text = match options.output {
        Output::Table => report.to_string(),
        Output::Json => report.to_json(),
    };
    (text, unreachable, verdict)
}

impl Given {
    /// Reads the files; fails with a sentence if there is one that is not what it should be.
    pub fn read(
        envoy: &[PathBuf],
        config: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, String> {
        let mut given = Self::default();
        for path in envoy {
            let file = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read {file}: {error}"))?;
            let value = serde_saphyr::from_str(&text).map_err(|error| {
                // The first line of it: the next ones show the file, and a token may be in it.
                let error = error.to_string();
                let what = error.lines().next().unwrap_or_default();
                format!("{file} is neither YAML nor JSON: {what}")
            })?;
            given.envoy.push((file, value));
        }
        if let Some(path) = config {
            let loaded = match settings::load(Some(path), environment) {
                Err(error @ SettingsError::Read { .. }) => return Err(error.to_string()),
                loaded => loaded.map(|loaded| loaded.settings),
            };
            let file = path.display().to_string();
            given.settings = Some((file, loaded.map_err(|error| error.to_string())));
        }
        Ok(given)
    }

    pub fn judge(&self) -> Report {
        let files = self.envoy.iter();
        let subject = Subject {
            envoy: Envoy::read(files.map(|(file, value)| (file.as_str(), value))),
            settings: self.settings.as_ref().map(|(file, settings)| SettingsFile {
                file,
                settings: settings.as_ref().map_err(String::as_str),
            }),
            redis: &self.redis,
        };
        let found = rules().flat_map(|rule| {
            let spots = (rule.find)(&subject).into_iter();
            spots.map(move |spot| (rule, spot))
        });
        Report::new(
            found.collect(),
            self.redis.iter().map(Info::summary).collect(),
            self.unjudged(),
        )
    }

    /// What is not known to be fine, because nobody looked.
    fn unjudged(&self) -> Vec<String> {
        let mut unjudged = Vec::new();
        if self.envoy.is_empty() {
            unjudged.push("Envoy: name its files by --envoy".to_owned());
        }
        if self.settings.is_none() {
            unjudged.push("the sidecar's settings: name their file by --config".to_owned());
        }
        if self.redis.is_empty() {
            unjudged.push(format!(
                "Redis: {}",
                self.unasked.unwrap_or("it was not asked")
            ));
        }
        unjudged
    }

    /// The pools that filters ask for.
    fn pools(&self) -> Vec<PoolName> {
        let files = self.envoy.iter();
        let envoy = Envoy::read(files.map(|(file, value)| (file.as_str(), value)));
        let plugins = envoy.plugins();
        let settings = plugins.filter_map(|(_, plugin)| plugin.settings.as_ref().ok());
        settings.map(|settings| settings.pool.clone()).collect()
    }

    /// Where Redis is: as the file says, or as a sidecar without one would have it; nowhere if the file
    /// is refused.
    fn redis_settings(
        &self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Option<RedisSettings>, String> {
        match &self.settings {
            Some((_, settings)) => Ok(settings.as_ref().ok().map(|it| it.redis.clone())),
            None => match settings::load(None, environment) {
                Ok(loaded) => Ok(Some(loaded.settings.redis)),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}
