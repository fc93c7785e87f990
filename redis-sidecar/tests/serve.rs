//! Listening: what a start may replace, and what an end may take away.

use crate::doors::OPERATOR;
use crate::support::server::{Server, free_address, request, send};
use crate::support::{Pool, Redis, eventually};
use redis_sidecar::serve::ServeError;
use redis_sidecar::settings::{Listen, Settings};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use tokio::net::TcpStream;

/// Linux' O_NONBLOCK.
const NONBLOCK: i32 = 0o4000;

fn settings(redis: &Redis, socket: &Path) -> Settings {
    Settings {
        listen: vec![Listen::Unix(socket.to_owned())],
        redis: redis.settings(),
        ..Settings::default()
    }
}

/// With the directory's berth.toml, its log beside that.
fn berth_in(directory: &Path) -> Child {
    let log = File::create(directory.join("log")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["serve", "--config"])
        .arg(directory.join("berth.toml"))
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
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

/// What operators look for first when something is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_says_who_was_not_let_in_and_which_redis_is_at_fault() {
    let (redis, directory) = (Redis::start(), tempfile::tempdir().unwrap());
    let file = |name: &str| directory.path().join(name);
    std::fs::write(file("tokens"), OPERATOR).unwrap();
    let (address, url) = (free_address(), redis.url());
    let settings = format!(
        "listen = []\ntokens.operator_file = {:?}\nredis.url = {url:?}\n[[listeners]]\naddress = \"{address}\"\n\
         serves = [\"operator\"]\n[pools.demo]\n",
        file("tokens")
    );
    std::fs::write(file("berth.toml"), settings).unwrap();
    let mut berth = berth_in(directory.path());
    let lines = |part: &str| -> Vec<String> {
        let log = std::fs::read_to_string(file("log")).unwrap();
        let lines = log.lines().filter(|line| line.contains(part));
        lines.map(str::to_owned).collect()
    };
    eventually(async || !lines("pools are applied").is_empty()).await;
    let stream = TcpStream::connect(address).await.unwrap();
    let from = stream.local_addr().unwrap().to_string();
    let refused = send(stream, &request("GET", "/v1/pools", &[], "")).await;
    assert_eq!(refused.unwrap().status, 401);
    eventually(async || !lines("not let in").is_empty()).await;
    let told = lines("not let in").concat();
    assert!(
        told.contains(&address.to_string()) && told.contains(&from),
        "{told}"
    );
    redis
        .command(&["ACL", "SETUSER", "default", "-fcall"])
        .await;
    eventually(async || !lines("Redis forbids it").is_empty()).await;
    let bearer = format!("Bearer {OPERATOR}");
    for _ in 0..5 {
        let stream = TcpStream::connect(address).await.unwrap();
        let asked = request("GET", "/v1/pools/demo", &[("authorization", &bearer)], "");
        assert_eq!(send(stream, &asked).await.unwrap().status, 503);
    }
    assert_eq!(lines("Redis forbids it").len(), 1, "once");
    let socket = redis.socket();
    drop(redis);
    eventually(async || !lines("lost Redis").is_empty()).await;
    let lost = lines("lost Redis").concat();
    assert!(lost.contains(&socket), "{lost}");
    berth.kill().unwrap();
    berth.wait().unwrap();
}

/// A pipe that nobody writes to is a disk that hangs: whoever reads it waits for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_hangs_keeps_no_sidecar_from_ending() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    std::fs::write(file("password"), "secret").unwrap();
    let (listen, nobody) = (free_address(), free_address());
    let settings = format!(
        "listen = [\"{listen}\"]\n[redis]\nurl = \"redis://{nobody}\"\npassword_file = {:?}\n",
        file("password")
    );
    std::fs::write(file("berth.toml"), settings).unwrap();
    let berth = berth_in(directory.path());
    eventually(async || TcpStream::connect(listen).await.is_ok()).await;
    let pipe = Command::new("mkfifo").arg(file("pipe")).status().unwrap();
    assert!(pipe.success());
    std::fs::rename(file("pipe"), file("password")).unwrap();
    // A pipe can be opened like this only while somebody has it open to read.
    let mut to_write = OpenOptions::new();
    to_write.write(true).custom_flags(NONBLOCK);
    let held = RefCell::new(None);
    eventually(async || {
        *held.borrow_mut() = to_write.open(file("password")).ok();
        held.borrow().is_some()
    })
    .await;
    let berth = RefCell::new(berth);
    let pid = Pid::from_child(&berth.borrow());
    kill_process(pid, Signal::TERM).unwrap();
    eventually(async || berth.borrow_mut().try_wait().unwrap().is_some()).await;
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
