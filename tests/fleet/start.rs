//! Starting: other ways to reach the sidecar, and settings that must not get through.

use harness::envoy::{self, Envoy};
use harness::fleet::scratch;
use harness::http::Target;
use harness::process::Process;
use harness::{Fleet, RouteBy, eventually, paths, ports, process};
use serde_json::json;
use std::process::{Command, Stdio};

#[tokio::test]
async fn a_unix_socket_leads_to_the_sidecar_as_well() {
    let fleet = Fleet::new().max_concurrent(1).unix_sockets().up().await;
    let session = fleet.client().websocket("/").await.admitted();
    assert_eq!(fleet.view().await.active, 1);
    drop(session);
    fleet
        .sees("the place is free", |pool| pool.active == 0)
        .await;
}

#[tokio::test]
async fn a_bad_plugin_configuration_stops_envoy_with_a_message_that_names_the_setting() {
    let directory = scratch();
    let settings = envoy::Settings {
        name: "envoy".into(),
        route_by: RouteBy::OriginalDst,
        listen: ports::free(),
        least_request: None,
        admin: ports::free(),
        sidecar: Target::from(ports::free()),
        spare: None,
        passthrough: ports::free(),
        workers: vec![],
        concurrency: 1,
        listeners: envoy::Listeners::Fixed,
        restarts: envoy::Restarts::Cold,
        filter: envoy::Filter::Shipped,
        verify_tokens: false,
        sidecar_transport: None,
    };
    let spoil = |filter: &mut serde_json::Value| filter["watchdog_msec"] = json!(1);
    let envoy = Envoy::start(settings, spoil, directory.path());
    eventually("Envoy refuses", async || envoy.process.ended().is_some()).await;
    let log = envoy.process.log_tail();
    assert!(log.contains("watchdog_msec"), "{log}");
}

#[tokio::test]
async fn a_bad_setting_stops_the_sidecar_with_a_message_that_names_it() {
    for (variable, value, named) in [
        ("BERTH__REAP_MSEC", "1", "BERTH__REAP_MSEC"),
        ("BERTH__LISTEN", r#"["0.0.0.0:1"]"#, "[[listeners]]"),
        ("BERTH__REDIS__URL", "http://x", "redis.url"),
    ] {
        let message = refusal(variable, value).await;
        assert!(message.contains(named), "{message}");
    }
}

/// What a sidecar with this setting says before it ends.
async fn refusal(variable: &str, value: &str) -> String {
    let directory = scratch();
    let mut command = Command::new(paths::program("berth"));
    command.arg("serve").env(variable, value);
    let log = directory.path().join("berth.log");
    let sidecar = Process::start("berth", &mut command, log);
    eventually("berth refuses", async || sidecar.ended().is_some()).await;
    assert!(sidecar.ended().is_some_and(|status| !status.success()));
    String::from_utf8_lossy(&sidecar.log()).into_owned()
}

#[tokio::test]
async fn a_taken_address_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let message = refusal("BERTH__LISTEN", &format!("[\"{address}\"]")).await;
    assert!(
        message.contains(&address) && message.contains("listen"),
        "{message}"
    );
}

#[tokio::test]
async fn a_sidecar_whose_log_nobody_reads_still_ends_when_asked() {
    let listen = format!("[\"{}\"]", ports::free());
    let mut command = Command::new(paths::program("berth"));
    command
        .arg("serve")
        .env("BERTH__LISTEN", &listen)
        .stderr(Stdio::piped());
    let mut sidecar = process::spawn(&mut command).expect("berth");
    let mut log = std::io::BufReader::new(sidecar.stderr.take().expect("its log"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut log, &mut line).expect("a first line");
    drop(log);
    let id = sidecar.id().to_string();
    let sent = Command::new("kill").args(["-s", "TERM", &id]).status();
    assert!(sent.expect("kill").success());
    let ended = async || sidecar.try_wait().expect("its status").is_some();
    eventually("berth ends", ended).await;
}
