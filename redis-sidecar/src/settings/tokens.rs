//! Tokens that would not do what whoever set them believes.

use super::doors::{Api, TokenFiles};
use super::{Listener, Settings};

impl Settings {
    /// A token that nobody is asked for keeps nobody out.
    pub(super) fn validate_tokens(&self) -> Result<(), String> {
        let TokenFiles {
            filter_file,
            operator_file,
            metrics_file,
        } = &self.tokens;
        let has_workers = !self.worker_tokens.is_empty();
        let asked_of_operators = |api: &Api| match api {
            Api::Operator | Api::Metrics => true,
            Api::Worker => has_workers,
            Api::Data => false,
        };
        let asks = |opens: &dyn Fn(&Api) -> bool| {
            let asking = self.listeners.iter().filter(|listener| listener.tokens);
            asking.flat_map(|Listener { serves, .. }| serves).any(opens)
        };
        let unasked = |setting: &str, api: Api| {
            Err(format!(
                "{setting}: no listener asks for this token, so it keeps nobody out (`listen` asks for none): \
                 add [[listeners]] with serves = [\"{}\"] and tokens = true, or take it away: docs/listeners.md",
                api.as_str()
            ))
        };
        if filter_file.is_some() && !asks(&|api| *api == Api::Data) {
            return unasked(Api::Data.token_setting(), Api::Data);
        }
        if operator_file.is_some() && !asks(&asked_of_operators) {
            return unasked(Api::Operator.token_setting(), Api::Operator);
        }
        if metrics_file.is_some() && !asks(&|api| *api == Api::Metrics) {
            return unasked(Api::Metrics.token_setting(), Api::Metrics);
        }
        if has_workers && !asks(&|api| *api == Api::Worker) {
            return unasked(Api::Worker.token_setting(), Api::Worker);
        }
        Ok(())
    }

    /// What is allowed, and most likely not meant; one sentence each. A pool that the file does not have may be
    /// in another sidecar's.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        for token in &self.worker_tokens {
            for pool in &token.pools {
                if !self.pools.contains_key(pool) {
                    doubts.push(format!(
                        "worker_tokens.pools: {} is for pool {pool}, which the settings do not have: write \
                         [pools.{pool}], or correct the name",
                        token.name
                    ));
                }
            }
        }
        doubts
    }
}
