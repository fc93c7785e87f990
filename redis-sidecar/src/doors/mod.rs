//! Who is let in: tokens, certificates, and what a worker may say of itself.

pub(crate) mod crowd;
pub(crate) mod keyring;
pub(crate) mod rights;
pub(crate) mod tls;
pub(crate) mod token;
mod watched;

use crate::settings::Api;
use keyring::Keyring;
use std::sync::Arc;

/// What one listener serves, and whom it asks for a token.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) serves: Vec<Api>,
    /// Absent where nobody is asked.
    pub(crate) keyring: Option<Arc<Keyring>>,
    /// Whether other hosts can come to it.
    pub(crate) is_remote: bool,
}

impl Door {
    /// Serves everything to everybody: for those who are on this host anyway.
    pub(crate) fn open() -> Self {
        Self {
            serves: Api::ALL.to_vec(),
            keyring: None,
            is_remote: false,
        }
    }

    /// Whether this caller may hear what goes on inside: addresses, paths, pools. On this host everybody
    /// may; from elsewhere, operators.
    pub(crate) fn confides(&self, shown: Option<&[u8]>) -> bool {
        let operator = match &self.keyring {
            Some(keyring) if keyring.asks(Api::Operator) => {
                keyring.admit(Api::Operator, shown).is_ok()
            }
            // Whoever came in has a certificate that is good for all that is served.
            Some(_) | None => self.serves.contains(&Api::Operator),
        };
        !self.is_remote || operator
    }
}
