//! Admissions together: those that arrive while a pool's last ones are on their way go with one call. Under
//! load a decision costs Redis less that way; a lone one waits for nobody.

use super::{Call, Store};
use crate::error::StoreError;
use admission::id::{Epoch, PoolName};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;

/// Groups of one pool on their way at once: with one, Redis would be idle while its answer is read.
const ON_THEIR_WAY_MAX: usize = 2;

/// What one admission answers, as `lua/admit.lua` has it.
type Words = Result<Vec<String>, Arc<StoreError>>;

#[derive(Debug)]
struct Waiting {
    epoch: Epoch,
    args: Vec<String>,
    answer: oneshot::Sender<Words>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Waiting>,
    on_their_way: usize,
}

/// A pool is in it only while somebody asks for it.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    queues: Arc<Mutex<HashMap<PoolName, Queue>>>,
    group_max: usize,
}

impl Groups {
    pub(super) fn new(group_max: usize) -> Self {
        Self {
            queues: Arc::default(),
            group_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PoolName, Queue>> {
        self.queues.lock().unwrap_or_else(|lock| lock.into_inner())
    }

    /// Adds one. Returns whether the caller has to send a group.
    fn join(&self, pool: &PoolName, one: Waiting) -> bool {
        let mut queues = self.lock();
        let queue = queues.entry(pool.clone()).or_default();
        queue.waiting.push(one);
        let send = queue.on_their_way < ON_THEIR_WAY_MAX;
        queue.on_their_way += usize::from(send);
        send
    }

    /// The next group; none when nobody waits. Whoever has gone meanwhile is not asked for.
    fn next(&self, pool: &PoolName) -> Vec<Waiting> {
        let mut queues = self.lock();
        let Some(queue) = queues.get_mut(pool) else {
            return Vec::new();
        };
        queue.waiting.retain(|one| !one.answer.is_closed());
        let count = queue.waiting.len().min(self.group_max);
        let group: Vec<_> = queue.waiting.drain(..count).collect();
        if group.is_empty() {
            queue.on_their_way -= 1;
            if queue.on_their_way == 0 {
                queues.remove(pool);
            }
        }
        group
    }
}

impl Store {
    /// One admission, with whoever else asks now.
    pub(super) async fn admit_together(
        &self,
        pool: &PoolName,
        epoch: &Epoch,
        args: Vec<String>,
    ) -> Words {
        if self.groups.group_max == 1 {
            let call = Call::of_holder("admit", pool, epoch, args);
            return self.run_until_swept(call).await.map_err(Arc::new);
        }
        let (answer, answered) = oneshot::channel();
        let epoch = epoch.clone();
        if self.groups.join(
            pool,
            Waiting {
                epoch,
                args,
                answer,
            },
        ) {
            // A task of its own: the one who happens to send may leave, and the others stay. In a box, because
            // a task is moved several times before it runs.
            let (store, pool) = (self.clone(), pool.clone());
            tokio::spawn(Box::pin(async move { store.send_groups(&pool).await }));
        }
        answered.await.unwrap_or_else(|_| {
            let stopped = StoreError::Unavailable("the sidecar is stopping".into());
            Err(Arc::new(stopped))
        })
    }

    /// Until nobody waits.
    async fn send_groups(&self, pool: &PoolName) {
        loop {
            let mut group = self.groups.next(pool);
            if group.is_empty() {
                return;
            }
            let holders: Vec<_> = group.iter().map(|one| one.epoch.clone()).collect();
            let args = group.iter_mut().flat_map(|one| one.args.drain(..));
            let call = Call {
                verb: "admit",
                pool,
                args: args.collect(),
                holders: &holders,
            };
            match self.run_until_swept(call).await {
                Ok(words) => answer_each(group, words),
                Err(error) => {
                    let error = Arc::new(error);
                    for one in group {
                        let _ = one.answer.send(Err(error.clone()));
                    }
                }
            }
        }
    }
}

/// Each answer is as long as its first word says. A group that gets another number of answers than it has
/// asked for hears of all of them: what cannot be read is told by whoever reads it.
fn answer_each(group: Vec<Waiting>, mut words: Vec<String>) {
    let alone = group.len() == 1;
    for one in group {
        let length = match words.first().map(String::as_str) {
            _ if alone => words.len(),
            Some("admitted") => 7,
            Some("denied" | "redirected") => 3,
            _ => words.len(),
        };
        let rest = words.split_off(length.min(words.len()));
        // Whoever has gone does not hear it; its lease ends with its holder's next beat.
        let _ = one.answer.send(Ok(std::mem::replace(&mut words, rest)));
    }
}
