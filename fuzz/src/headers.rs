//! What the filter reads of a request: path, upgrade, cookie, peer, each a line of the input.

use admission::carried;
use admission::config::FilterConfig;
use admission::id::{Epoch, HolderId, LeaseId, PoolName, ProxyId};
use admission::inspect::{Demand, Inspected, demand, operation, unbinds};
use admission::message::{AdmitRequest, AffinityRequest, KEY_BYTES_MAX};
use std::sync::LazyLock;

/// What the sidecar reads of a body.
const BODY_BYTES_MAX: usize = 20 * 1024;

static CONFIGS: LazyLock<[FilterConfig; 3]> = LazyLock::new(|| {
    [
        r#"{"pool": "p"}"#,
        r#"{"pool": "p", "admit": "paths", "paths": ["/run", "/tx/"],
            "operations": [{"path": "/tx/begin", "operation": "begin"}],
            "affinity": {"key": {"cookie": "sid"}, "unbind_paths": ["/tx/end"]}}"#,
        r#"{"pool": "p", "admit": "everything"}"#,
    ]
    .map(|json| match FilterConfig::parse(json.as_bytes()) {
        Ok(config) => config,
        Err(error) => panic!("{error}"),
    })
});

pub(crate) fn run(input: &[u8]) {
    let mut lines = input.split(|&byte| byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (path, upgrade, cookie, peer) = (line(), line(), line(), line());
    for config in CONFIGS.iter() {
        inspect(config, path, upgrade);
    }
    carry(path, cookie, peer);
    hop(path);
}

fn inspect(config: &FilterConfig, path: &[u8], upgrade: &[u8]) {
    let decide = |path: &[u8], upgrade: &[u8]| {
        let (path, upgrade) = (path.to_vec(), upgrade.to_vec());
        demand(config, &Inspected { path, upgrade })
    };
    let decided = decide(path, upgrade);
    assert_eq!(decided, decide(path, &upgrade.to_ascii_uppercase()));
    // A client can neither escape nor change its operation by what follows the question mark.
    let longer = [path, b"?/run/tx/begin"].concat();
    assert_eq!(decided, decide(&longer, upgrade));
    assert_eq!(operation(config, path), operation(config, &longer));
    assert_eq!(unbinds(config, path), unbinds(config, &longer));
    // Another protocol beside it does not hide a WebSocket.
    let listed = [upgrade, b", websocket"].concat();
    assert_eq!(decide(b"/run", &listed), Demand::Upgrade);
}

fn carry(path: &[u8], cookie: &[u8], peer: &[u8]) {
    for value in [
        carried::cookie(cookie, "sid"),
        carried::parameter(path, "sid"),
    ]
    .into_iter()
    .flatten()
    {
        assert!(!value.is_empty());
        assert!(!value.contains(&b';') || carried::cookie(cookie, "sid") != Some(value));
    }
    let key = carried::key(cookie);
    let cut = cookie.get(..KEY_BYTES_MAX).unwrap_or(cookie);
    assert_eq!(
        key,
        carried::key(cut),
        "what is beyond the limit is not looked at"
    );
    let request = AdmitRequest {
        client: Some(carried::key(path)),
        affinity: Some(AffinityRequest { key, bind: true }),
        ..blank()
    };
    let body = serde_json::to_vec(&request).expect("a question is JSON");
    assert!(body.len() <= BODY_BYTES_MAX, "{} bytes", body.len());
    let client = carried::peer(peer);
    assert_eq!(client, carried::peer(client.as_bytes()), "told twice");
}

fn blank() -> AdmitRequest {
    let epoch = Epoch::from_random([0xab; 16]);
    let holder = HolderId {
        proxy: ProxyId::lossy(b"envoy-1"),
        epoch: epoch.clone(),
    };
    let pool = PoolName::parse("p").expect("a pool name");
    AdmitRequest::new(pool, holder, LeaseId { epoch, seq: 1 })
}

fn hop(path: &[u8]) {
    let hops = carried::hops(path);
    let next = carried::with_hop(path);
    assert!(next.bytes().all(|byte| byte.is_ascii_graphic()), "{next}");
    assert_eq!(carried::hops(next.as_bytes()), hops.saturating_add(1));
    let hidden = carried::without_hops(path);
    assert_eq!(carried::hops(&hidden), 0);
    assert_eq!(carried::without_hops(&hidden), hidden);
}
