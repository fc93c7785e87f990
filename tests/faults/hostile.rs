//! Row 19: whatever is sent to a sidecar, it answers, keeps its memory, and serves everybody else. What is
//! sent to Envoy is in fleet/spoofing.rs.

use admission::id::{Epoch, LeaseId};
use admission::message::{Release, ReleaseRequest, Use};
use futures_util::future::join_all;
use harness::api::test_holder;
use harness::wait::{DEADLINE, eventually};
use harness::{Fleet, RunningFleet};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends these bytes to the sidecar; the status, if there is an answer before the connection ends.
async fn status(fleet: &RunningFleet, bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(fleet.sidecars[0].listen())
        .await
        .unwrap();
    let mut heard = Vec::new();
    let exchange = async {
        let _ = stream.write_all(bytes).await;
        // Whoever leaves early need not be answered.
        if bytes.is_empty() {
            let _ = stream.shutdown().await;
        }
        let _ = stream.read_to_end(&mut heard).await;
    };
    tokio::time::timeout(DEADLINE, exchange)
        .await
        .expect("it ends");
    let text = String::from_utf8_lossy(&heard);
    text.split(' ').nth(1)?.parse().ok()
}

fn post(path: &str, headers: &[u8], body: &[u8]) -> Vec<u8> {
    let start = format!("POST {path} HTTP/1.1\r\nhost: b\r\nconnection: close\r\n");
    let length = format!("content-length: {}\r\n\r\n", body.len());
    [start.as_bytes(), headers, length.as_bytes(), body].concat()
}

