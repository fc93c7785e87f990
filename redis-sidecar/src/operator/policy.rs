//! `berth policy`: shows and changes the policy of a pool in service.

use super::{Client, OperatorError, Sidecar};
use crate::settings::parse_value;
use admission::id::PoolName;
use clap::{Args, Subcommand};
use hyper::Method;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Print a pool's policy as JSON; `set` reads what this prints.
    Show {
        /// Its name, as in [pools.NAME] of the sidecar's settings.
        pool: PoolName,
        #[command(flatten)]
        sidecar: Sidecar,
    },
    /// Give a pool another policy, in one step and while it runs: no session is lost.
    ///
    /// A file is the whole policy: settings that it leaves out get their defaults. --strategy and
    /// --set change what they name and nothing else.
    ///
    /// A sidecar that starts applies its settings file again, so change that, too.
    #[command(after_help = SET_EXAMPLES)]
    Set(Set),
}

const SET_EXAMPLES: &str = "\
Examples:
  berth policy set demo --strategy sewt
  berth policy set demo --set max_concurrent=4 --set sewt.alpha=0.3
  berth policy show demo > policy.json, then edit it, then
  berth policy set demo policy.json
  echo 'strategy = \"round_robin\"' | berth policy set demo - --sidecar unix:/run/berth/berth.sock";

#[derive(Debug, Args)]
pub struct Set {
    /// Its name, as in [pools.NAME] of the sidecar's settings.
    pool: PoolName,
    /// The whole policy, as JSON or TOML; - reads it from standard input.
    #[arg(
        value_name = "FILE",
        required_unless_present_any = ["strategy", "changes"],
        conflicts_with_all = ["strategy", "changes"]
    )]
    file: Option<PathBuf>,
    /// The strategy from now on; the same as --set strategy=STRATEGY.
    #[arg(long)]
    strategy: Option<String>,
    /// A setting from now on. Parts are named with a dot, values written as in TOML.
    #[arg(long = "set", id = "changes", value_name = "SETTING=VALUE")]
    changes: Vec<Change>,
    #[command(flatten)]
    sidecar: Sidecar,
}

/// One setting's new value.
#[derive(Debug, Clone, PartialEq)]
struct Change {
    names: Vec<String>,
    value: Value,
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("expected SETTING=VALUE")?;
        let names: Vec<String> = name.split('.').map(|name| name.trim().to_owned()).collect();
        if names.iter().any(String::is_empty) {
            return Err("expected the name of a setting before the =".into());
        }
        let value = serde_json::to_value(parse_value(value.trim()));
        Ok(Self {
            names,
            value: value.map_err(|error| error.to_string())?,
        })
    }
}

impl Change {
    /// What the sidecar does not know is for the sidecar to refuse.
    fn apply(self, policy: &mut Value) -> Result<(), OperatorError> {
        let mut place = policy;
        let mut walked = Vec::new();
        for name in self.names {
            let Value::Object(settings) = place else {
                return Err(OperatorError::Input {
                    what: "--set".into(),
                    reason: format!("{} has no parts", walked.join(".")),
                });
            };
            place = settings.entry(&name).or_insert_with(|| Map::new().into());
            walked.push(name);
        }
        *place = self.value;
        Ok(())
    }
}

/// What of a pool's view concerns its policy. It stays as it came: a sidecar of another version may
/// have settings that are not known here.
#[derive(Debug, Deserialize)]
struct InForce {
    policy: Value,
    policy_version: u64,
}

impl InForce {
    async fn of(pool: &PoolName, client: &Client) -> Result<Self, OperatorError> {
        client.get(&format!("/v1/pools/{pool}")).await
    }
}

/// Returns what to print.
pub async fn run(command: PolicyCommand) -> Result<String, OperatorError> {
    match command {
        PolicyCommand::Show { pool, sidecar } => {
            let shown = InForce::of(&pool, &sidecar.client()?).await?;
            Ok(format!("{:#}\n", shown.policy))
        }
        PolicyCommand::Set(set) => set.run().await,
    }
}

