//! How any server is entered. Passwords and certificates are read from their files at every connect, so that
//! they can be replaced without a restart.

use super::address::{Encryption, Node};
use crate::settings::{RedisSettings, TlsFiles};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, ErrorKind,
    RedisError, RedisResult, TlsCertificates,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Who enters, if not the default user.
#[derive(Debug, Clone)]
struct Login {
    user: Option<String>,
    /// The setting that names the password's file, and the file.
    password_file: (&'static str, Option<PathBuf>),
}

/// A host that vanished without a word is noticed by the kernel after this.
const DEAD_PEER: Duration = Duration::from_secs(5);

/// Redis looks ten times a second whether a WAIT is over.
const WAIT_TICK: Duration = Duration::from_millis(100);

#[derive(Debug, Clone)]
pub(crate) struct Access {
    login: Login,
    sentinel_login: Login,
    tls: TlsFiles,
    timeout: Duration,
    /// How many replicas an admission waits for.
    pub(super) wait_replicas: u32,
}

impl Access {
    /// Reads what it is told to read, so that a start with a wrong file fails.
    pub(crate) fn new(settings: &RedisSettings, encrypted: bool) -> Result<Self, String> {
        let access = Self {
            login: Login {
                user: settings.user.clone(),
                password_file: ("redis.password_file", settings.password_file.clone()),
            },
            sentinel_login: Login {
                user: settings.sentinel.user.clone(),
                password_file: (
                    "redis.sentinel.password_file",
                    settings.sentinel.password_file.clone(),
                ),
            },
            tls: settings.tls.clone(),
            timeout: Duration::from_millis(settings.timeout_ms),
            wait_replicas: settings.wait_replicas,
        };
        for login in [&access.login, &access.sentinel_login] {
            login.password().map_err(|error| error.to_string())?;
        }
        if encrypted {
            // Whoever came first has chosen the same.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let certificates = access.certificates().map_err(|error| error.to_string())?;
            let anywhere = ConnectionAddr::TcpTls {
                host: "localhost".into(),
                port: 1,
                insecure: false,
                tls_params: None,
            };
            Client::build_with_tls(anywhere, certificates)
                .map_err(|error| format!("redis.tls: {error}"))?;
        }
        Ok(access)
    }

    /// How long a server may take to answer or to accept a connection.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How long replicas may take: less, so that the answer is in time all the same.
    pub(super) fn replicas_timeout(&self) -> Duration {
        self.timeout / 3
    }

    pub(super) async fn connect(&self, info: ConnectionInfo) -> RedisResult<MultiplexedConnection> {
        let info = self.entering(|access| &access.login, info).await?;
        self.open(info, self.timeout).await
    }

    /// For calls that wait for replicas, which is not counted as Redis' own time.
    pub(super) async fn connect_lane(
        &self,
        info: ConnectionInfo,
    ) -> RedisResult<MultiplexedConnection> {
        let info = self.entering(|access| &access.login, info).await?;
        let answer = self.timeout + self.replicas_timeout() + WAIT_TICK;
        self.open(info, answer).await
    }

    /// Sentinels have users of their own.
    pub(super) async fn connect_to_sentinel(
        &self,
        node: &Node,
        encryption: Encryption,
    ) -> RedisResult<MultiplexedConnection> {
        let info = node.info(encryption)?;
        let info = (self.entering(|access| &access.sentinel_login, info)).await?;
        self.open(info, self.timeout).await
    }

    async fn entering(
        &self,
        login: fn(&Self) -> &Login,
        info: ConnectionInfo,
    ) -> RedisResult<ConnectionInfo> {
        let access = self.clone();
        apart(move || login(&access).applied_to(info)).await
    }

    async fn open(
        &self,
        info: ConnectionInfo,
        answer: Duration,
    ) -> RedisResult<MultiplexedConnection> {
        let keepalive = TcpKeepalive::new()
            .with_time(DEAD_PEER)
            .with_interval(DEAD_PEER);
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(keepalive)
            .set_user_timeout(DEAD_PEER);
        let info = info.set_tcp_settings(tcp);
        let client = if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            let access = self.clone();
            Client::build_with_tls(info, apart(move || access.certificates()).await?)?
        } else {
            Client::open(info)?
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(answer));
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    fn certificates(&self) -> RedisResult<TlsCertificates> {
        let TlsFiles {
            ca_file,
            cert_file,
            key_file,
        } = &self.tls;
        let read = |name, file: &Option<PathBuf>| match file {
            Some(file) => read(name, file).map(Some),
            None => Ok(None),
        };
        let certificate = read("redis.tls.cert_file", cert_file)?;
        let key = read("redis.tls.key_file", key_file)?;
        Ok(TlsCertificates {
            root_cert: read("redis.tls.ca_file", ca_file)?,
            client_tls: certificate
                .zip(key)
                .map(|(client_cert, client_key)| ClientTlsConfig {
                    client_cert,
                    client_key,
                }),
        })
    }
}

impl Login {
    fn applied_to(&self, info: ConnectionInfo) -> RedisResult<ConnectionInfo> {
        let login = info.redis_settings().clone().set_skip_set_lib_name();
        let login = match &self.user {
            Some(user) => login.set_username(user),
            None => login,
        };
        let login = match self.password()? {
            Some(password) => login.set_password(password),
            None => login,
        };
        Ok(info.set_redis_settings(login))
    }

    /// The file's first line.
    fn password(&self) -> RedisResult<Option<String>> {
        let (setting, Some(file)) = &self.password_file else {
            return Ok(None);
        };
        let text = read(setting, file)?;
        let text = String::from_utf8_lossy(&text);
        let password = text.lines().next().unwrap_or_default();
        if password.is_empty() {
            let message = format!("{setting}: {} is empty", file.display());
            return Err(misconfigured(message));
        }
        Ok(Some(password.to_owned()))
    }
}

/// Files are read where nobody waits for whoever reads: a file system may hang.
async fn apart<T: Send + 'static>(
    read: impl FnOnce() -> RedisResult<T> + Send + 'static,
) -> RedisResult<T> {
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|error| Err(misconfigured(error.to_string())))
}

fn read(setting: &str, file: &Path) -> RedisResult<Vec<u8>> {
    std::fs::read(file).map_err(|error| {
        misconfigured(format!(
            "{setting}: cannot read {}: {error}",
            file.display()
        ))
    })
}

fn misconfigured(message: String) -> RedisError {
    (ErrorKind::InvalidClientConfig, "settings", message).into()
}
