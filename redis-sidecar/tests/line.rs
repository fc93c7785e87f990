//! A line: many calls over one that stays open.

use crate::crowd::without_a_window;
use crate::doors::{FILTER, Sidecar};
use crate::support::{Api, eventually};
use admission::message::{HolderWord, LINE_CALLS_MAX, LINE_PATH, LineAnswer, LineCall};
use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(30);

/// A holder's end of a line.
struct Line {
    say: mpsc::UnboundedSender<Vec<u8>>,
    answers: Body,
    heard: Vec<u8>,
}

/// What came over a line.
#[derive(Debug, PartialEq)]
enum Heard {
    Answer {
        number: u64,
        status: u16,
        body: Value,
    },
    Ready,
    Leaving,
    /// With gRPC's status.
    End(String),
}

/// The request that opens a line, and what is said on it.
fn opening() -> (mpsc::UnboundedSender<Vec<u8>>, Request<Body>) {
    let (say, said) = mpsc::unbounded_channel();
    let said = futures_util::stream::unfold(said, async |mut said| {
        let message: Vec<u8> = said.recv().await?;
        let frame = Frame::data(Bytes::from(message));
        Some((Ok::<_, Infallible>(frame), said))
    });
    let request = Request::post(LINE_PATH)
        .header("content-type", "application/grpc")
        .header("authorization", format!("Bearer {FILTER}"))
        .body(Body::new(StreamBody::new(said)))
        .expect("a request");
    (say, request)
}

impl Line {
    async fn open(api: &Api) -> Self {
        let (say, request) = opening();
        let response = api.send(request).await;
        assert_eq!(response.status(), StatusCode::OK);
        Self::begun(say, response.into_body()).await
    }

