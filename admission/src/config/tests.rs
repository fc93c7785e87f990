use super::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn refused(json: &str) -> String {
    FilterConfig::parse(json.as_bytes())
        .unwrap_err()
        .to_string()
}

#[test]
fn a_pool_is_all_it_needs() {
    let config = FilterConfig::parse(br#"{"pool": "browsers"}"#).unwrap();
    assert_eq!(config.admit, Admit::Upgrades);
    assert_eq!(config.route_by, RouteBy::OriginalDst);
    assert_eq!(config.ask_timeout_ms, 300);
}

#[test]
fn unknown_and_bad_settings_are_named() {
    assert!(refused(r#"{}"#).contains("pool"));
    assert!(refused(r#"{"pool": "a b"}"#).contains("a pool name"));
    assert!(refused(r#"{"pool": "p", "pol": 1}"#).contains("pol"));
    assert!(refused(r#"{"pool": "p", "on_outage": "maybe"}"#).contains("maybe"));
    assert!(refused(r#"{"pool": "p", "watchdog_ms": 0}"#).contains("watchdog_ms"));
    assert!(refused(r#"{"pool": "p", "address_header": "X-A"}"#).contains("address_header"));
    assert!(refused("not json").contains("plugin configuration"));
}

#[test]
fn a_token_is_never_shown() {
    let token = "0123456789abcdef0123456789abcdef";
    let json = format!(r#"{{"pool": "p", "sidecar_token": "{token}"}}"#);
    let config = FilterConfig::parse(json.as_bytes()).unwrap();
    assert_eq!(config.sidecar_token.as_ref().unwrap().expose(), token);
    assert!(!format!("{config:?}").contains(token));
    let short = refused(r#"{"pool": "p", "sidecar_token": "secret"}"#);
    assert!(
        short.contains("sidecar_token") && !short.contains("secret"),
        "{short}"
    );
}

#[test]
fn paths_belong_to_the_paths_mode() {
    assert!(refused(r#"{"pool": "p", "admit": "paths"}"#).contains("paths"));
    assert!(refused(r#"{"pool": "p", "paths": ["/x"]}"#).contains("paths"));
    assert!(refused(r#"{"pool": "p", "admit": "paths", "paths": ["x"]}"#).contains("'/'"));
    assert!(FilterConfig::parse(br#"{"pool": "p", "admit": "paths", "paths": ["/x"]}"#).is_ok());
}

#[test]
fn a_path_that_could_never_be_met_is_refused() {
    let operations = |rules: &str| {
        let json = format!(r#"{{"pool": "p", "operations": [{rules}]}}"#);
        FilterConfig::parse(json.as_bytes()).map_err(|error| error.to_string())
    };
    let query = r#"{"path": "/db", "operation": "query"}"#;
    let begin = r#"{"path": "/db/begin", "operation": "begin"}"#;
    assert!(operations(&format!("{begin}, {query}")).is_ok());
    for (rules, named) in [
        (&*format!("{query}, {begin}"), "hides"),
        (&*format!("{query}, {query}"), "hides"),
        (r#"{"path": "db", "operation": "query"}"#, "'/'"),
        (r#"{"path": "/db?x", "operation": "query"}"#, "query string"),
        (r#"{"path": "/db", "operation": "drop"}"#, "drop"),
        (r#"{"path": "/db"}"#, "operation"),
        (r#"{"paths": "/db", "operation": "query"}"#, "paths"),
    ] {
        let refusal = operations(rules).unwrap_err();
        assert!(refusal.contains(named), "{rules}: {refusal}");
    }
    let query = r#"{"pool": "p", "admit": "paths", "paths": ["/x?y"]}"#;
    assert!(refused(query).contains("query string"));
}

#[test]
fn a_client_key_has_a_source() {
    let client = |json: &str| {
        let json = format!(r#"{{"pool": "p", "client": {json}}}"#);
        FilterConfig::parse(json.as_bytes()).map(|config| config.client.unwrap())
    };
    assert_eq!(client(r#""peer""#), Ok(ClientSource::Peer));
    let header = ClientSource::Header("x-tenant".into());
    assert_eq!(client(r#"{"header": "x-tenant"}"#), Ok(header));
    assert!(client(r#"{"metadata": {"filter": "f", "path": ["sub"]}}"#).is_ok());
    assert!(client(r#"{"header": "X-Tenant"}"#).is_err());
    assert!(client(r#"{"metadata": {"filter": "f", "path": []}}"#).is_err());
    assert!(client(r#""cookie""#).is_err());
}

#[test]
fn an_affinity_names_its_key() {
    let affinity = |json: &str| {
        let json = format!(r#"{{"pool": "p", "affinity": {json}}}"#);
        FilterConfig::parse(json.as_bytes()).map_err(|error| error.to_string())
    };
    let whole = r#"{"key": {"header": "x-tx"}, "bind": {"answer_header": "x-tx"},
        "unbind_paths": ["/commit"], "unbind_header": "x-tx-end"}"#;
    assert!(affinity(whole).is_ok());
    assert!(affinity(r#"{"key": {"cookie": "sid"}}"#).is_ok());
    for (json, named) in [
        (r#"{}"#, "key"),
        (r#"{"key": {"header": "X-Tx"}}"#, "affinity.key"),
        (r#"{"key": {"query": "a=b"}}"#, "affinity.key"),
        (
            r#"{"key": {"query": "a"}, "unbind_paths": ["x"]}"#,
            "unbind_paths",
        ),
        (
            r#"{"key": {"query": "a"}, "unbind_header": "X"}"#,
            "unbind_header",
        ),
    ] {
        let refusal = affinity(json).unwrap_err();
        assert!(refusal.contains(named), "{json}: {refusal}");
    }
}

#[test]
fn outages_are_met_in_one_of_three_ways() {
    for (text, expected) in [
        ("deny", OnOutage::Deny),
        ("allow", OnOutage::Allow),
        ("local_share", OnOutage::LocalShare),
    ] {
        let json = format!(r#"{{"pool": "p", "on_outage": "{text}"}}"#);
        let config = FilterConfig::parse(json.as_bytes()).unwrap();
        assert_eq!(config.on_outage, expected);
    }
}

#[test]
fn a_redirect_needs_to_know_where_it_stands() {
    assert!(refused(r#"{"pool": "p", "mode": "redirect"}"#).contains("self"));
    assert!(FilterConfig::parse(br#"{"pool": "p", "mode": "redirect", "self": "w"}"#).is_ok());
}

#[test]
fn self_is_a_worker_id() {
    let config = FilterConfig::parse(br#"{"pool": "p", "self": "db-1"}"#).unwrap();
    assert_eq!(config.own, Some(WorkerId::parse("db-1").unwrap()));
    assert!(refused(r#"{"pool": "p", "self": "a b"}"#).contains("a worker id"));
}
