//! What one holder has: leases asked for, held, and ended; and the news it has yet to deliver.

mod outbox;
mod spare;

pub use outbox::Outbox;

use crate::id;
use crate::id::{Address, Epoch, Incarnation, KeyHash, LeaseId, WorkerId};
use crate::message::{
    Admitted, BATCH_MAX, Held, Observation, Place, Release, RenewRequest, UNDER_WAY_MAX, Use,
};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

#[derive(Debug)]
pub struct Inventory {
    epoch: Epoch,
    /// The last beat that was composed; lease numbers begin with it.
    beat: u64,
    minted: u64,
    asking: BTreeSet<u64>,
    held: BTreeMap<u64, HeldLease>,
    /// Those that a session has used up before it left its place to another, whatever becomes of the other.
    used: BTreeSet<u64>,
    /// Those that came with an affinity key, and may be above their workers' limits for that.
    bound: BTreeSet<u64>,
    /// `held` in two numbers.
    sum: Held,
    /// Ended, and the release is not known to have arrived.
    ending: BTreeSet<u64>,
    /// By worker: the present life, and those before that still have sessions.
    lives: BTreeMap<WorkerId, Vec<Rc<Life>>>,
    releases: Outbox<Release>,
    observations: Outbox<Observation>,
    /// The releases of places that are held without a session, see `spare`.
    spares: Vec<Release>,
    spares_max: usize,
}

/// One life of a worker. Many leases share it, and each costs a pointer.
#[derive(Debug)]
struct Life {
    worker: WorkerId,
    incarnation: Incarnation,
    address: Address,
    /// Sessions that this holder has on it.
    sessions: Cell<u64>,
}

/// There is one for each session, so what it takes is counted (`make bench-websocket`).
#[derive(Debug)]
struct HeldLease {
    lifetime: u64,
    client: Option<KeyHash>,
    life: Rc<Life>,
    /// Whose session it is, as the filter calls it.
    stream: u32,
}

/// News on its way to the sidecar, to be kept until it is known to have arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    Releases(Vec<Release>),
    Observations(Vec<Observation>),
}

impl Delivery {
    pub fn len(&self) -> usize {
        match self {
            Self::Releases(releases) => releases.len(),
            Self::Observations(seen) => seen.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Inventory {
    pub fn new(epoch: Epoch, backlog_max: usize) -> Self {
        Self {
            epoch,
            beat: 0,
            minted: 0,
            asking: BTreeSet::new(),
            held: BTreeMap::new(),
            used: BTreeSet::new(),
            bound: BTreeSet::new(),
            sum: Held::default(),
            ending: BTreeSet::new(),
            lives: BTreeMap::new(),
            releases: Outbox::new(backlog_max),
            observations: Outbox::new(backlog_max),
            spares: Vec::new(),
            spares_max: backlog_max,
        }
    }

    /// A new lease's id. It is asked for from now on, until it is admitted, refused or ended.
    pub fn mint(&mut self) -> LeaseId {
        self.minted = self.minted.saturating_add(1);
        if self.minted >> id::BEAT_SHIFT > 0 {
            // Beats may leave numbers out; lease numbers must not repeat.
            self.next_beat();
            self.minted = 1;
        }
        let number = (self.beat << id::BEAT_SHIFT) | self.minted;
        self.asking.insert(number);
        LeaseId {
            epoch: self.epoch.clone(),
            seq: number,
        }
    }

    pub fn admitted(&mut self, admitted: &Admitted, stream: u32) {
        let number = admitted.lease.seq;
        self.asking.remove(&number);
        // A place that is taken again has been held all the time.
        if let Some(lease) = self.held.get_mut(&number) {
            lease.stream = stream;
            return;
        }
        let lease = HeldLease {
            life: self.life_of(admitted),
            stream,
            lifetime: admitted.lifetime,
            client: admitted.client,
        };
        lease.life.enter();
        if admitted.affinity.is_some() {
            self.bound.insert(number);
        }
        self.held.insert(number, lease);
        self.sum.add(number);
    }

    /// The sidecar said no: nothing is owed.
    pub fn refused(&mut self, number: u64) {
        self.asking.remove(&number);
    }

    pub fn ended(&mut self, release: Release) {
        let number = release.lease.seq;
        self.asking.remove(&number);
        let last = (self.held.get(&number)).is_some_and(|lease| lease.life.leave());
        self.let_go(release);
        if last {
            self.end_unwitnessed();
        }
    }

    /// The lease is held no more; its release goes out.
    fn let_go(&mut self, mut release: Release) {
        let number = release.lease.seq;
        if let Some(lease) = self.held.remove(&number) {
            self.sum.remove(number);
            self.bound.remove(&number);
            if self.used.remove(&number) {
                release.r#use = Use::Used;
            }
            self.forget_life(lease.life);
        }
        self.ending.insert(number);
        let overflow = self.releases.push(release);
        self.give_up(overflow);
    }

    pub fn observe(&mut self, observation: Observation) {
        self.observations.push(observation);
    }

    /// No lease minted so far has a higher number.
    pub fn mark(&self) -> u64 {
        (self.beat << id::BEAT_SHIFT) | self.minted
    }

    /// Whether nothing up to this number is asked for any more.
    pub fn is_answered(&self, mark: u64) -> bool {
        self.asking.range(..=mark).next().is_none()
    }

    /// Whose session the lease of this number is.
    pub fn stream_of(&self, number: u64) -> Option<u32> {
        self.held.get(&number).map(|lease| lease.stream)
    }

    /// The numbers of the leases that are held.
    pub fn held(&self) -> impl Iterator<Item = u64> + '_ {
        self.held.keys().copied()
    }

    /// Composes the next beat; everything minted so far is below it.
    pub fn beat(&mut self, pool: &id::PoolName, holder: &id::HolderId, list: bool) -> RenewRequest {
        self.next_beat();
        let comparable = self.asking.len().saturating_add(self.ending.len()) <= UNDER_WAY_MAX;
        RenewRequest {
            pool: pool.clone(),
            holder: holder.clone(),
            beat: self.beat,
            rebuild: None,
            // The newest: the oldest are about to be given up.
            asking: (self.asking.iter().rev().copied())
                .take(UNDER_WAY_MAX)
                .collect(),
            ended: (self.ending.iter().copied())
                .filter(|_| comparable)
                .collect(),
            held: comparable.then_some(self.sum),
            leases: (list && comparable).then(|| self.list()),
        }
    }

    pub fn has_news(&self) -> bool {
        !self.releases.is_empty() || !self.observations.is_empty()
    }

    /// Whether some call could be filled to the brim, so that waiting longer gains nothing.
    pub fn has_full_batch(&self) -> bool {
        self.releases.len() >= BATCH_MAX || self.observations.len() >= BATCH_MAX
    }

    /// Observations first: a release that overtakes its observation leaves it without a lease.
    pub fn take_delivery(&mut self) -> Option<Delivery> {
        if !self.observations.is_empty() {
            Some(Delivery::Observations(self.observations.take_batch()))
        } else if !self.releases.is_empty() {
            Some(Delivery::Releases(self.releases.take_batch()))
        } else {
            None
        }
    }

    /// The delivery arrived, or can never arrive: either way nothing more is to be sent. What the
    /// store has not heard of is in no list of the next beat, and so ends by it.
    pub fn settle(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Releases(releases) => self.give_up(releases),
            Delivery::Observations(_) => {}
        }
    }

    /// The delivery failed, and is sent again first.
    pub fn take_back(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Releases(releases) => {
                let overflow = self.releases.give_back(releases);
                self.give_up(overflow);
            }
            Delivery::Observations(seen) => {
                self.observations.give_back(seen);
            }
        }
    }

