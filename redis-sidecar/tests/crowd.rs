//! Too much, too slow, too large: refused in a word, and nobody else is the worse for it.

use crate::doors::{FILTER, METRICS, OPERATOR, Sidecar};
use crate::support::server::{AT_ONCE, request, send};
use crate::support::{eventually, holder};
use admission::message::BATCH_MAX;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Longer than anybody waits here.
const PATIENCE: Duration = Duration::from_secs(30);

async fn connect(sidecar: &Sidecar) -> UnixStream {
    UnixStream::connect(sidecar.socket()).await.unwrap()
}

fn authorized(rest: &str) -> Vec<u8> {
    format!("POST /v1/admit HTTP/1.1\r\nhost: b\r\nauthorization: Bearer {FILTER}\r\n{rest}").into()
}

fn question(number: u64) -> String {
    let holder = holder(1);
    let lease = format!("{}.{number}", holder.epoch);
    format!(r#"{{"pool": "demo", "holder": "{holder}", "lease": "{lease}"}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_is_refused_at_once_and_presences_do_not_count() {
    let sidecar = Sidecar::start(|settings| {
        settings.limits.requests_max = 2;
        settings.answer_timeout_ms = PATIENCE.as_millis() as u64;
        settings.redis.timeout_ms = PATIENCE.as_millis() as u64;
    })
    .await;
    let presences = (1..=5).map(|number| {
        let (number, holder) = (number.to_string(), holder(number).to_string());
        let bearer = format!("Bearer {FILTER}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("x-berth-pool", "demo"),
            ("x-berth-holder", holder.as_str()),
            ("x-berth-presence", number.as_str()),
        ];
        request("GET", "/v1/presence", &headers, "")
    });
    let mut present = Vec::new();
    for bytes in presences {
        let mut stream = connect(&sidecar).await;
        stream.write_all(&bytes).await.unwrap();
        present.push(stream);
    }
    eventually(async || sidecar.metric("berth_holders{pool=\"demo\"} 5").await).await;
    sidecar.redis.stop();
    let ask = async |number| {
        let question = question(number);
        sidecar
            .call(Some(FILTER), "POST", "/v1/admit", &question)
            .await
    };
    // Of three, two wait for Redis, whichever; the third hears at once that it must not.
    let started = Instant::now();
    let first = tokio::select! {
        answer = ask(1) => answer,
        answer = ask(2) => answer,
        answer = ask(3) => answer,
    };
    assert_eq!(first.body["error"], "overloaded", "{first:?}");
    assert_eq!(first.status, 503);
    assert!(first.head.contains("x-berth: 1"));
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
    assert_eq!(sidecar.call(None, "GET", "/healthz", "").await.status, 200);
    sidecar.redis.go_on();
    eventually(async || ask(4).await.status == 200).await;
    drop(present);
    sidecar.server.end().await.unwrap();
}

/// Who has no token may ask whether a sidecar is ready: that must not keep others from being answered.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_whether_it_is_ready_takes_no_room() {
    let sidecar = Sidecar::start(|settings| settings.limits.requests_max = 1).await;
    sidecar.redis.stop();
    let ask_ready = async || sidecar.call(None, "GET", "/readyz", "").await.status;
    let crowd = async { tokio::join!(ask_ready(), ask_ready(), ask_ready(), ask_ready()) };
    let question = question(1);
    let asking = async {
        // The crowd is first.
        let healthy = sidecar.call(None, "GET", "/healthz", "").await;
        assert_eq!(healthy.status, 200);
        let answer = sidecar.call(Some(FILTER), "POST", "/v1/admit", &question);
        let going_on = async { sidecar.redis.go_on() };
        let (answer, ()) = tokio::join!(answer, going_on);
        answer
    };
    let (ready, answer) = tokio::join!(crowd, asking);
    assert_eq!(ready, (200, 200, 200, 200));
    assert_eq!(answer.status, 200, "{answer:?}");
    sidecar.server.end().await.unwrap();
}

