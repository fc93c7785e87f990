//! Calls that hang, through a sidecar that listens.

use crate::support::server::AT_ONCE;
use crate::support::{Pool, Vm, eventually};
use admission::message::{HOLDER_HEADER, POOL_HEADER, PRESENCE_HEADER, PRESENCE_PATH};
use axum::http::{Request, StatusCode};
use redis_sidecar::presence::PRESENCES_MAX;
use redis_sidecar::serve::{ServeError, serve};
use redis_sidecar::settings::{Listen, Settings};
use redis_sidecar::store::{Sign, Standing};
use redis_sidecar::{App, app};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

struct Sidecar {
    directory: tempfile::TempDir,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ServeError>>,
}

impl Sidecar {
    async fn start(pool: &Pool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let policy = pool.store.policy(&pool.name).unwrap().clone();
        let settings = Settings {
            listen: vec![Listen::Unix(directory.path().join("berth.sock"))],
            redis: pool.redis.settings(),
            reap_ms: 20,
            pools: [(pool.name.clone(), policy)].into(),
            ..Settings::default()
        };
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { serve(&settings, stopped).await });
        let sidecar = Self {
            directory,
            stop,
            task,
        };
        eventually(async || sidecar.connect().is_ok()).await;
        sidecar
    }

    fn connect(&self) -> std::io::Result<UnixStream> {
        UnixStream::connect(self.directory.path().join("berth.sock"))
    }

    /// A call that hangs as long as the returned stream is not answered.
    async fn open(&self, vm: &Vm<'_>, number: u64) -> UnixStream {
        let mut stream = self.connect().unwrap();
        let text = format!(
            "GET {PRESENCE_PATH} HTTP/1.1\r\nhost: sidecar\r\n{POOL_HEADER}: {}\r\n\
             {HOLDER_HEADER}: {}\r\n{PRESENCE_HEADER}: {number}\r\n\r\n",
            vm.pool.name, vm.holder
        );
        stream.write_all(text.as_bytes()).unwrap();
        eventually(async || vm.last_presence().await == number).await;
        stream
    }
}

