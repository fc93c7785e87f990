//! What was found, for people and for programs.

use super::place::Spot;
use super::rule::{Rule, Severity};
use serde::Serialize;
use std::fmt;

#[derive(Debug)]
pub struct Report {
    /// Errors first, then in the order of the rules.
    found: Vec<(&'static Rule, Spot)>,
    /// What each server said of itself.
    redis: Vec<String>,
    /// What nobody looked at, and why.
    unjudged: Vec<String>,
}

#[derive(Serialize)]
struct Finding<'a> {
    rule: &'a str,
    severity: Severity,
    file: &'a str,
    path: &'a str,
    found: &'a str,
    why: &'a str,
    instead: &'a str,
}

impl Report {
    pub(super) fn new(
        mut found: Vec<(&'static Rule, Spot)>,
        redis: Vec<String>,
        unjudged: Vec<String>,
    ) -> Self {
        found.sort_by_key(|(rule, _)| rule.severity);
        Self {
            found,
            redis,
            unjudged,
        }
    }

    pub fn is_refused(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// The ids of the rules that found something, each once.
    pub fn rules(&self) -> Vec<&'static str> {
        let mut ids: Vec<_> = self.found.iter().map(|(rule, _)| rule.id).collect();
        ids.dedup();
        ids
    }

    fn count(&self, severity: Severity) -> usize {
        let found = self.found.iter();
        found.filter(|(rule, _)| rule.severity == severity).count()
    }

    pub(super) fn to_json(&self) -> String {
        let findings = self.found.iter().map(|(rule, spot)| Finding {
            rule: rule.id,
            severity: rule.severity,
            file: &spot.file,
            path: &spot.path,
            found: &spot.found,
            why: rule.why,
            instead: rule.instead,
        });
        let report = serde_json::json!({
            "refused": self.is_refused(),
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "redis": self.redis,
            "not_judged": self.unjudged,
            "findings": findings.collect::<Vec<_>>(),
        });
        format!("{report:#}\n")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (rule, spot) in &self.found {
            let Spot { file, path, found } = spot;
            writeln!(f, "{}: {}", rule.severity.as_str(), rule.id)?;
            match path.as_str() {
                "" => writeln!(f, "  {file}: {found}")?,
                path => writeln!(f, "  {file}: {path} {found}")?,
            }
            writeln!(f, "  {}\n  {}\n", rule.why, rule.instead)?;
        }
        for redis in &self.redis {
            writeln!(f, "{redis}")?;
        }
        let (errors, warnings) = (self.count(Severity::Error), self.count(Severity::Warning));
        for unjudged in &self.unjudged {
            writeln!(f, "not judged: {unjudged}")?;
        }
        let verdict = match (errors, self.unjudged.is_empty()) {
            (0, true) => "fine",
            (0, false) => "fine as far as it was judged",
            _ => "refused",
        };
        writeln!(f, "{verdict}: {errors} errors, {warnings} warnings")
    }
}
