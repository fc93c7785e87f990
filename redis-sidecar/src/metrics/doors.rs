//! Who was not let in, and why.

use crate::settings::Api;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Why a request was refused before it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    NoToken,
    WrongToken,
    /// A worker's token is not for this.
    Forbidden,
    Overloaded,
    SlowBody,
    /// Answers that nobody took.
    Untaken,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::NoToken => "no_token",
            Self::WrongToken => "wrong_token",
            Self::Forbidden => "forbidden",
            Self::Overloaded => "overloaded",
            Self::SlowBody => "slow_body",
            Self::Untaken => "untaken",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabel {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabel {
    api: &'static str,
    reason: &'static str,
}

/// By the address in the settings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabel {
    listener: String,
}

#[derive(Debug, Default)]
pub(crate) struct Doors {
    tokens: Family<TokenLabel, Counter>,
    refusals: Family<RefusalLabel, Counter>,
    connections: Family<ListenerLabel, Gauge>,
    turned_away: Family<ListenerLabel, Counter>,
    no_handshakes: Family<ListenerLabel, Counter>,
}

impl Doors {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "unauthorized",
            "Requests without the token that their listener asks for",
            self.tokens.clone(),
        );
        registry.register(
            "refusals",
            "Requests that this sidecar refused to look at",
            self.refusals.clone(),
        );
        registry.register(
            "connections",
            "Connections that a listener has",
            self.connections.clone(),
        );
        registry.register(
            "connections_refused",
            "Connections closed at once because the listener had as many as it may",
            self.turned_away.clone(),
        );
        registry.register(
            "handshakes_failed",
            "Connections that ended before their TLS handshake did",
            self.no_handshakes.clone(),
        );
    }

    pub(crate) fn unauthorized(&self, api: Api, reason: Reason) {
        let label = TokenLabel {
            api: api.as_str(),
            reason: reason.as_str(),
        };
        self.tokens.get_or_create(&label).inc();
    }

    pub(crate) fn refused(&self, reason: Reason) {
        let label = RefusalLabel {
            reason: reason.as_str(),
        };
        self.refusals.get_or_create(&label).inc();
    }

    pub(crate) fn turned_away(&self, listener: &str) {
        let label = listener_label(listener);
        self.turned_away.get_or_create(&label).inc();
    }

    pub(crate) fn no_handshake(&self, listener: &str) {
        let label = listener_label(listener);
        self.no_handshakes.get_or_create(&label).inc();
    }

    /// Counted until what this returns is dropped.
    pub(crate) fn connected(&self, listener: &str) -> Connected {
        let gauge = self.connections.get_or_create(&listener_label(listener));
        gauge.inc();
        Connected(gauge.clone())
    }
}

fn listener_label(listener: &str) -> ListenerLabel {
    ListenerLabel {
        listener: listener.to_owned(),
    }
}

#[derive(Debug)]
pub(crate) struct Connected(Gauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}
