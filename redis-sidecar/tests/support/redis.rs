//! A private redis-server, for tests and benchmarks.

use redis_sidecar::settings::RedisSettings;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Generous: a busy machine must not make a test fail.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// A redis-server on a Unix socket, without persistence, ended with whoever started it.
pub(crate) struct Redis {
    process: Child,
    directory: tempfile::TempDir,
}

impl Redis {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory for the socket");
        let process = Command::new("redis-server")
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(directory.path().join("redis.sock"))
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server on PATH; `make setup` installs it");
        Self { process, directory }
    }

    pub(crate) fn socket(&self) -> String {
        self.directory
            .path()
            .join("redis.sock")
            .display()
            .to_string()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket())
    }

    /// A second way in, for what no verb does.
    pub(crate) async fn command(&self, words: &[&str]) {
        let client = redis::Client::open(self.url()).expect("a client");
        let mut connection = client
            .get_multiplexed_async_connection()
            .await
            .expect("Redis");
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let _: redis::Value = command
            .query_async(&mut connection)
            .await
            .expect("an answer");
    }

    /// Redis answers nothing until `go_on`: the signal is sent and has reached every thread.
    pub(crate) fn stop(&self) {
        self.signal("STOP");
        let tasks = format!("/proc/{}/task", self.process.id());
        let stopped = |thread: std::fs::DirEntry| {
            // `PID (NAME) STATE …`
            let stat = std::fs::read_to_string(thread.path().join("stat"));
            stat.is_ok_and(|stat| stat.contains(") T "))
        };
        let started = Instant::now();
        while !std::fs::read_dir(&tasks)
            .expect("the threads of Redis")
            .flatten()
            .all(stopped)
        {
            assert!(started.elapsed() < STOP_DEADLINE, "Redis does not stop");
            std::thread::yield_now();
        }
    }

    pub(crate) fn go_on(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let process = self.process.id().to_string();
        let status = Command::new("kill").args(["-s", name, &process]).status();
        assert!(status.expect("kill on PATH").success());
    }

    pub(crate) fn settings(&self) -> RedisSettings {
        RedisSettings {
            url: self.url(),
            // Nothing here measures time: a slow machine must not look like an outage.
            timeout_ms: 10_000,
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