    async fn to(sidecar: &Sidecar) -> Self {
        let stream = UnixStream::connect(sidecar.socket()).await.unwrap();
        let (mut peer, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
        tokio::spawn(connection);
        let (say, request) = opening();
        let response = peer.send_request(request).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        Self::begun(say, Body::new(response.into_body())).await
    }

    async fn begun(say: mpsc::UnboundedSender<Vec<u8>>, answers: Body) -> Self {
        let mut line = Self {
            say,
            answers,
            heard: Vec::new(),
        };
        assert_eq!(line.hear().await, Heard::Ready);
        line
    }

    fn call(&self, number: u64, path: &str, body: &Value) {
        let body = body.to_string();
        let call = LineCall {
            number,
            path,
            body: body.as_bytes(),
        };
        self.say(&framed(&call.write()));
    }

    fn say(&self, bytes: &[u8]) {
        self.say.send(bytes.to_vec()).expect("an open line");
    }

    /// Nothing more will be said.
    fn end(&mut self) {
        (self.say, _) = mpsc::unbounded_channel();
    }

    async fn hear(&mut self) -> Heard {
        loop {
            if let Some((head, rest)) = self.heard.split_first_chunk::<5>() {
                let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                if let Some(message) = rest.get(..length) {
                    let heard = read(message);
                    self.heard.drain(..5 + length);
                    return heard;
                }
            }
            let frame = tokio::time::timeout(PATIENCE, self.answers.frame()).await;
            let frame = frame.expect("in time").expect("a frame").expect("no error");
            match frame.into_data() {
                Ok(data) => self.heard.extend_from_slice(&data),
                Err(frame) => {
                    let trailers = frame.into_trailers().expect("trailers");
                    let status = trailers["grpc-status"].to_str().expect("a number");
                    return Heard::End(status.to_owned());
                }
            }
        }
    }

    async fn answer(&mut self) -> (u64, u16, Value) {
        match self.hear().await {
            Heard::Answer {
                number,
                status,
                body,
            } => (number, status, body),
            other => panic!("{other:?}"),
        }
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("not as long");
    [&[0], &length.to_be_bytes()[..], message].concat()
}

fn read(message: &[u8]) -> Heard {
    match LineAnswer::read(message).expect("an answer") {
        LineAnswer::Ready => Heard::Ready,
        LineAnswer::Leaving => Heard::Leaving,
        LineAnswer::Answer {
            number,
            status,
            body,
        } => Heard::Answer {
            number,
            status,
            body: serde_json::from_slice(body).expect("JSON"),
        },
    }
}

fn questions(api: &Api, numbers: impl IntoIterator<Item = u64>) -> Value {
    let numbers = numbers.into_iter();
    let questions: Vec<Value> = numbers.map(|number| json!({"number": number})).collect();
    json!({"pool": "demo", "holder": api.pool.holder, "questions": questions})
}

#[tokio::test]
async fn a_call_on_a_line_is_answered_as_if_it_had_come_by_itself() {
    let api = Api::new().await;
    api.register().await;
    let mut line = Line::open(&api).await;
    line.call(7, "/v1/admit/group", &questions(&api, 1..=2));
    let (number, status, body) = line.answer().await;
    assert_eq!((number, status), (7, 200));
    assert_eq!(body["answers"][1]["address"], "10.0.0.1:80");
    assert_eq!(api.pool.view().await.head.active, 2);
    let lease = format!("{}.1", api.pool.holder.epoch);
    let release = json!({"pool": "demo", "holder": api.pool.holder,
        "releases": [{"lease": lease, "use": "used", "outcome": "success"}]});
    line.call(8, "/v1/release", &release);
    let released = json!({"released": 1, "unknown": 0});
    assert_eq!(line.answer().await, (8, 200, released));
    assert_eq!(api.pool.view().await.head.active, 1);
}

#[tokio::test]
async fn a_call_that_is_refused_leaves_the_line_as_it_is() {
    let api = Api::new().await;
    let mut line = Line::open(&api).await;
    for (path, status) in [
        ("/v1/admit", 400),
        ("/v1/nothing", 404),
        ("/v1/presence", 405),
        ("/v1/pools", 404),
        (LINE_PATH, 404),
    ] {
        line.call(1, path, &json!({}));
        assert_eq!(line.answer().await.1, status, "{path}");
    }
}

#[tokio::test]
async fn pieces_of_messages_and_several_at_once_are_read() {
    let api = Api::new().await;
    let mut line = Line::open(&api).await;
    let mut bytes: Vec<u8> = (1..=3).flat_map(|_| framed(b"1 /x\n{}")).collect();
    let rest = bytes.split_off(3);
    line.say(&bytes);
    line.say(&rest);
    for _ in 1..=3 {
        assert_eq!(line.answer().await.1, 404);
    }
}

#[tokio::test]
async fn what_is_no_call_ends_the_line() {
    let api = Api::new().await;
    let too_long = [&[0], &(1_u32 << 20).to_be_bytes()[..]].concat();
    let compressed = [&[1][..], &framed(b"1 /v1/admit\n{}")[1..]].concat();
    for wrong in [framed(b"hello"), framed(b"1 /\x01\n"), too_long, compressed] {
        let mut line = Line::open(&api).await;
        line.say(&wrong);
        assert_eq!(line.hear().await, Heard::End("3".into()), "{wrong:?}");
    }
    // Broken off in the middle.
    let mut line = Line::open(&api).await;
    line.say(b"\0\0");
    line.end();
    assert_eq!(line.hear().await, Heard::End("3".into()));
    let plain = api.json("POST", LINE_PATH, json!({})).await;
    assert_eq!(plain.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn a_line_ends_when_all_that_was_called_is_answered() {
    let api = Api::new().await;
    api.register().await;
    let mut line = Line::open(&api).await;
    api.pool.redis.stop();
    line.call(1, "/v1/admit/group", &questions(&api, 1..=1));
    line.call(2, "/v1/nothing", &json!({}));
    line.end();
    assert_eq!(line.answer().await.0, 2);
    api.pool.redis.go_on();
    assert_eq!(line.answer().await.0, 1);
    assert_eq!(line.hear().await, Heard::End("0".into()));
}

#[tokio::test]
async fn answers_that_nobody_is_left_to_hear_leave_no_leases() {
    let api = Api::new().await;
    api.register().await;
    let mut line = Line::open(&api).await;
    api.pool.redis.stop();
    line.call(1, "/v1/admit/group", &questions(&api, 1..=2));
    // Calls begin in their order: once this one is answered, the first is on its way.
    line.call(2, "/v1/nothing", &json!({}));
    assert_eq!(line.answer().await.0, 2);
    drop(line);
    api.pool.redis.go_on();
    api.until_taken_back(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_stops_says_so_and_answers_what_it_was_asked() {
    let sidecar = Sidecar::start(|_| {}).await;
    let mut line = Line::to(&sidecar).await;
    let stopping = tokio::spawn(sidecar.server.end());
    assert_eq!(line.hear().await, Heard::Leaving);
    line.call(1, "/v1/nothing", &json!({}));
    assert_eq!(line.answer().await.1, 404);
    line.end();
    assert_eq!(line.hear().await, Heard::End("0".into()));
    stopping.await.expect("a task").expect("an end");
}

#[tokio::test]
async fn a_holder_that_takes_leave_is_answered_and_hears_the_end() {
    let api = Api::new().await;
    let mut line = Line::open(&api).await;
    line.call(1, "/v1/nothing", &json!({}));
    line.say(&framed(&HolderWord::Leaving.write()));
    assert_eq!(line.answer().await.1, 404);
    assert_eq!(line.hear().await, Heard::End("0".into()));
}

/// All bodies together have room for 64 MiB.
#[tokio::test]
async fn a_message_that_was_heard_takes_no_more_room() {
    let api = Api::new().await;
    let mut line = Line::open(&api).await;
    let message = framed(format!("1 /x\n{}", " ".repeat(16 * 1024)).as_bytes());
    // Each piece ends a message and begins the next, so that something is always under way.
    line.say(&message[..1]);
    let piece = [&message[1..], &message[..1]].concat();
    for _ in 0..5000 {
        line.say(&piece);
        assert_eq!(line.answer().await.1, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_begins_a_message_has_to_end_it() {
    let sidecar = Sidecar::start(|settings| settings.limits.body_timeout_ms = 300).await;
    let mut line = Line::to(&sidecar).await;
    // The first of these is whole.
    line.say(&[&framed(b"1 /x\n{}")[..], &[0]].concat());
    assert_eq!(line.answer().await.1, 404);
    assert_eq!(line.hear().await, Heard::End("3".into()));
    assert!(
        sidecar
            .metric(r#"berth_refusals_total{reason="slow_body"} 1"#)
            .await
    );
    sidecar.server.end().await.unwrap();
}

#[tokio::test]
async fn calls_beyond_what_a_holder_needs_wait_until_others_are_answered() {
    let calls_max = u64::try_from(LINE_CALLS_MAX).expect("some");
    let api = Api::new().await;
    api.register().await;
    let mut line = Line::open(&api).await;
    api.pool.redis.stop();
    for number in 1..=calls_max {
        line.call(number, "/v1/admit/group", &questions(&api, [number]));
    }
    line.call(1000, "/v1/nothing", &json!({}));
    let early = tokio::time::timeout(Duration::from_millis(300), line.hear()).await; // allow: the time itself is tested
    assert!(early.is_err(), "{early:?}");
    api.pool.redis.go_on();
    let mut answered = Vec::new();
    for _ in 0..=calls_max {
        answered.push(line.answer().await.0);
    }
    answered.sort_unstable();
    assert!(answered.into_iter().eq((1..=calls_max).chain([1000])));
}

#[tokio::test]
async fn there_are_no_more_lines_than_a_fleet_has() {
    const LINES_MAX: usize = 10_000;
    let api = Api::new().await;
    let mut lines = Vec::new();
    for _ in 0..LINES_MAX {
        lines.push(Line::open(&api).await);
    }
    let (_say, request) = opening();
    let refused = api.send(request).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    lines.pop();
    eventually(async || api.send(opening().1).await.status() == StatusCode::OK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_taken_away_opens_nothing_on_an_old_line() {
    let sidecar = Sidecar::start(|_| {}).await;
    let mut line = Line::to(&sidecar).await;
    line.call(1, "/v1/admit", &json!({}));
    assert_eq!(line.answer().await.1, 400);
    sidecar.replace_token("filter", "another-0123456789abcdef0123456789abcdef");
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        line.call(2, "/v1/admit", &json!({}));
        match line.answer().await.1 {
            401 => break,
            status => assert!(tokio::time::Instant::now() < deadline, "{status}"),
        }
    }
    sidecar.server.end().await.unwrap();
}

/// HEADERS: POST, http, the authority a, a line's path, the filter's token and gRPC's kind.
fn raw_opening() -> Vec<u8> {
    let bearer = format!("Bearer {FILTER}");
    let mut headers = b"\x83\x86\x41\x01a".to_vec();
    for (name, value) in [
        (&b"\x04"[..], LINE_PATH),
        (b"\x0f\x08", &bearer),
        (b"\x0f\x10", "application/grpc"),
    ] {
        headers.extend(name);
        headers.push(u8::try_from(value.len()).expect("short"));
        headers.extend(value.bytes());
    }
    raw_frame(1, 4, &headers)
}

fn raw_frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("short");
    [&[0, 0, length, kind, flags, 0, 0, 0, 1], payload].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_calls_and_takes_no_answer_is_gone_in_time() {
    let sidecar = Sidecar::start(|settings| settings.limits.body_timeout_ms = 300).await;
    let untaken = r#"berth_refusals_total{reason="untaken"} 1"#;
    let mut stream = UnixStream::connect(sidecar.socket()).await.unwrap();
    let opened = [without_a_window(), raw_opening()].concat();
    stream.write_all(&opened).await.unwrap();
    // A line on which nobody speaks may be as old as it likes.
    tokio::time::sleep(Duration::from_millis(900)).await; // allow: the time itself is tested
    assert!(!sidecar.metric(untaken).await);
    // That it is ready is on its way to the peer, as far as a line can tell; what comes next waits.
    let call = raw_frame(0, 0, &framed(b"1 /x\n{}"));
    stream.write_all(&call).await.expect("it is still there");
    let mut heard = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut heard)).await;
    assert!(ended.is_ok(), "it is ended");
    assert!(sidecar.metric(untaken).await);
    sidecar.server.end().await.unwrap();
}
