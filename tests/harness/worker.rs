//! A worker as Berth expects one: it registers, sends heartbeats, serves sessions, and obeys when
//! it is told to drain or to restart. The program `demo-worker` and the tests run this same code.

mod agent;
pub mod journal;
mod server;

pub use journal::{Change, Entry, Journal};
pub use server::WORKER_HEADER;
pub(crate) use server::listen;

use crate::api::Api;
use crate::http::{Failure, Target};
use admission::id::{Address, PoolName, WorkerId};
use hyper::StatusCode;
use server::Site;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

#[derive(Debug, Clone)]
pub struct Settings {
    pub sidecar: Target,
    /// Where the sidecar asks for one.
    pub token: Option<String>,
    pub pool: PoolName,
    pub id: WorkerId,
    pub listen: SocketAddr,
    /// The address that Envoys are told, where it is not the one listened on.
    pub advertise: Option<Address>,
    /// Thinking time before every answer.
    pub delay: Duration,
    pub heartbeat: Duration,
    /// How long a restart takes.
    pub restart: Duration,
    /// A limit below the pool's.
    pub max_concurrent: Option<u32>,
    /// Refuse every upgrade with this status.
    pub fail_upgrade_with: Option<StatusCode>,
    /// A directory where its journal is written too, for those who judge it from outside.
    pub journal: Option<PathBuf>,
}

/// What a worker writes down.
#[derive(Debug)]
pub(crate) struct Record(Arc<Site>);

impl Record {
    /// The worker's name, and everything so far.
    pub(crate) fn entries(&self) -> (String, Vec<Entry>) {
        (self.0.id.clone(), self.0.journal.entries())
    }
}

/// Whoever was sent here just before a worker left has arrived after this.
const ON_THE_WAY: Duration = Duration::from_millis(500);

/// The part that serves; absent while the worker restarts or plays dead.
type Serving = Arc<Mutex<Option<server::Server>>>;

#[derive(Debug)]
pub struct Worker {
    id: WorkerId,
    settings: Settings,
    address: SocketAddr,
    api: Api,
    site: Arc<Site>,
    serving: Serving,
    agent: JoinHandle<()>,
}

impl Worker {
    pub async fn start(settings: Settings) -> std::io::Result<Self> {
        let listener = listen(settings.listen).await?;
        let address = listener.local_addr()?;
        let site = Arc::new(Site::new(&settings)?);
        let serving = Arc::new(Mutex::new(Some(server::Server::start(
            listener,
            site.clone(),
        ))));
        let api = Api::new(settings.sidecar.clone(), settings.pool.clone());
        let api = api.with_token(settings.token.clone());
        let agent = agent::Agent::new(settings.clone(), address, site.clone(), serving.clone());
        Ok(Self {
            id: settings.id.clone(),
            settings,
            address,
            api,
            site,
            serving,
            agent: tokio::spawn(agent.run()),
        })
    }

    pub fn id(&self) -> &WorkerId {
        &self.id
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What happens here, for whoever outlives this worker.
    pub(crate) fn record(&self) -> Record {
        Record(self.site.clone())
    }

    /// What really happened here, as opposed to what the pool believes.
    pub fn journal(&self) -> &Journal {
        &self.site.journal
    }

    pub fn fail_upgrades_with(&self, status: Option<StatusCode>) {
        self.site.set_fail_upgrade_with(status);
    }

    /// Plays dead: sessions are cut and connections refused, while heartbeats go on.
    pub async fn stop_serving(&self) {
        if let Some(server) = self.serving.lock().await.take() {
            server.cut().await;
        }
    }

    /// Comes back to life where it was.
    pub async fn resume_serving(&self) -> std::io::Result<()> {
        let listener = listen(self.address).await?;
        let server = server::Server::start(listener, self.site.clone());
        *self.serving.lock().await = Some(server);
        Ok(())
    }

    /// Dies without a word, with all its sessions.
    pub async fn die(&self) {
        self.agent.abort();
        self.stop_serving().await;
    }

    /// A new process in place of one that died: another incarnation, at the same address.
    pub async fn start_again(&mut self) -> std::io::Result<()> {
        self.die().await;
        self.site.journal.restarted();
        self.resume_serving().await?;
        let (site, serving) = (self.site.clone(), self.serving.clone());
        let agent = agent::Agent::new(self.settings.clone(), self.address, site, serving);
        self.agent = tokio::spawn(agent.run());
        Ok(())
    }

    /// Heartbeats end without a word, as if the network to the sidecar were gone.
    pub fn stop_heartbeats(&self) {
        self.agent.abort();
    }

    /// Leaves the pool, then waits until the last session has ended, and until nobody comes any more.
    pub async fn leave(&self) -> Result<(), Failure> {
        self.agent.abort();
        self.api.remove(&self.id).await?;
        loop {
            self.site.idle().await;
            tokio::time::sleep(ON_THE_WAY).await;
            if self.site.is_idle() {
                return Ok(());
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.agent.abort();
    }
}
