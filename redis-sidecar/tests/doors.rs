//! Who is let in where: parts of the API, tokens, ids of requests.

use crate::support::server::{AT_ONCE, Answer, Server, call, free_address, request, send};
use crate::support::{Redis, eventually};
use redis_sidecar::settings::{Api, Listen, Listener, Settings, TokenFiles, WorkerToken};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::net::{TcpStream, UnixStream};

pub(crate) const FILTER: &str = "filter-0123456789abcdef0123456789abcdef";
pub(crate) const OPERATOR: &str = "operator-0123456789abcdef0123456789abcdef";
pub(crate) const METRICS: &str = "metrics-0123456789abcdef0123456789abcdef";
pub(crate) const WORKER: &str = "worker-0123456789abcdef0123456789abcdef";
pub(crate) const OTHER: &str = "other-0123456789abcdef0123456789abcdef";

/// A sidecar with one door that asks everybody for a token.
pub(crate) struct Sidecar {
    pub(crate) redis: Redis,
    pub(crate) server: Server,
    directory: tempfile::TempDir,
}

impl Sidecar {
    pub(crate) async fn start(adjust: impl FnOnce(&mut Settings)) -> Self {
        let (redis, directory) = (Redis::start(), tempfile::tempdir().unwrap());
        let file = |name: &str, token: &str| -> PathBuf {
            let path = directory.path().join(name);
            std::fs::write(&path, token).unwrap();
            path
        };
        let worker = |name: &str, token: &str, pools: &[&str], cidrs: &[&str]| WorkerToken {
            name: name.into(),
            file: file(name, token),
            pools: pools.iter().map(|pool| pool.parse().unwrap()).collect(),
            cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
        };
        let demo = crate::support::default_policy();
        let mut settings = Settings {
            listen: vec![],
            listeners: vec![listener(&directory.path().join("berth.sock"), &Api::ALL)],
            tokens: TokenFiles {
                filter_file: Some(file("filter", FILTER)),
                operator_file: Some(file("operator", OPERATOR)),
                metrics_file: Some(file("metrics", METRICS)),
            },
            worker_tokens: vec![
                worker("team-a", WORKER, &["demo"], &["10.0.0.0/8"]),
                worker("team-b", OTHER, &[], &[]),
            ],
            redis: redis.settings(),
            answer_timeout_ms: 10_000,
            pools: ["demo", "next"]
                .map(|pool| (pool.parse().unwrap(), demo.clone()))
                .into(),
            ..Settings::default()
        };
        adjust(&mut settings);
        let sockets: Vec<_> = settings.listeners.iter().map(socket_of).collect();
        let server = Server::start(settings);
        eventually(async || sockets.iter().flatten().all(|it| it.exists())).await;
        let sidecar = Self {
            redis,
            server,
            directory,
        };
        eventually(async || sidecar.call(None, "GET", "/readyz", "").await.status == 200).await;
        eventually(async || {
            let shown = sidecar
                .call(Some(OPERATOR), "GET", "/v1/pools/next", "")
                .await;
            shown.status == 200
        })
        .await;
        sidecar
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("berth.sock")
    }

    pub(crate) async fn call(
        &self,
        token: Option<&str>,
        method: &str,
        path: &str,
        body: &str,
    ) -> Answer {
        call(&self.socket(), token, method, path, body).await
    }

    /// The tokens of a role as they are from now on.
    pub(crate) fn replace_token(&self, name: &str, token: &str) {
        std::fs::write(self.directory.path().join(name), token).expect("a file");
    }

    pub(crate) async fn metric(&self, line: &str) -> bool {
        let metrics = self.call(Some(METRICS), "GET", "/metrics", "").await;
        metrics.body.as_str().unwrap().lines().any(|it| it == line)
    }
}

fn socket_of(listener: &Listener) -> Option<PathBuf> {
    match &listener.address {
        Listen::Unix(path) => Some(path.clone()),
        Listen::Tcp(_) => None,
    }
}

fn listener(socket: &Path, serves: &[Api]) -> Listener {
    Listener {
        address: Listen::Unix(socket.to_owned()),
        serves: serves.to_vec(),
        tokens: true,
        tls: None,
    }
}

