//! What Envoy's own ext_authz filter asks in place of Berth's: a service that takes the same lease with
//! the same script, on the sidecar's library, and names the worker in a header.
//!
//! It cannot give a lease back: ext_authz asks before a request and is told nothing after it.

use crate::claims::Verdict;
use crate::site;
use admission::id::{Epoch, HolderId, LeaseId, PoolName, ProxyId};
use admission::message::{AdmitAnswer, AdmitRequest};
use bytes::Bytes;
use clap::Args;
use harness::http::Failure;
use harness::ports;
use harness::process::Process;
use harness::wait::eventually;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use redis_sidecar::settings::RedisSettings;
use redis_sidecar::store::Store;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Where the worker is named: Envoy's ORIGINAL_DST cluster reads it.
pub(crate) const DESTINATION_HEADER: &str = "x-envoy-original-dst-host";

#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[arg(long)]
    listen: SocketAddr,
    /// The one worker.
    #[arg(long)]
    backend: SocketAddr,
    /// Where leases are taken; without it nobody is asked, and everybody let in.
    #[arg(long)]
    redis: Option<String>,
}

/// How a request is judged.
enum Judge {
    /// The floor of any callout: an answer that costs nothing.
    Nobody(SocketAddr),
    Script {
        store: Store,
        pool: PoolName,
        holder: HolderId,
        minted: AtomicU64,
    },
}

pub(crate) async fn serve(flags: &Flags) -> Result<Verdict, Failure> {
    let judge = Arc::new(match &flags.redis {
        None => Judge::Nobody(flags.backend),
        Some(url) => Judge::script(url, flags.backend).await?,
    });
    let listener = TcpListener::bind(flags.listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let judge = judge.clone();
        let service = service_fn(move |_: Request<Incoming>| {
            let judge = judge.clone();
            async move { Ok::<_, Infallible>(judge.answer().await) }
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}

impl Judge {
    async fn script(url: &str, backend: SocketAddr) -> Result<Self, Failure> {
        let settings = RedisSettings {
            url: url.to_owned(),
            timeout_ms: site::PATIENCE_MS,
            ..RedisSettings::default()
        };
        let pool = harness::fleet::pool();
        let pools = BTreeMap::from([(pool.clone(), site::policy())]);
        let store = Store::start(&settings, pools)?;
        while store.apply_pools().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let request = site::registration(backend)?;
        store.register(&pool, &site::worker()?, &request).await?;
        Ok(Self::Script {
            store,
            pool,
            holder: HolderId {
                proxy: ProxyId::parse("ext_authz")?,
                epoch: Epoch::from_random([9; 16]),
            },
            minted: AtomicU64::new(0),
        })
    }

    async fn answer(&self) -> Response<Empty<Bytes>> {
        let destination = match self {
            Self::Nobody(backend) => Some(backend.to_string()),
            Self::Script {
                store,
                pool,
                holder,
                minted,
            } => {
                let lease = LeaseId {
                    epoch: holder.epoch.clone(),
                    seq: minted.fetch_add(1, Ordering::Relaxed) + 1,
                };
                let request = AdmitRequest::new(pool.clone(), holder.clone(), lease);
                match store.admit(&request).await {
                    Ok(AdmitAnswer::Admitted(admitted)) => Some(admitted.address.to_string()),
                    Ok(AdmitAnswer::Denied(_) | AdmitAnswer::Redirected(_)) | Err(_) => None,
                }
            }
        };
        let response = match destination {
            Some(destination) => Response::builder().header(DESTINATION_HEADER, destination),
            None => Response::builder().status(StatusCode::SERVICE_UNAVAILABLE),
        };
        response.body(Empty::new()).unwrap_or_default()
    }
}

/// The process, and where it listens.
pub(crate) struct Answerer {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Answerer {
    pub(crate) async fn start(
        name: &str,
        backend: SocketAddr,
        redis: Option<String>,
        directory: &Path,
    ) -> Result<Self, Failure> {
        let address = ports::free();
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["answerer", "--listen", &address.to_string()])
            .args(["--backend", &backend.to_string()]);
        if let Some(url) = redis {
            command.args(["--redis", &url]);
        }
        let process = Process::start(name, &mut command, directory.join(format!("{name}.log")));
        eventually("an answerer listens", async || {
            process.expect_running();
            TcpStream::connect(address).await.is_ok()
        })
        .await;
        Ok(Self { process, address })
    }
}
