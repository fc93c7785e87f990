//! Many sessions, opened at a steady rate whatever becomes of them.

use crate::api::PoolView;
use crate::client::{Client, Refused, Visit};
use crate::fleet::Outlook;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub sessions: usize,
    /// From one opening to the next.
    pub every: Duration,
    /// How long each is kept open.
    pub session: Duration,
}

/// What became of one session.
#[derive(Debug)]
pub struct Attempt {
    /// When it was begun, counted from the first.
    pub begun: Duration,
    pub refused: Option<Refused>,
}

impl Load {
    pub async fn drive(self, fleet: &Outlook) -> Vec<Attempt> {
        self.drive_through(&fleet.clients).await
    }

    /// The same through some of its Envoys.
    pub async fn drive_through(self, envoys: &[Client]) -> Vec<Attempt> {
        let start = Instant::now();
        let mut attempts = JoinSet::new();
        let mut turn = interval(self.every);
        for number in 0..self.sessions {
            turn.tick().await;
            let client = envoys[number % envoys.len()];
            attempts.spawn(attempt(client, self.session, start.elapsed()));
        }
        attempts.join_all().await
    }

    /// Shows `watch` the pool again and again until the last session has ended.
    pub async fn drive_watched(
        self,
        fleet: &Outlook,
        mut watch: impl FnMut(&PoolView),
    ) -> Vec<Attempt> {
        let watching = async {
            loop {
                watch(&fleet.view().await);
                sleep(self.every / 2).await;
            }
        };
        tokio::select! {
            attempts = self.drive(fleet) => attempts,
            () = watching => Vec::new(),
        }
    }
}

async fn attempt(client: Client, session: Duration, begun: Duration) -> Attempt {
    let refused = match client.websocket("/").await {
        Visit::Refused(refused) => Some(refused),
        Visit::Admitted(open) => {
            sleep(session).await;
            open.close().await;
            None
        }
    };
    Attempt { begun, refused }
}