/// A name, the bytes, and the status that answers them; none where the connection ends.
type Hostile = (&'static str, Vec<u8>, Option<u16>);

fn hostile_messages() -> Vec<Hostile> {
    let admit = |headers: &[u8], body: &[u8]| post("/v1/admit", headers, body);
    let deep = format!(r#"{{"pool":{}"#, "[".repeat(15_000));
    let wide = format!(r#"{{"pool":[{}0]}}"#, "0,".repeat(9000));
    let many: Vec<u8> = (0..100)
        .flat_map(|n| format!("x-{n}: {n}\r\n").into_bytes())
        .collect();
    let large = [b"x-large: ".as_slice(), &[b'a'; 60 * 1024], b"\r\n"].concat();
    let forged = "{\"pool\": \"demo\\r\\n2026-01-01 ERROR forged\\u001b[2J\"}";
    vec![
        (
            "bytes above 0x7f in a header",
            admit(b"x-high: \xff\xfe\x80\r\n", b"{}"),
            Some(400),
        ),
        (
            "such an id",
            admit(b"x-request-id: \xff\x1b[31m\r\n", b"{}"),
            Some(400),
        ),
        (
            "such a body",
            admit(b"", b"{\"pool\": \"\xff\xfe\"}"),
            Some(400),
        ),
        ("such a path", post("/v1/\u{fffd}", b"", b""), Some(404)),
        ("100 headers", admit(&many, b"{}"), Some(431)),
        ("60 KiB in one header", admit(&large, b"{}"), Some(431)),
        (
            "a bomb that is deep",
            admit(b"", deep.as_bytes()),
            Some(400),
        ),
        (
            "a bomb that is wide",
            admit(b"", wide.as_bytes()),
            Some(400),
        ),
        (
            "a body that never ends",
            post("/v1/release", b"", &[b'x'; 30_000]),
            Some(413),
        ),
        (
            "another line for the log",
            admit(b"", forged.as_bytes()),
            Some(400),
        ),
        (
            "two lengths",
            admit(b"content-length: 5\r\n", b"{}"),
            Some(400),
        ),
        (
            "a length that is none",
            b"POST /v1/admit HTTP/1.1\r\ncontent-length: -1\r\n\r\n".to_vec(),
            Some(400),
        ),
        (
            "no HTTP",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
            Some(400),
        ),
        ("nothing", vec![], None),
    ]
}

#[tokio::test]
async fn hostile_messages_hurt_neither_the_sidecar_nor_anybodys_lease() {
    let settings = json!({"log_format": "json"});
    let fleet = Fleet::new()
        .sidecar_settings(settings)
        .log_level("debug")
        .up()
        .await;
    let sessions = fleet.sessions(2).await;
    let process = &fleet.sidecars[0].process;
    for (name, bytes, expected) in hostile_messages() {
        assert_eq!(status(&fleet, &bytes).await, expected, "{name}");
    }
    let before = process.memory_kib("VmRSS");
    for _ in 0..20 {
        join_all(
            hostile_messages()
                .iter()
                .map(|(_, bytes, _)| status(&fleet, bytes)),
        )
        .await;
    }
    let after = process.memory_kib("VmRSS");
    eprintln!(
        "hostile messages, 20 times each: the sidecar's memory {before} KiB, then {after} KiB"
    );
    assert!(
        after < before + 16 * 1024,
        "memory grows: {before} KiB, {after} KiB"
    );
    process.expect_running();
    assert_log_is_clean(&process.log());
    fleet.assert_unharmed(sessions).await;
}

/// Each line is one object, and nothing in it speaks to a terminal or came from a client.
fn assert_log_is_clean(log: &[u8]) {
    let mut lines = 0;
    for line in log
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let shown = String::from_utf8_lossy(line);
        assert!(
            serde_json::from_slice::<serde_json::Value>(line).is_ok(),
            "{shown}"
        );
        assert!(!line.iter().any(u8::is_ascii_control), "{shown}");
        assert!(!shown.contains("forged"), "{shown}");
        lines += 1;
    }
    assert!(lines > 10, "it was to say much");
}

#[tokio::test]
async fn a_forged_or_replayed_release_frees_nobodys_place() {
    let fleet = Fleet::new().max_concurrent(3).up().await;
    let sessions = fleet.sessions(2).await;
    let api = fleet.api();
    let own = api.question(1);
    api.admit(&own).await.unwrap();
    let release = |lease: LeaseId| ReleaseRequest {
        pool: harness::fleet::pool(),
        holder: test_holder(),
        releases: vec![Release {
            r#use: Use::Used,
            ..Release::unused(lease)
        }],
    };
    let answer = api.release(&release(own.lease.clone())).await.unwrap();
    assert_eq!((answer.released, answer.unknown), (1, 0));
    for _ in 0..3 {
        let replayed = api.release(&release(own.lease.clone())).await.unwrap();
        assert_eq!(
            (replayed.released, replayed.unknown),
            (0, 1),
            "it counts once"
        );
    }
    // Numbers can be guessed, an epoch of 128 random bits cannot; and who has one speaks for no other.
    for guess in 101..=150 {
        let lease = LeaseId {
            epoch: Epoch::from_random([guess; 16]),
            seq: u64::from(guess),
        };
        let mut forged = release(lease.clone());
        assert!(api.release(&forged).await.is_err(), "another's lease");
        forged.holder.epoch = lease.epoch;
        let answer = api.release(&forged).await.unwrap();
        assert_eq!((answer.released, answer.unknown), (0, 1));
    }
    fleet.assert_unharmed(sessions).await;
}

const LORISES: usize = 1000;
const VISITS: usize = 200;

/// What those begin with who never come to an end.
const BEGINNINGS: [&[u8]; 4] = [
    b"",
    b"POST /v1/admit HTTP/1.1\r\nhost: b\r\nx-slow: ",
    b"POST /v1/admit HTTP/1.1\r\nhost: b\r\ncontent-length: 10000\r\n\r\n{",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

/// How long clients need to come in, one after the other: the middle and the slowest of a hundred.
async fn visits(fleet: &RunningFleet) -> (Duration, Duration) {
    let mut times = Vec::new();
    for _ in 0..VISITS {
        let start = Instant::now();
        let session = fleet.client().websocket("/").await.admitted();
        times.push(start.elapsed());
        session.close().await;
        fleet
            .sees("the place is free", |pool| pool.active == 0)
            .await;
    }
    times.sort_unstable();
    (times[VISITS / 2], times[VISITS * 99 / 100])
}

/// Says one byte after the other, until the sidecar has had enough.
async fn loris(fleet: &RunningFleet, number: usize) -> Duration {
    const PACE: Duration = Duration::from_millis(500);
    let mut stream = TcpStream::connect(fleet.sidecars[0].listen())
        .await
        .unwrap();
    let start = Instant::now();
    let mut byte = [0; 256];
    let _ = stream
        .write_all(BEGINNINGS[number % BEGINNINGS.len()])
        .await;
    loop {
        let heard = tokio::time::timeout(PACE, stream.read(&mut byte)).await;
        if let Ok(Ok(0) | Err(_)) = heard {
            return start.elapsed();
        }
        // A frame of HTTP/2 that goes on is of no use here: they are silent.
        if number % BEGINNINGS.len() != 3 && stream.write_all(b"a").await.is_err() {
            return start.elapsed();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_slow_callers_are_gone_in_time_and_nobody_else_is_slow() {
    let fleet = Fleet::new().up().await;
    let process = &fleet.sidecars[0].process;
    let (half, most) = visits(&fleet).await;
    let before = process.memory_kib("VmRSS");
    let crowd = async {
        let gone = join_all((0..LORISES).map(|number| loris(&fleet, number))).await;
        gone.into_iter().max().unwrap_or_default()
    };
    let meanwhile = async {
        eventually("they are all there", async || {
            process.descriptors() > LORISES as u64
        })
        .await;
        let figures = visits(&fleet).await;
        (figures, process.memory_kib("VmRSS"))
    };
    let (longest, ((half_then, most_then), then)) = tokio::join!(crowd, meanwhile);
    eventually("all have gone", async || process.descriptors() < 100).await;
    eprintln!(
        "{VISITS} visits: p50 {half:.1?}, p99 {most:.1?}; beside {LORISES} slow callers p50 {half_then:.1?}, \
         p99 {most_then:.1?}; the sidecar's memory {before} KiB, {then} KiB with them, {} KiB after; the \
         longest stayed {longest:.1?}",
        process.memory_kib("VmRSS")
    );
    // Ten seconds are theirs; the rest is a busy machine.
    assert!(longest < Duration::from_secs(25), "{longest:?}");
    assert!(
        most_then < most * 10 + Duration::from_millis(250),
        "{most:?}, {most_then:?}"
    );
    assert!(
        then < before + 64 * 1024,
        "memory grows: {before} KiB, {then} KiB"
    );
    fleet.assert_consistent().await;
}