/// What a call is answered with.
async fn answer(mut stream: UnixStream) -> String {
    let read = move || {
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    tokio::task::spawn_blocking(read).await.unwrap()
}

async fn one_worker(rebuild_ms: u64) -> Pool {
    let pool = Pool::with(|policy| policy.rebuild_ms = rebuild_ms).await;
    pool.register("w1", "a").await;
    pool
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_that_dies_gives_its_places_back_within_seconds() {
    let pool = one_worker(0).await;
    let sidecar = Sidecar::start(&pool).await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    let stream = sidecar.open(&vm, 1).await;
    drop(stream);
    eventually(async || pool.view().await.head.active == 0).await;
    assert_eq!(pool.repairs("reclaimed_presence").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_redis_does_not_hear_is_told_until_it_does() {
    let pool = one_worker(0).await;
    let sidecar = Sidecar::start(&pool).await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    let stream = sidecar.open(&vm, 1).await;
    pool.redis.stop();
    drop(stream);
    tokio::time::sleep(Duration::from_millis(300)).await; // allow: the end is noticed while Redis is away
    pool.redis.go_on();
    eventually(async || pool.view().await.head.active == 0).await;
    assert_eq!(pool.repairs("reclaimed_presence").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_ends_answers_and_ends_no_presence() {
    let pool = one_worker(0).await;
    let sidecar = Sidecar::start(&pool).await;
    let vm = Vm::new(&pool, 7);
    let stream = sidecar.open(&vm, 1).await;
    sidecar.stop.cancel();
    let told = answer(stream).await;
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    assert!(
        told.contains("stopping") && told.contains("x-berth: 1"),
        "{told}"
    );
    sidecar.task.await.unwrap().unwrap();
    let standing = vm.presence(Sign::Vouched, 1).await;
    assert_eq!(standing, Standing::Present { rebuild: None }, "still open");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_announces_whoever_is_present_and_makes_it_beat() {
    let pool = one_worker(1_000).await;
    let sidecar = Sidecar::start(&pool).await;
    let vm = Vm::new(&pool, 7);
    eventually(async || !pool.view().await.head.rebuilding).await;
    let stream = sidecar.open(&vm, 1).await;
    let other = ["HSET", "ws:{demo}:live", "store_id", "another"];
    pool.redis.command(&other).await;
    assert!(answer(stream).await.contains("rebuilding"));
    let awaited = pool.redis.command(&["ZCARD", "ws:{demo}:awaited"]).await;
    assert_eq!(awaited, redis::Value::Int(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_reclaimed_is_made_to_beat() {
    let pool = one_worker(0).await;
    let sidecar = Sidecar::start(&pool).await;
    let mut vm = Vm::new(&pool, 7);
    vm.admit().await;
    // Its sidecar was away for long.
    pool.clock().await.advance(15_000.0).await;
    eventually(async || pool.view().await.head.active == 0).await;
    let stream = sidecar.open(&vm, 1).await;
    assert!(answer(stream).await.contains("reclaimed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_names_no_presence_is_refused() {
    let pool = one_worker(0).await;
    let sidecar = Sidecar::start(&pool).await;
    let holder = format!("envoy/{}", "0".repeat(32));
    for (pool, holder, number) in [
        ("demo", holder.as_str(), "0"),
        ("demo", holder.as_str(), "x"),
        ("demo", "envoy", "1"),
        ("a b", holder.as_str(), "1"),
        ("other", holder.as_str(), "1"),
    ] {
        let mut stream = sidecar.connect().unwrap();
        let text = format!(
            "GET {PRESENCE_PATH} HTTP/1.1\r\nhost: sidecar\r\n{POOL_HEADER}: {pool}\r\n\
             {HOLDER_HEADER}: {holder}\r\n{PRESENCE_HEADER}: {number}\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).unwrap();
        let told = answer(stream).await;
        assert!(told.starts_with("HTTP/1.1 40"), "{told}");
    }
}

/// Redis stands still: nothing is written, and only places are taken.
#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_more_presences_than_there_may_be() {
    let pool = one_worker(0).await;
    let router = app(App::new(pool.store.clone(), AT_ONCE));
    let call = || {
        let request = Request::get(PRESENCE_PATH)
            .header(POOL_HEADER, pool.name.as_str())
            .header(HOLDER_HEADER, pool.holder.to_string())
            .header(PRESENCE_HEADER, 1)
            .body(axum::body::Body::empty())
            .unwrap();
        Box::pin(router.clone().oneshot(request))
    };
    let refused = async || {
        let answer = tokio::time::timeout(AT_ONCE, call()).await;
        let status = answer.expect("an answer").unwrap().status();
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    };
    pool.redis.stop();
    let mut present: Vec<_> = (0..PRESENCES_MAX).map(|_| call()).collect();
    for call in &mut present {
        assert!(hangs(call).await);
    }
    refused().await;
    present.pop();
    // Its end is not written yet.
    refused().await;
    pool.redis.go_on();
    eventually(async || hangs(&mut call()).await).await;
}

/// Whether a call that has begun is not answered at once.
async fn hangs<F: Future + Unpin>(call: &mut F) -> bool {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *call).poll(context).is_pending())).await
}

/// How a VM of an Envoy goes: its stream alone, or with the whole connection.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gone {
    Stream,
    Connection,
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http2_the_end_of_a_stream_is_heard_as_well_as_that_of_its_connection() {
    let pool = one_worker(0).await;
    let sidecar = Sidecar::start(&pool).await;
    for (number, gone) in [(7, Gone::Stream), (8, Gone::Connection)] {
        let mut vm = Vm::new(&pool, number);
        vm.admit().await;
        let path = sidecar.directory.path().join("berth.sock");
        let stream = UnixStream::connect(path).unwrap();
        let socket = stream.try_clone().unwrap();
        stream.set_nonblocking(true).unwrap();
        let stream = tokio::net::UnixStream::from_std(stream).unwrap();
        let executor = hyper_util::rt::TokioExecutor::new();
        let io = hyper_util::rt::TokioIo::new(stream);
        let shaken = hyper::client::conn::http2::handshake(executor, io).await;
        let (mut sender, connection) = shaken.unwrap();
        tokio::spawn(connection);
        let request = Request::get(format!("http://sidecar{PRESENCE_PATH}"))
            .header(POOL_HEADER, pool.name.as_str())
            .header(HOLDER_HEADER, vm.holder.to_string())
            .header(PRESENCE_HEADER, 1)
            .body(axum::body::Body::empty())
            .unwrap();
        let keep = sender.clone();
        let call = tokio::spawn(async move { sender.send_request(request).await.is_ok() });
        eventually(async || vm.last_presence().await == 1).await;
        match gone {
            Gone::Stream => call.abort(),
            Gone::Connection => socket.shutdown(std::net::Shutdown::Both).unwrap(),
        }
        eventually(async || pool.view().await.head.active == 0).await;
        drop(keep);
    }
    assert_eq!(pool.repairs("reclaimed_presence").await, 2);
}