impl Set {
    async fn run(self) -> Result<String, OperatorError> {
        let (client, pool) = (self.sidecar.client()?, self.pool);
        let policy = match &self.file {
            Some(file) => read_policy(file)?,
            None => {
                let mut policy = InForce::of(&pool, &client).await?.policy;
                let strategy = self.strategy.map(|strategy| Change {
                    names: vec!["strategy".into()],
                    value: strategy.into(),
                });
                for change in strategy.into_iter().chain(self.changes) {
                    change.apply(&mut policy)?;
                }
                policy
            }
        };
        let path = format!("/v1/pools/{pool}/policy");
        let _: Value = client.send(Method::PUT, &path, &policy).await?;
        let now = InForce::of(&pool, &client).await?;
        let (version, strategy) = (now.policy_version, &now.policy["strategy"]);
        let strategy = strategy.as_str().unwrap_or_default();
        Ok(format!(
            "pool {pool}: policy version {version}, strategy {strategy}\n"
        ))
    }
}

fn read_policy(file: &Path) -> Result<Value, OperatorError> {
    let (what, text) = if file == Path::new("-") {
        let text = std::io::read_to_string(std::io::stdin());
        ("standard input".to_owned(), text)
    } else {
        (file.display().to_string(), std::fs::read_to_string(file))
    };
    let policy = text
        .map_err(|error| error.to_string())
        .and_then(|text| parse_policy(&text));
    policy.map_err(|reason| OperatorError::Input { what, reason })
}

/// JSON or TOML: an object starts with a brace, and no TOML does.
fn parse_policy(text: &str) -> Result<Value, String> {
    let settings: Map<String, Value> = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| error.to_string())?
    } else {
        toml::from_str(text).map_err(|error| error.to_string())?
    };
    // Every setting has a default, so a file that came out empty would be taken for a policy.
    if settings.is_empty() {
        return Err("names no setting; to have all defaults, name one of them".into());
    }
    Ok(settings.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn changed(changes: &[&str]) -> Result<Value, String> {
        let mut policy = json!({"strategy": "random", "max_concurrent": 2, "sewt": {"alpha": 0.2}});
        for change in changes {
            let change: Change = change.parse()?;
            change
                .apply(&mut policy)
                .map_err(|error| error.to_string())?;
        }
        Ok(policy)
    }

    #[test]
    fn a_change_touches_what_it_names() {
        let policy = changed(&[
            "strategy=sewt",
            "sewt.alpha = 0.5",
            "sewt.size_buckets=[1, 2]",
        ]);
        let sewt = json!({"alpha": 0.5, "size_buckets": [1, 2]});
        let expected = json!({"strategy": "sewt", "max_concurrent": 2, "sewt": sewt});
        assert_eq!(policy, Ok(expected));
    }

    #[test]
    fn a_change_that_names_nothing_is_refused() {
        for (change, named) in [
            ("max_concurrent", "SETTING=VALUE"),
            ("=4", "name of a setting"),
            ("sewt.=4", "name of a setting"),
            ("max_concurrent.most=4", "max_concurrent has no parts"),
        ] {
            let refusal = changed(&[change]).unwrap_err();
            assert!(refusal.contains(named), "{change}: {refusal}");
        }
    }

    #[test]
    fn a_policy_is_read_from_json_and_toml_alike() {
        let expected = json!({"strategy": "sewt", "sewt": {"alpha": 0.5}});
        let toml = "strategy = \"sewt\"\n[sewt]\nalpha = 0.5";
        let json = r#" {"strategy": "sewt", "sewt": {"alpha": 0.5}} "#;
        assert_eq!(parse_policy(toml), Ok(expected.clone()));
        assert_eq!(parse_policy(json), Ok(expected));
        for empty in ["", "\n", "# all defaults", "{}"] {
            assert!(
                parse_policy(empty).unwrap_err().contains("no setting"),
                "{empty:?}"
            );
        }
        assert!(parse_policy("{").is_err());
        assert!(parse_policy("strategy: sewt").is_err());
    }
}
