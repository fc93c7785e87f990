//! Reads a request's headers and decides whether it needs a lease, and what for.

use crate::config::{Admit, FilterConfig};
use crate::message::Operation;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// No lease: the request passes.
    Pass,
    /// A lease for a session that begins with a successful upgrade.
    Upgrade,
    /// A lease for one request and its response.
    Request,
}

/// The headers a decision needs, as the bytes the client sent.
#[derive(Debug, Default)]
pub struct Inspected {
    pub path: Vec<u8>,
    pub upgrade: Vec<u8>,
}

pub fn demand(config: &FilterConfig, request: &Inspected) -> Demand {
    let upgrade = asks_for_websocket(&request.upgrade);
    let wanted = match config.admit {
        Admit::Upgrades => upgrade,
        Admit::Paths => (config.paths.iter()).any(|prefix| is_under(&request.path, prefix)),
        Admit::Everything => true,
    };
    match (wanted, upgrade) {
        (false, _) => Demand::Pass,
        (true, true) => Demand::Upgrade,
        (true, false) => Demand::Request,
    }
}

/// What the request will do on its worker, as far as its path tells.
pub fn operation(config: &FilterConfig, path: &[u8]) -> Option<Operation> {
    let mut rules = config.operations.iter();
    let rule = rules.find(|rule| is_under(path, &rule.path))?;
    Some(rule.operation)
}

/// Whether the request's affinity key ends with it, as far as its path tells.
pub fn unbinds(config: &FilterConfig, path: &[u8]) -> bool {
    let paths = config.affinity.iter().flat_map(|it| &it.unbind_paths);
    paths.into_iter().any(|prefix| is_under(path, prefix))
}

/// Bytes of the path alone: what follows a question mark is the client's to choose and no place.
fn is_under(path: &[u8], prefix: &str) -> bool {
    let mut parts = path.split(|&byte| byte == b'?');
    (parts.next()).is_some_and(|path| path.starts_with(prefix.as_bytes()))
}

/// `Upgrade` is a list of protocols in any case. An HTTP/2 extended CONNECT reaches the filter with
/// the same header, so one rule serves both. The `Connection` header is not asked: a request that
/// Envoy might treat as an upgrade must never pass without a lease.
fn asks_for_websocket(upgrade: &[u8]) -> bool {
    upgrade
        .split(|&byte| byte == b',')
        .any(|protocol| protocol.trim_ascii().eq_ignore_ascii_case(b"websocket"))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn decide(config: &str, path: &str, upgrade: &[u8]) -> Demand {
        let config = FilterConfig::parse(config.as_bytes()).unwrap();
        demand(
            &config,
            &Inspected {
                path: path.into(),
                upgrade: upgrade.into(),
            },
        )
    }

    #[test]
    fn upgrades_need_a_lease_by_default() {
        let config = r#"{"pool": "p"}"#;
        for upgrade in ["websocket", "WebSocket", "h2c, websocket", " websocket "] {
            assert_eq!(
                decide(config, "/", upgrade.as_bytes()),
                Demand::Upgrade,
                "{upgrade}"
            );
        }
        for other in ["", "h2c", "websockets", "\u{ff}websocket"] {
            assert_eq!(
                decide(config, "/", other.as_bytes()),
                Demand::Pass,
                "{other}"
            );
        }
    }

    #[test]
    fn listed_paths_need_a_lease() {
        let config = r#"{"pool": "p", "admit": "paths", "paths": ["/run"]}"#;
        assert_eq!(decide(config, "/run/1", b""), Demand::Request);
        assert_eq!(decide(config, "/run", b"websocket"), Demand::Upgrade);
        assert_eq!(decide(config, "/run?now", b""), Demand::Request);
        assert_eq!(decide(config, "/other", b"websocket"), Demand::Pass);
        assert_eq!(decide(config, "/other?/run", b""), Demand::Pass);
    }

    #[test]
    fn everything_means_everything() {
        let config = r#"{"pool": "p", "admit": "everything"}"#;
        assert_eq!(decide(config, "", b""), Demand::Request);
        assert_eq!(decide(config, "/", b"websocket"), Demand::Upgrade);
    }

    #[test]
    fn the_first_path_that_fits_names_the_operation() {
        let config = r#"{"pool": "p", "operations": [
            {"path": "/db/begin", "operation": "begin"},
            {"path": "/db/exec", "operation": "execute"},
            {"path": "/db", "operation": "query"}]}"#;
        let config = FilterConfig::parse(config.as_bytes()).unwrap();
        for (path, expected) in [
            ("/db/begin", Some(Operation::Begin)),
            ("/db/begin/1?x=/db/exec", Some(Operation::Begin)),
            ("/db/execute", Some(Operation::Execute)),
            ("/db?/begin", Some(Operation::Query)),
            ("/", None),
            ("/?/db/begin", None),
            ("", None),
        ] {
            assert_eq!(operation(&config, path.as_bytes()), expected, "{path}");
        }
        assert_eq!(operation(&config, b"/db\xff"), Some(Operation::Query));
    }

    #[test]
    fn without_operations_nothing_is_said() {
        let config = FilterConfig::parse(br#"{"pool": "p"}"#).unwrap();
        assert_eq!(operation(&config, b"/db/begin"), None);
    }
}