/// One call of each part.
const CALLS: [(Api, &str, &str); 8] = [
    (Api::Data, "POST", "/v1/admit"),
    (Api::Data, "POST", "/v1/line"),
    (Api::Data, "POST", "/v1/admit/group"),
    (Api::Data, "POST", "/redis/atomic"),
    (Api::Worker, "PUT", "/v1/pools/demo/workers/w1"),
    (Api::Operator, "GET", "/v1/pools"),
    (Api::Operator, "PUT", "/v1/pools/demo/policy"),
    (Api::Metrics, "GET", "/metrics"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_its_own_part_and_no_other() {
    let sidecar = Sidecar::start(|_| {}).await;
    let opened: [(&str, &[Api]); 4] = [
        (FILTER, &[Api::Data]),
        (WORKER, &[Api::Worker]),
        (METRICS, &[Api::Metrics]),
        (OPERATOR, &[Api::Worker, Api::Operator, Api::Metrics]),
    ];
    for (token, opened) in opened {
        for (api, method, path) in CALLS {
            let answer = sidecar.call(Some(token), method, path, "").await;
            let let_in = answer.status != 401;
            assert_eq!(let_in, opened.contains(&api), "{token} {path}: {answer:?}");
        }
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(sidecar.call(None, "GET", path, "").await.status, 200);
    }
    sidecar.server.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_shows_no_token_or_another_is_told_so_and_counted() {
    let sidecar = Sidecar::start(|_| {}).await;
    let longer = format!("{FILTER}x");
    for (header, value) in [
        ("x-token", FILTER),
        ("authorization", FILTER),
        ("authorization", "Bearer"),
        ("authorization", "Basic 0123456789abcdef0123456789abcdef"),
        ("authorization", &format!("Bearer {longer}")),
        ("authorization", &format!("Bearer {}", &FILTER[1..])),
        (
            "authorization",
            &format!("Bearer {FILTER}\r\nauthorization: Bearer {FILTER}"),
        ),
    ] {
        let bytes = request("POST", "/v1/admit", &[(header, value)], "{}");
        let stream = UnixStream::connect(sidecar.socket()).await.unwrap();
        let answer = send(stream, &bytes).await.unwrap();
        assert_eq!(
            (answer.status, &answer.body["error"]),
            (401, &"unauthorized".into()),
            "{value}"
        );
        assert!(answer.head.contains("x-berth: 1") && answer.head.contains("www-authenticate"));
        assert!(!answer.body.to_string().contains("0123456789"));
    }
    let counted = r#"berth_unauthorized_total{api="data",reason="wrong_token"} 2"#;
    assert!(sidecar.metric(counted).await);
    let counted = r#"berth_unauthorized_total{api="data",reason="no_token"} 5"#;
    assert!(sidecar.metric(counted).await);
    sidecar.server.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_serves_its_part_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let door = |api: Api| directory.path().join(api.as_str());
    let sidecar = Sidecar::start(|settings| {
        for api in Api::ALL {
            let mut listener = listener(&door(api), &[api]);
            listener.tokens = false;
            settings.listeners.push(listener);
        }
    })
    .await;
    for served in Api::ALL {
        for (api, method, path) in CALLS {
            let answer = call(&door(served), None, method, path, "").await;
            assert_eq!(
                answer.status == 404,
                api != served,
                "{served:?} {path}: {answer:?}"
            );
            assert!(answer.head.contains("x-berth: 1"));
        }
        assert_eq!(
            call(&door(served), None, "GET", "/healthz", "")
                .await
                .status,
            200
        );
        let mode = std::fs::metadata(door(served))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    sidecar.server.end().await.unwrap();
}

/// The reason names addresses and paths: those are nobody's business from elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn why_it_is_not_ready_is_told_on_its_own_host_and_to_operators() {
    let port = free_address().port();
    let sidecar = Sidecar::start(|settings| {
        settings.listeners.push(Listener {
            address: Listen::Tcp(SocketAddr::from(([0, 0, 0, 0], port))),
            serves: vec![Api::Data, Api::Metrics],
            tokens: true,
            tls: None,
        });
    })
    .await;
    let evict = ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"];
    sidecar.redis.command(&evict).await;
    eventually(async || sidecar.call(None, "GET", "/readyz", "").await.status == 503).await;
    let at_home = sidecar.call(None, "GET", "/readyz", "").await;
    let reason = at_home.body["message"].as_str().unwrap();
    assert!(reason.contains(&sidecar.redis.socket()) && reason.contains("noeviction"));
    for (token, told) in [(None, false), (Some(FILTER), false), (Some(OPERATOR), true)] {
        let bearer = format!("Bearer {}", token.unwrap_or_default());
        let bytes = request("GET", "/readyz", &[("authorization", &bearer)], "");
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let answer = send(stream, &bytes).await.unwrap();
        assert_eq!(answer.status, 503);
        assert_eq!(answer.body["error"], "store_unfit");
        let message = answer.body["message"].as_str().unwrap();
        assert_eq!(message.contains("noeviction"), told, "{token:?}: {message}");
        assert_eq!(message == reason, told, "{token:?}: {message}");
    }
    sidecar.server.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_changed_while_the_sidecar_runs() {
    let sidecar = Sidecar::start(|_| {}).await;
    let next = "filter-fedcba9876543210fedcba9876543210";
    let admits = async |token| {
        sidecar
            .call(Some(token), "POST", "/v1/admit", "")
            .await
            .status
    };
    assert_eq!((admits(FILTER).await, admits(next).await), (400, 401));
    std::fs::write(sidecar.directory.path().join("filter"), next).unwrap();
    eventually(async || admits(next).await == 400).await;
    assert_eq!(admits(FILTER).await, 401);
    sidecar.server.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_could_be_guessed_stops_the_start_without_being_told() {
    let (redis, directory) = (Redis::start(), tempfile::tempdir().unwrap());
    let file = directory.path().join("tokens");
    std::fs::write(&file, "hunter2").unwrap();
    let settings = Settings {
        listen: vec![Listen::Unix(directory.path().join("berth.sock"))],
        tokens: TokenFiles {
            operator_file: Some(file),
            ..TokenFiles::default()
        },
        redis: redis.settings(),
        ..Settings::default()
    };
    let starting = tokio::time::timeout(AT_ONCE, Server::start(settings).task);
    let refused = starting.await.expect("no start").unwrap();
    let message = refused.unwrap_err().to_string();
    assert!(
        message.contains("tokens.operator_file") && message.contains("32"),
        "{message}"
    );
    assert!(!message.contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_token_for_two_roles_stops_the_start_without_being_told() {
    let (redis, directory) = (Redis::start(), tempfile::tempdir().unwrap());
    let file = |name: &str, tokens: &[&str]| {
        let path = directory.path().join(name);
        std::fs::write(&path, tokens.join("\n")).unwrap();
        path
    };
    let settings = Settings {
        listen: vec![Listen::Unix(directory.path().join("berth.sock"))],
        tokens: TokenFiles {
            operator_file: Some(file("operator", &[OPERATOR, OTHER])),
            ..TokenFiles::default()
        },
        worker_tokens: vec![WorkerToken {
            name: "team-a".into(),
            file: file("worker", &[WORKER, OTHER]),
            pools: vec![],
            cidrs: vec![],
        }],
        redis: redis.settings(),
        ..Settings::default()
    };
    let starting = tokio::time::timeout(AT_ONCE, Server::start(settings).task);
    let refused = starting.await.expect("no start").unwrap();
    let message = refused.unwrap_err().to_string();
    for part in ["tokens.operator_file", "worker_tokens team-a"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains(OTHER));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_the_callers_id_if_it_is_fit_to_be_written_down() {
    let sidecar = Sidecar::start(|_| {}).await;
    let id_of = async |id: &str| -> String {
        let bytes = request("GET", "/healthz", &[("x-request-id", id)], "");
        let stream = UnixStream::connect(sidecar.socket()).await.unwrap();
        let answer = send(stream, &bytes).await.unwrap();
        let mut lines = answer.head.lines();
        let id = lines.find_map(|line| line.strip_prefix("x-request-id: "));
        id.unwrap().to_owned()
    };
    let sane = "5f0c1b2a-6d7e-4f80-91a2-b3c4d5e6f708";
    assert_eq!(id_of(sane).await, sane);
    let long = "a".repeat(129);
    for hostile in ["", "a b", "<script>", "a\tb", "{id}", &long] {
        let id = id_of(hostile).await;
        assert!(
            id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{id}"
        );
    }
    sidecar.server.end().await.unwrap();
}
