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
}

impl Door {
    /// Serves everything to everybody: for those who are on this host anyway.
    pub(crate) fn open() -> Self {
        Self {
            serves: Api::ALL.to_vec(),
            keyring: None,
        }
    }
}
