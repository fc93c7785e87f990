//! Nothing that a client sends chooses a destination, skips the limit, or hurts the filter.

use base64::prelude::{BASE64_STANDARD, Engine};
use harness::client::worker_of;
use harness::decoy::Decoy;
use harness::{Fleet, RouteBy, RunningFleet, wait};
use hyper::header::HeaderMap;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::io::AsyncReadExt;

/// What a client would send to be routed to `address`, in every spelling we know.
fn spoofed(address: SocketAddr) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(
        "x-envoy-original-dst-host",
        address.to_string().parse().unwrap(),
    );
    headers.insert(
        "x-berth-address",
        BASE64_STANDARD.encode(address.to_string()).parse().unwrap(),
    );
    headers.insert("x-berth-fallback", "outage".parse().unwrap());
    headers
}

/// The fleet still works, and no VM had to be replaced.
async fn assert_unharmed(fleet: &RunningFleet) {
    let mut session = fleet.client().websocket("/").await.admitted();
    assert!(session.echoes("still here").await);
    session.close().await;
    fleet
        .sees("all places are free", |pool| pool.active == 0)
        .await;
    for envoy in &fleet.envoys {
        assert_eq!(
            envoy.stats("vm_reload").await.len(),
            4,
            "Envoy names these figures differently"
        );
        assert_eq!(envoy.stat("vm_reload").await, 0, "a VM failed");
    }
    fleet.assert_consistent().await;
}

#[tokio::test]
async fn spoofed_routing_headers_reach_nobody_with_original_dst() {
    spoofed_routing_headers_reach_nobody(RouteBy::OriginalDst).await;
}

#[tokio::test]
async fn spoofed_routing_headers_reach_nobody_with_stateful_session() {
    spoofed_routing_headers_reach_nobody(RouteBy::StatefulSession).await;
}

async fn spoofed_routing_headers_reach_nobody(route_by: RouteBy) {
    let fleet = Fleet::new().max_concurrent(1).route_by(route_by).up().await;
    let (client, decoy) = (fleet.client(), Decoy::open().await.unwrap());
    let worker = fleet.workers[0].address();
    for target in [decoy.address(), worker] {
        let answer = client.get_with("/", spoofed(target)).await;
        assert_eq!(worker_of(answer.headers()), "", "no lease, no worker");
        let body: Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!(body["backend"], json!("passthrough"));
        for header in spoofed(target).keys() {
            assert_eq!(
                body["headers"][header.as_str()],
                Value::Null,
                "{header} was let through"
            );
        }
        let session = client.websocket_with("/", spoofed(target)).await.admitted();
        assert_eq!(session.worker, "worker-1");
        let refused = client.websocket_with("/", spoofed(target)).await.refused();
        assert_eq!(
            refused.reason.as_deref(),
            Some("pool_full"),
            "the limit holds"
        );
        session.close().await;
        fleet
            .sees("the place is free", |pool| pool.active == 0)
            .await;
    }
    assert_eq!(decoy.visits(), 0);
    assert_eq!(fleet.workers[0].journal().opened_total(), 2);
    assert_unharmed(&fleet).await;
}

#[tokio::test]
async fn a_lease_ends_with_its_request_and_not_with_its_connection() {
    let fleet = Fleet::new()
        .filter(|filter| {
            filter["admit"] = json!("paths");
            filter["paths"] = json!(["/run"]);
        })
        .up()
        .await;
    let two_requests = b"GET /run HTTP/1.1\r\nHost: a\r\n\r\n\
        GET /other HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut stream = fleet.client().raw(two_requests).await.unwrap();
    let mut answers = String::new();
    tokio::time::timeout(wait::DEADLINE, stream.read_to_string(&mut answers))
        .await
        .unwrap()
        .unwrap();
    assert!(answers.contains(r#""worker":"worker-1""#), "{answers}");
    assert!(answers.contains(r#""backend":"passthrough""#), "{answers}");
    assert_eq!(fleet.workers[0].journal().opened_total(), 1);
}

/// A name, the headers, and the status that a plain request and an upgrade with them get.
type Hostile = (&'static str, Vec<u8>, [u16; 2]);

fn hostile_headers() -> Vec<Hostile> {
    let numbered = |count: u32| -> Vec<u8> {
        (0..count)
            .flat_map(|n| format!("x-{n}: {n}\r\n").into_bytes())
            .collect()
    };
    let large = |kib: usize| [b"x-large: ".as_slice(), &vec![b'a'; kib * 1024], b"\r\n"].concat();
    let high = b"x-high: \xff\xfe\x80\r\nx-request-id: \xff\r\ntraceparent: \xff\r\n".to_vec();
    let high_route = b"x-envoy-original-dst-host: \xff\r\nx-berth-address: \xff\r\n".to_vec();
    let empty_route = b"x-envoy-original-dst-host:\r\nx-berth-address:\r\n".to_vec();
    // More than a sidecar reads of a header.
    let long_trace = [b"traceparent: ".as_slice(), &[b'a'; 20 * 1024], b"\r\n"].concat();
    vec![
        ("bytes above 0x7f", high, [200, 101]),
        ("routing headers of such bytes", high_route, [200, 101]),
        ("empty routing headers", empty_route, [200, 101]),
        ("a long trace", long_trace, [200, 101]),
        // Envoy allows 100, and counts the upgrade's own seven.
        ("100 headers", numbered(93), [200, 101]),
        ("too many headers", numbered(200), [431, 431]),
        // Envoy allows 60 KiB for all of them together.
        ("59 KiB of headers", large(59), [200, 101]),
        ("60 KiB in one header", large(60), [431, 431]),
    ]
}

#[tokio::test]
async fn hostile_headers_do_not_hurt_the_filter() {
    let fleet = Fleet::new().up().await;
    for (name, headers, expected) in hostile_headers() {
        for (start, expected) in [PLAIN, UPGRADE].into_iter().zip(expected) {
            let request = [start, &headers, b"\r\n"].concat();
            let status = fleet.client().raw_status(&request).await.unwrap();
            assert_eq!(status, Some(expected), "{name}");
            fleet
                .sees("all places are free", |pool| pool.active == 0)
                .await;
        }
    }
    assert_unharmed(&fleet).await;
}

#[tokio::test]
async fn hostile_upgrades_do_not_hurt_the_filter() {
    let fleet = Fleet::new().up().await;
    for upgrade in [
        b"\xff".as_slice(),
        b"websocket\xff",
        b"",
        b",,,",
        b"websocket, \xff",
    ] {
        let request = [UPGRADE_TO, upgrade, b"\r\n\r\n"].concat();
        // Whether Envoy refuses it or passes it on: what counts is that there is an answer.
        let status = fleet.client().raw_status(&request).await.unwrap();
        assert!(status.is_some(), "no answer to {upgrade:?}");
        fleet
            .sees("all places are free", |pool| pool.active == 0)
            .await;
    }
    assert_unharmed(&fleet).await;
}

const PLAIN: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\n";
const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const UPGRADE_TO: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: ";
