//! Listening: what a start may replace, and what an end may take away.

use crate::support::server::Server;
use crate::support::{Pool, Redis, eventually};
use redis_sidecar::serve::ServeError;
use redis_sidecar::settings::{Listen, Settings};
use std::os::unix::net::UnixStream;
use std::path::Path;

fn settings(redis: &Redis, socket: &Path) -> Settings {
    Settings {
        listen: vec![Listen::Unix(socket.to_owned())],
        redis: redis.settings(),
        ..Settings::default()
    }
}

fn answers(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_left_behind_is_replaced_and_one_in_use_is_not() {
    let (redis, directory) = (Redis::start(), tempfile::tempdir().unwrap());
    let socket = directory.path().join("berth.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists() && !answers(&socket));
    let first = Server::start(settings(&redis, &socket));
    eventually(async || answers(&socket)).await;
    let second = Server::start(settings(&redis, &socket)).task.await.unwrap();
    assert!(matches!(second, Err(ServeError::Listen { .. })));
    assert!(answers(&socket));
    first.end().await.unwrap();
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ending_sidecar_leaves_its_successors_socket_alone() {
    let (redis, directory) = (Redis::start(), tempfile::tempdir().unwrap());
    let socket = directory.path().join("berth.sock");
    let first = Server::start(settings(&redis, &socket));
    eventually(async || answers(&socket)).await;
    // As if the first no longer answered, but had not ended yet.
    std::fs::remove_file(&socket).unwrap();
    let second = Server::start(settings(&redis, &socket));
    eventually(async || answers(&socket)).await;
    first.end().await.unwrap();
    assert!(answers(&socket));
    second.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_no_socket_is_not_touched() {
    let (redis, directory) = (Redis::start(), tempfile::tempdir().unwrap());
    let precious = directory.path().join("precious.txt");
    std::fs::write(&precious, "precious").unwrap();
    let refused = Server::start(settings(&redis, &precious))
        .task
        .await
        .unwrap();
    assert!(refused.unwrap_err().to_string().contains("no socket"));
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_changes_no_policy() {
    let pool = Pool::with(|policy| policy.max_concurrent = 5).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut policy = crate::support::default_policy();
    policy.max_concurrent = 77;
    let settings = Settings {
        listen: vec![Listen::Tcp(taken.local_addr().unwrap())],
        redis: pool.redis.settings(),
        pools: [(pool.name.clone(), policy)].into(),
        ..Settings::default()
    };
    for _ in 0..10 {
        assert!(Server::start(settings.clone()).task.await.unwrap().is_err());
    }
    assert_eq!(pool.view().await.policy.max_concurrent, 5);
}