/// How a caller can be slow, the words that it stops in, and what it is told.
type Slow<'a> = (&'a str, &'a [u8], Option<u16>);

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_say_what_it_wants_is_gone_in_time() {
    let sidecar = Sidecar::start(|settings| {
        settings.limits.header_timeout_ms = 300;
        settings.limits.body_timeout_ms = 300;
    })
    .await;
    let unfinished = authorized("content-length: 100\r\n\r\n{\"pool\"");
    let second = b"GET /healthz HTTP/1.1\r\nhost: b\r\n\r\nGET /healthz HTTP/1.1\r\nx-slow: ";
    let slow: [Slow<'_>; 7] = [
        ("nothing", b"", None),
        ("half a line", b"POST /v1/adm", None),
        (
            "half a header",
            b"POST /v1/admit HTTP/1.1\r\nhost: b\r\nx-slow: ",
            None,
        ),
        ("half a preface", b"PRI * HTTP/2.0\r\n", None),
        ("a preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", None),
        ("half a body", &unfinished, Some(408)),
        ("half a second header", second, Some(200)),
    ];
    for (name, bytes, status) in slow {
        let answer = send(connect(&sidecar).await, bytes).await;
        assert_eq!(answer.map(|it| it.status), status, "{name}");
    }
    assert!(
        sidecar
            .metric(r#"berth_refusals_total{reason="slow_body"} 1"#)
            .await
    );
    sidecar.server.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_caller_that_asked_before_keeps_its_connection() {
    let sidecar = Sidecar::start(|settings| settings.limits.header_timeout_ms = 2000).await;
    let mut stream = connect(&sidecar).await;
    for _ in 0..3 {
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: b\r\n\r\n")
            .await
            .unwrap();
        let mut heard = [0; 17];
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard[..15], b"HTTP/1.1 200 OK");
        let mut rest = [0; 1024];
        let _ = stream.read(&mut rest).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await; // allow: the quiet is the point
    }
    sidecar.server.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_refused() {
    let sidecar = Sidecar::start(|_| {}).await;
    let header = |bytes: usize| format!("x-large: {}\r\n\r\n", "a".repeat(bytes));
    let many: String = (0..100).map(|n| format!("x-{n}: {n}\r\n")).collect();
    let deep = "[".repeat(10_000);
    let bomb = format!(r#"{{"pool": {deep}"#);
    let large = "x".repeat(21 * 1024);
    let pieces = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let body = |body: &str| {
        format!(
            "connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    for (name, rest, status) in [
        ("a large header", header(64 * 1024), 431),
        ("many headers", many + "\r\n", 431),
        ("a large body", body(&large), 413),
        (
            "a large body in pieces",
            format!("connection: close\r\ntransfer-encoding: chunked\r\n\r\n{pieces}"),
            413,
        ),
        (
            "a body that claims to be large",
            "connection: close\r\ncontent-length: 99999999999\r\n\r\n{".into(),
            413,
        ),
        ("a deep body", body(&bomb), 400),
        (
            "a long number",
            body(&format!(r#"{{"pool": 1{}}}"#, "0".repeat(5000))),
            400,
        ),
        (
            "the same key often",
            body(&format!("{{{}}}", r#""pool": "demo","#.repeat(500))),
            400,
        ),
    ] {
        let answer = send(connect(&sidecar).await, &authorized(&rest)).await;
        assert_eq!(answer.map(|it| it.status), Some(status), "{name}");
    }
    sidecar.server.end().await.unwrap();
}

/// Beats are the largest bodies. Those that never end keep what was read of them.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_take_no_more_memory_together_than_they_may() {
    const BEAT_BYTES_MAX: usize = 4 * 1024 * 1024;
    const BEATS_MAX: usize = 16;
    let sidecar = Sidecar::start(|settings| settings.limits.body_timeout_ms = 600_000).await;
    let head = format!(
        "POST /v1/renew HTTP/1.1\r\nhost: b\r\nauthorization: Bearer {FILTER}\r\n\
         content-length: {BEAT_BYTES_MAX}\r\n\r\n"
    );
    let unfinished = [head.as_bytes(), &vec![b' '; BEAT_BYTES_MAX - 1]].concat();
    // Whoever is refused may not be heard to the end.
    let begin = async || {
        let mut stream = connect(&sidecar).await;
        let _ = stream.write_all(&unfinished).await;
        stream
    };
    let question = question(1);
    let ask = async || {
        let asked = sidecar.call(Some(FILTER), "POST", "/v1/admit", &question);
        asked.await.body["error"].clone()
    };
    let mut held = Vec::new();
    for _ in 1..BEATS_MAX {
        held.push(begin().await);
    }
    assert_eq!(ask().await, Value::Null, "there is room for one more");
    // A question that is read at the same moment may have what the last one still needs: then that one is
    // refused, and begins anew.
    let is_full = async || {
        for _ in 0..20 {
            if ask().await == "overloaded" {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await; // allow: the pause between two looks
        }
        false
    };
    eventually(async || {
        let last = begin().await;
        let full = is_full().await;
        drop(last);
        full
    })
    .await;
    eventually(async || ask().await == Value::Null).await;
    sidecar.server.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_has_no_more_than_it_may_have() {
    let sidecar = Sidecar::start(|_| {}).await;
    let release = async |count: u64| {
        let holder = holder(1);
        let release = |number: u64| {
            let lease = format!("{}.{number}", holder.epoch);
            json!({"lease": lease, "use": "used", "outcome": "success"})
        };
        let releases: Vec<_> = (1..=count).map(release).collect();
        let body = json!({"pool": "demo", "holder": holder, "releases": releases}).to_string();
        let answer = sidecar.call(Some(FILTER), "POST", "/v1/release", &body);
        answer.await.status
    };
    let most = BATCH_MAX as u64;
    assert_eq!(release(most).await, 200);
    assert_eq!(release(most + 1).await, 400);
    sidecar.server.end().await.unwrap();
}

/// Whoever asks names its proxy, and each that is remembered is a line of the metrics.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_name_no_more_proxies_than_a_fleet_has() {
    const PROXIES_MAX: usize = 1000;
    let sidecar = Sidecar::start(|_| {}).await;
    for number in 0..PROXIES_MAX + 10 {
        let holder = format!("proxy-{number}/{}", holder(1).epoch);
        let body = json!({"pool": "demo", "holder": holder, "releases": []}).to_string();
        let answer = sidecar.call(Some(FILTER), "POST", "/v1/release", &body);
        assert_eq!(answer.await.status, 200);
    }
    let metrics = sidecar.call(Some(METRICS), "GET", "/metrics", "").await;
    let named = metrics.body.as_str().unwrap();
    let named = named.matches("websocket_proxy_instance{").count();
    assert_eq!(named, PROXIES_MAX);
    sidecar.server.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stays_open_leaves_the_listener_no_room_and_is_counted() {
    let sidecar = Sidecar::start(|settings| {
        settings.limits.connections_max = 3;
        settings.limits.header_timeout_ms = 1000;
    })
    .await;
    let held: Vec<_> = [
        connect(&sidecar).await,
        connect(&sidecar).await,
        connect(&sidecar).await,
    ]
    .into();
    let started = Instant::now();
    let refused = send(connect(&sidecar).await, &authorized("\r\n")).await;
    assert!(
        refused.is_none() && started.elapsed() < Duration::from_millis(900),
        "{refused:?}"
    );
    // Those who said nothing are gone after a while, and there is room again.
    eventually(async || {
        let bytes = request(
            "GET",
            "/metrics",
            &[("authorization", &format!("Bearer {METRICS}"))],
            "",
        );
        let answer = send(connect(&sidecar).await, &bytes).await;
        answer.is_some_and(|it| {
            it.body
                .as_str()
                .unwrap()
                .contains("berth_connections_refused_total{listener=\"unix:")
        })
    })
    .await;
    drop(held);
    sidecar.server.end().await.unwrap();
}

/// A connection over HTTP/2 whose peer wants no bytes of any answer.
pub(crate) fn without_a_window() -> Vec<u8> {
    // SETTINGS: INITIAL_WINDOW_SIZE is 0.
    let settings = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00";
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], settings].concat()
}

/// HEADERS, whole: GET, http, the authority a, this path, and this token.
fn get(stream: u32, path: &str, token: &str) -> Vec<u8> {
    let bearer = format!("Bearer {token}");
    let mut headers = b"\x82\x86\x41\x01a\x04".to_vec();
    headers.push(path.len() as u8);
    headers.extend(path.bytes());
    headers.extend([0x0f, 0x08, bearer.len() as u8]);
    headers.extend(bearer.bytes());
    let mut frame = vec![0, 0, headers.len() as u8, 1, 5];
    frame.extend(stream.to_be_bytes());
    frame.extend(headers);
    frame
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_no_answer_is_gone_in_time() {
    let sidecar = Sidecar::start(|settings| settings.limits.body_timeout_ms = 300).await;
    let mut stream = connect(&sidecar).await;
    let asked = [without_a_window(), get(1, "/healthz", "")].concat();
    stream.write_all(&asked).await.unwrap();
    let mut heard = Vec::new();
    let ended = tokio::time::timeout(AT_ONCE, stream.read_to_end(&mut heard)).await;
    assert!(ended.is_ok(), "it is ended");
    // The same over HTTP/1.1: it asks on and on, and never reads.
    let mut stream = connect(&sidecar).await;
    let ask =
        format!("GET /metrics HTTP/1.1\r\nhost: b\r\nauthorization: Bearer {METRICS}\r\n\r\n");
    let asking = async { while stream.write_all(ask.as_bytes()).await.is_ok() {} };
    let ended = tokio::time::timeout(AT_ONCE, asking).await;
    assert!(ended.is_ok(), "it is ended");
    let counted = r#"berth_refusals_total{reason="untaken"} 2"#;
    assert!(sidecar.metric(counted).await);
    sidecar.server.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_caller_is_bounded_in_bytes() {
    let sidecar = Sidecar::start(|settings| settings.limits.body_timeout_ms = 600_000).await;
    // So that there is more to tell.
    for number in 1..=10 {
        let worker = format!(r#"{{"address": "10.0.0.{number}:80", "incarnation": "a"}}"#);
        let path = format!("/v1/pools/demo/workers/w{number}");
        let known = sidecar.call(Some(OPERATOR), "PUT", &path, &worker).await;
        assert_eq!(known.status, 200, "{known:?}");
    }
    let metrics = sidecar.call(Some(METRICS), "GET", "/metrics", "").await;
    let bytes = metrics.body.as_str().unwrap().len();
    let many = 2 * 1024 * 1024 / bytes + 1;
    assert!(
        many < 256,
        "of {bytes} bytes each, more than the streams of a connection"
    );
    let mut stream = connect(&sidecar).await;
    let mut asked = without_a_window();
    for number in 0..many as u32 {
        asked.extend(get(2 * number + 1, "/metrics", METRICS));
    }
    stream.write_all(&asked).await.unwrap();
    let mut heard = Vec::new();
    let ended = tokio::time::timeout(AT_ONCE, stream.read_to_end(&mut heard)).await;
    assert!(ended.is_ok(), "it is ended");
    let counted = r#"berth_refusals_total{reason="untaken"} 1"#;
    assert!(sidecar.metric(counted).await);
    sidecar.server.end().await.unwrap();
}

/// HTTP/2: streams that are opened and reset at once, more than anybody could look at.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_resets_ends_its_own_connection_only() {
    let sidecar = Sidecar::start(|_| {}).await;
    let mut flood =
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00".to_vec();
    for stream in (1..2000_u32).step_by(2) {
        let number = stream.to_be_bytes();
        // HEADERS, whole: GET, http, /, authority a. Then RST_STREAM: CANCEL.
        flood.extend(
            [0, 0, 6, 1, 5]
                .iter()
                .chain(&number)
                .chain(b"\x82\x86\x84\x41\x01a"),
        );
        flood.extend([0, 0, 4, 3, 0].iter().chain(&number).chain(&[0, 0, 0, 8]));
    }
    let mut stream = connect(&sidecar).await;
    let mut heard = Vec::new();
    let ended = async {
        let _ = stream.write_all(&flood).await;
        let _ = stream.read_to_end(&mut heard).await;
    };
    tokio::time::timeout(AT_ONCE, ended)
        .await
        .expect("it is ended");
    // GOAWAY, ENHANCE_YOUR_CALM.
    let calm = [0, 0, 0, 11];
    assert!(heard.windows(4).any(|bytes| bytes == calm), "{heard:?}");
    let pools = sidecar.call(Some(OPERATOR), "GET", "/v1/pools", "").await;
    assert_eq!(pools.status, 200);
    sidecar.server.end().await.unwrap();
}
