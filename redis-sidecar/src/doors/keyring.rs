//! Which token opens which part of the API.

use super::rights::Rights;
use super::token::Tokens;
use crate::settings::{Api, Settings};
use std::path::Path;
use std::sync::Arc;

/// All tokens that this sidecar knows.
#[derive(Debug)]
pub(crate) struct Keyring {
    filter: Option<Tokens>,
    operator: Option<Tokens>,
    metrics: Option<Tokens>,
    workers: Vec<(Arc<Rights>, Tokens)>,
}

/// Why nobody is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoToken,
    WrongToken,
}

impl Keyring {
    /// Fails with a sentence that names the setting.
    pub(crate) fn open(settings: &Settings) -> Result<Self, String> {
        let open =
            |setting, file: Option<&Path>| file.map(|file| Tokens::open(setting, file)).transpose();
        let files = &settings.tokens;
        let workers = settings.worker_tokens.iter().map(|token| {
            let tokens = Tokens::open("worker_tokens.file", &token.file)?;
            Ok((Arc::new(Rights::of(token)), tokens))
        });
        let keyring = Self {
            filter: open("tokens.filter_file", files.filter_file.as_deref())?,
            operator: open("tokens.operator_file", files.operator_file.as_deref())?,
            metrics: open("tokens.metrics_file", files.metrics_file.as_deref())?,
            workers: workers.collect::<Result<_, String>>()?,
        };
        keyring.refuse_shared()?;
        Ok(keyring)
    }

    /// A token that is in two files has both roles, and nobody can tell which was meant.
    fn refuse_shared(&self) -> Result<(), String> {
        let named = |name: &str, tokens| Some((name.to_owned(), tokens?));
        let workers = self.workers.iter();
        let files: Vec<(String, &Tokens)> = [
            named("tokens.filter_file", self.filter.as_ref()),
            named("tokens.operator_file", self.operator.as_ref()),
            named("tokens.metrics_file", self.metrics.as_ref()),
        ]
        .into_iter()
        .flatten()
        .chain(workers.map(|(rights, tokens)| (format!("worker_tokens {}", rights.owner), tokens)))
        .collect();
        for (number, (name, tokens)) in files.iter().enumerate() {
            for (other, others) in &files[..number] {
                if tokens.shares_one_with(others) {
                    return Err(format!(
                        "{other} and {name} have a token in common, which would open both: give each its own; \
                         `openssl rand -hex 32` makes one"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether there is a token for this part.
    pub(crate) fn asks(&self, api: Api) -> bool {
        match api {
            Api::Data => self.filter.is_some(),
            Api::Worker => !self.workers.is_empty(),
            Api::Operator => self.operator.is_some(),
            Api::Metrics => self.metrics.is_some() || self.operator.is_some(),
        }
    }

    /// What whoever shows this may do. Operators may do what workers do, and read the metrics: who sets
    /// policies can do anything.
    pub(crate) fn admit(&self, api: Api, shown: Option<&[u8]>) -> Result<Arc<Rights>, Refusal> {
        let Some(shown) = shown else {
            return Err(Refusal::NoToken);
        };
        let holds = |tokens: &Option<Tokens>| tokens.as_ref().is_some_and(|it| it.contain(shown));
        let unbound = |let_in: bool| let_in.then(Arc::default).ok_or(Refusal::WrongToken);
        match api {
            Api::Data => unbound(holds(&self.filter)),
            Api::Operator => unbound(holds(&self.operator)),
            Api::Metrics => unbound(holds(&self.metrics) || holds(&self.operator)),
            Api::Worker => {
                let worker = self
                    .workers
                    .iter()
                    .find(|(_, tokens)| tokens.contain(shown));
                match worker {
                    Some((rights, _)) => Ok(rights.clone()),
                    None => unbound(holds(&self.operator)),
                }
            }
        }
    }
}
