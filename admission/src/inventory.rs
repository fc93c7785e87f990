//! What one holder owes the sidecar: the lease ids it minted, and the news it has yet to deliver.

use crate::id::{Epoch, LeaseId};
use crate::message::{BATCH_MAX, Observation, Release};
use std::collections::VecDeque;

#[derive(Debug)]
pub struct Inventory {
    epoch: Epoch,
    minted: u64,
    pub releases: Outbox<Release>,
    pub observations: Outbox<Observation>,
}

impl Inventory {
    pub fn new(epoch: Epoch, backlog_max: usize) -> Self {
        Self {
            epoch,
            minted: 0,
            releases: Outbox::new(backlog_max),
            observations: Outbox::new(backlog_max),
        }
    }

    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    pub fn mint(&mut self) -> LeaseId {
        self.minted += 1;
        LeaseId {
            epoch: self.epoch.clone(),
            seq: self.minted,
        }
    }

    pub fn has_news(&self) -> bool {
        !self.releases.is_empty() || !self.observations.is_empty()
    }

    /// Whether some call could be filled to the brim, so that waiting longer gains nothing.
    pub fn has_full_batch(&self) -> bool {
        self.releases.len() >= BATCH_MAX || self.observations.len() >= BATCH_MAX
    }
}

/// News in the order it happened, delivered in batches, kept until a delivery succeeds.
#[derive(Debug)]
pub struct Outbox<T> {
    waiting: VecDeque<T>,
    backlog_max: usize,
    dropped: usize,
}

impl<T> Outbox<T> {
    fn new(backlog_max: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            backlog_max,
            dropped: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn push(&mut self, news: T) {
        self.waiting.push_back(news);
        self.drop_excess();
    }

    pub fn take_batch(&mut self) -> Vec<T> {
        let count = self.waiting.len().min(BATCH_MAX);
        self.waiting.drain(..count).collect()
    }

    /// A delivery failed: its news goes back to the front, to be sent again first.
    pub fn give_back(&mut self, batch: Vec<T>) {
        for news in batch.into_iter().rev() {
            self.waiting.push_front(news);
        }
        self.drop_excess();
    }

    /// News dropped since the last call, for the metric.
    pub fn take_dropped(&mut self) -> usize {
        std::mem::take(&mut self.dropped)
    }

    fn drop_excess(&mut self) {
        while self.waiting.len() > self.backlog_max {
            self.waiting.pop_front();
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn every_lease_has_its_own_number() {
        let mut inventory = Inventory::new(Epoch::from_random([1; 16]), 100);
        assert_eq!((inventory.mint().seq, inventory.mint().seq), (1, 2));
    }

    #[test]
    fn a_failed_batch_is_sent_again_in_order() {
        let mut outbox = Outbox::new(1000);
        (0..BATCH_MAX + 2).for_each(|news| outbox.push(news));
        let batch = outbox.take_batch();
        assert_eq!(batch.len(), BATCH_MAX);
        assert_eq!(outbox.len(), 2);
        outbox.give_back(batch);
        assert_eq!(outbox.take_batch()[..2], [0, 1]);
    }

    #[test]
    fn the_backlog_is_bounded_and_what_is_lost_is_counted() {
        let mut outbox = Outbox::new(3);
        (0..5).for_each(|news| outbox.push(news));
        assert_eq!(outbox.take_batch(), [2, 3, 4]);
        assert_eq!((outbox.take_dropped(), outbox.take_dropped()), (2, 0));
    }
}
