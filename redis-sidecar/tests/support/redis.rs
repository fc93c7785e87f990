//! A private redis-server, for tests and benchmarks.

use redis_sidecar::settings::RedisSettings;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Generous: a busy machine must not make a test fail.
const DEADLINE: Duration = Duration::from_secs(20);

/// A redis-server on a Unix socket, without persistence, ended with whoever started it.
pub(crate) struct Redis {
    process: Child,
    directory: tempfile::TempDir,
}

impl Redis {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory for the socket");
        let process = Self::launch(&directory);
        Self { process, directory }
    }

    /// Another server in its place, with nothing of what the former had.
    pub(crate) async fn restart(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.process = Self::launch(&self.directory);
        let started = Instant::now();
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            assert!(started.elapsed() < DEADLINE, "Redis does not start");
            std::thread::yield_now();
        }
    }

    fn launch(directory: &tempfile::TempDir) -> Child {
        let program = std::env::var("REDIS_SERVER_BIN").unwrap_or_else(|_| "redis-server".into());
        Command::new(program)
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--enable-debug-command",
                "yes",
                "--unixsocket",
            ])
            .arg(directory.path().join("redis.sock"))
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server on PATH; `make setup` installs it")
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

    /// As patient as the store's: a slow machine must not look like an outage.
    pub(crate) async fn connection(&self) -> redis::aio::MultiplexedConnection {
        let client = redis::Client::open(self.url()).expect("a client");
        let patience = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(DEADLINE))
            .set_response_timeout(Some(DEADLINE));
        client
            .get_multiplexed_async_connection_with_config(&patience)
            .await
            .expect("Redis")
    }

    /// The same, by a name.
    pub(crate) async fn connection_as(
        &self,
        user: &str,
        password: &str,
    ) -> redis::aio::MultiplexedConnection {
        let info = redis::IntoConnectionInfo::into_connection_info(self.url()).expect("an address");
        let login = info.redis_settings().clone();
        let login = login.set_username(user).set_password(password);
        let client = redis::Client::open(info.set_redis_settings(login)).expect("a client");
        let connection = client.get_multiplexed_async_connection().await;
        connection.expect("Redis")
    }

    /// Whether it has started.
    pub(crate) async fn answers(&self) -> bool {
        std::os::unix::net::UnixStream::connect(self.socket()).is_ok()
    }

    /// A second way in, for what no verb does.
    pub(crate) async fn command(&self, words: &[&str]) -> redis::Value {
        let mut connection = self.connection().await;
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command
            .query_async(&mut connection)
            .await
            .expect("an answer")
    }

    /// The same, for what cannot be done.
    pub(crate) async fn refused(&self, words: &[&str]) {
        let mut connection = self.connection().await;
        let mut command = redis::cmd(words[0]);
        let answer: redis::RedisResult<redis::Value> =
            command.arg(&words[1..]).query_async(&mut connection).await;
        assert!(answer.is_err(), "{answer:?}");
    }

    /// Which server this is, as it draws it whenever it starts.
    pub(crate) async fn run_id(&self) -> String {
        let told = self.text(&["INFO", "server"]).await;
        let run_id = told.lines().find_map(|line| line.strip_prefix("run_id:"));
        run_id.expect("a run id").trim().to_owned()
    }

    /// How many commands Redis runs meanwhile, those inside of scripts included.
    pub(crate) async fn count_calls(&self, work: impl Future<Output = ()>) -> u64 {
        self.command(&["CONFIG", "RESETSTAT"]).await;
        work.await;
        self.calls(|command| !command.starts_with("config")).await
    }

    /// How many times a client has sent this command since `CONFIG RESETSTAT`.
    pub(crate) async fn calls_of(&self, command: &str) -> u64 {
        self.calls(|sent| sent == command).await
    }

    async fn calls(&self, counts: impl Fn(&str) -> bool) -> u64 {
        let told = self.text(&["INFO", "commandstats"]).await;
        let lines = told.lines().filter_map(|line| {
            let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            counts(command).then(|| figures.split(',').next())?
        });
        lines
            .map(|calls| calls.parse::<u64>().expect("a count"))
            .sum()
    }

    async fn text(&self, words: &[&str]) -> String {
        let told = self.command(words).await;
        redis::from_redis_value(told).expect("text")
    }

    /// Everything that is stored, as one figure.
    pub(crate) async fn digest(&self) -> redis::Value {
        self.command(&["DEBUG", "DIGEST"]).await
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
            assert!(started.elapsed() < DEADLINE, "Redis does not stop");
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
            ..RedisSettings::default()
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
