use super::{load_text, refused};

/// The settings of one listener that others can reach.
fn remote(rest: &str) -> String {
    format!("{rest}\n[[listeners]]\naddress = \"10.0.0.5:7443\"\n")
}

const TOKENS: &str = "worker_tokens = [{name = \"a\", file = \"/t\"}]\n\
    tokens = {filter_file = \"/f\", operator_file = \"/o\"}";
const MUTUAL: &str = "tls = {cert_file = \"c\", key_file = \"k\", client_ca_file = \"a\"}";

#[test]
fn the_plain_door_is_for_this_host_only() {
    for address in ["0.0.0.0:7070", "10.0.0.5:7070", "[::]:7070"] {
        let message = refused(&format!("listen = [\"{address}\"]"), &[]);
        assert!(
            message.contains("[[listeners]]") && message.contains(address),
            "{message}"
        );
    }
    assert!(load_text("listen = [\"[::1]:7070\"]", &[]).is_ok());
}

#[test]
fn what_was_allow_remote_is_told_what_to_write_instead() {
    for message in [
        refused("allow_remote = true", &[]),
        refused("", &[("BERTH__ALLOW_REMOTE", "true")]),
    ] {
        assert!(
            message.contains("[[listeners]]") && message.contains("tokens"),
            "{message}"
        );
    }
}

#[test]
fn a_door_to_other_hosts_needs_a_token_for_all_that_it_serves_or_certificates() {
    for (settings, missing) in [
        (remote(""), "tokens.filter_file"),
        (
            remote("tokens = {filter_file = \"/f\"}"),
            "[[worker_tokens]]",
        ),
        (remote(TOKENS) + "tokens = false", "tokens.filter_file"),
        (
            remote("") + "serves = [\"operator\"]",
            "tokens.operator_file",
        ),
        (remote("") + "serves = [\"metrics\"]", "tokens.metrics_file"),
        (
            remote("") + "tls = {cert_file = \"c\", key_file = \"k\"}",
            "client_ca_file",
        ),
    ] {
        let message = refused(&settings, &[]);
        assert!(
            message.contains(missing) && message.contains("10.0.0.5:7443"),
            "{message}"
        );
    }
    for settings in [
        remote(TOKENS),
        remote("") + MUTUAL,
        remote("tokens = {filter_file = \"/f\"}") + "serves = [\"data\"]",
        remote("tokens = {operator_file = \"/o\"}") + "serves = [\"metrics\", \"operator\"]",
    ] {
        assert!(load_text(&settings, &[]).is_ok(), "{settings}");
    }
}

#[test]
fn a_door_on_this_host_may_serve_a_part_without_tokens() {
    let settings = "listen = []\n[[listeners]]\naddress = \"127.0.0.1:9\"\nserves = [\"metrics\"]";
    assert!(load_text(settings, &[]).is_ok());
    assert!(refused("listen = []", &[]).contains("listeners"));
}

#[test]
fn a_token_that_no_door_asks_for_is_refused() {
    let door = |serves: &str, tokens: bool| {
        format!(
            "\n[[listeners]]\naddress = \"127.0.0.1:9\"\nserves = [\"{serves}\"]\ntokens = {tokens}"
        )
    };
    for (tokens, named, serves, other) in [
        (
            "tokens.filter_file = \"/f\"",
            "tokens.filter_file",
            "data",
            "worker",
        ),
        (
            "tokens.operator_file = \"/o\"",
            "tokens.operator_file",
            "operator",
            "worker",
        ),
        (
            "tokens.metrics_file = \"/m\"",
            "tokens.metrics_file",
            "metrics",
            "operator",
        ),
        (
            "worker_tokens = [{name = \"a\", file = \"/t\"}]",
            "[[worker_tokens]]",
            "worker",
            "data",
        ),
    ] {
        for settings in [
            tokens.to_owned(),
            tokens.to_owned() + &door(other, true),
            tokens.to_owned() + &door(serves, false),
        ] {
            let message = refused(&settings, &[]);
            let remedy = format!("serves = [\"{serves}\"]");
            assert!(
                message.contains(named) && message.contains(&remedy),
                "{message}"
            );
        }
        let asked = tokens.to_owned() + &door(serves, true);
        assert!(load_text(&asked, &[]).is_ok(), "{asked}");
    }
}

#[test]
fn a_worker_token_for_a_pool_that_is_not_there_is_doubted() {
    let settings = |pool: &str| {
        let token =
            format!("worker_tokens = [{{name = \"a\", file = \"/t\", pools = [\"{pool}\"]}}]");
        let file = remote(&token) + "serves = [\"worker\"]\n[pools.demo]\n";
        load_text(&file, &[]).unwrap().settings
    };
    assert!(settings("demo").doubts().is_empty());
    let doubts = settings("demmo").doubts();
    assert!(
        doubts.len() == 1 && doubts[0].contains("[pools.demmo]") && doubts[0].contains("a is for"),
        "{doubts:?}"
    );
}

#[test]
fn mistakes_are_named() {
    for (settings, named) in [
        (
            "[[listeners]]\naddress = \"127.0.0.1:9\"\nserves = []",
            "serve something",
        ),
        (
            "[[listeners]]\naddress = \"127.0.0.1:9\"\nserves = [\"admin\"]",
            "admin",
        ),
        ("[[worker_tokens]]\nname = \"a b\"\nfile = \"/t\"", "a b"),
        (
            "worker_tokens = [{name = \"a\", file = \"/t\"}, {name = \"a\", file = \"/u\"}]",
            "twice",
        ),
        (
            "[[worker_tokens]]\nname = \"a\"\nfile = \"/t\"\ncidrs = [\"10.0.0.0\"]",
            "cidrs[0]: expected a network, as 10.0.0.0/8",
        ),
        ("[workers]\nrefuse = [\"envoy\"]", "network/bits"),
        ("[workers]\nweight_max = 0.0", "workers.weight_max"),
        ("[limits]\nrequests_max = 0", "limits.requests_max"),
        ("[limits]\nbody_timeout_ms = 1", "limits.body_timeout_ms"),
        ("log_format = \"xml\"", "xml"),
    ] {
        let message = refused(settings, &[]);
        assert!(message.contains(named), "{settings}: {message}");
    }
}
