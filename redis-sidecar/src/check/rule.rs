//! What a rule is, and all of them.

use super::envoy::Envoy;
use super::place::Spot;
use super::redis::Info;
use super::rules;
use crate::settings::Settings;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A promise would be broken, or nothing would work: refused.
    Error,
    /// It may be meant; whoever wrote it should know.
    Warning,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Which file it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    Envoy,
    Settings,
    Redis,
}

#[derive(Debug)]
pub struct Rule {
    pub id: &'static str,
    pub severity: Severity,
    pub about: About,
    /// What happens otherwise.
    pub why: &'static str,
    pub instead: &'static str,
    pub(super) find: fn(&Subject<'_>) -> Vec<Spot>,
}

/// All that is looked at. What was not given is not judged.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) envoy: Envoy<'a>,
    pub(super) settings: Option<SettingsFile<'a>>,
    pub(super) redis: &'a [Info],
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SettingsFile<'a> {
    pub(super) file: &'a str,
    /// Or why a sidecar would not start with it.
    pub(super) settings: Result<&'a Settings, &'a str>,
}

impl SettingsFile<'_> {
    pub(super) fn spot(&self, path: impl Into<String>, found: impl Into<String>) -> Spot {
        Spot {
            file: self.file.to_owned(),
            path: path.into(),
            found: found.into(),
        }
    }
}

impl<'a> Subject<'a> {
    /// The file and its settings, if a sidecar could start with them.
    pub(super) fn sidecar(&self) -> Option<(SettingsFile<'a>, &'a Settings)> {
        let file = self.settings?;
        Some((file, file.settings.ok()?))
    }
}

/// Every rule, in the order of the page.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    [
        rules::plugin::RULES,
        rules::chain::RULES,
        rules::session::RULES,
        rules::routes::RULES,
        rules::workers::RULES,
        rules::sidecar::RULES,
        rules::clients::RULES,
        rules::settings::RULES,
        rules::redis::RULES,
    ]
    .into_iter()
    .flatten()
}