    /// News dropped since the last call, for the metric.
    pub fn take_dropped(&mut self) -> usize {
        let releases = self.releases.take_dropped();
        releases.saturating_add(self.observations.take_dropped())
    }

    fn next_beat(&mut self) {
        self.beat = self.beat.saturating_add(1);
        self.minted = 0;
    }

    fn give_up(&mut self, releases: Vec<Release>) {
        for release in releases {
            self.ending.remove(&release.lease.seq);
        }
    }

    fn list(&self) -> Vec<Place> {
        let mut places: BTreeMap<(&WorkerId, &Incarnation), Place> = BTreeMap::new();
        for (number, lease) in &self.held {
            let life = &lease.life;
            let place = places
                .entry((&life.worker, &life.incarnation))
                .or_insert_with(|| Place {
                    worker: life.worker.clone(),
                    incarnation: life.incarnation.clone(),
                    address: life.address,
                    leases: Vec::new(),
                    clients: BTreeMap::new(),
                });
            place.leases.push((*number, lease.lifetime));
            if let Some(client) = lease.client {
                place.clients.insert(*number, client);
            }
        }
        places.into_values().collect()
    }

    fn life_of(&mut self, admitted: &Admitted) -> Rc<Life> {
        let known = self.lives.get(&admitted.worker).into_iter().flatten();
        let mut known = known.filter(|life| life.incarnation == admitted.incarnation);
        if let Some(life) = known.next() {
            return life.clone();
        }
        let life = Rc::new(Life {
            worker: admitted.worker.clone(),
            incarnation: admitted.incarnation.clone(),
            address: admitted.address,
            sessions: Cell::new(0),
        });
        let lives = self.lives.entry(admitted.worker.clone()).or_default();
        lives.push(life.clone());
        life
    }

    fn forget_life(&mut self, life: Rc<Life>) {
        // The map's and this one: nobody else is left.
        if Rc::strong_count(&life) > 2 {
            return;
        }
        if let Some(lives) = self.lives.get_mut(&life.worker) {
            lives.retain(|known| !Rc::ptr_eq(known, &life));
            if lives.is_empty() {
                self.lives.remove(&life.worker);
            }
        }
    }
}

#[cfg(test)]
mod tests;
