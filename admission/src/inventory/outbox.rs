//! News in the order it happened, delivered in batches, kept until a delivery succeeds.

use crate::message::BATCH_MAX;
use std::collections::VecDeque;

#[derive(Debug)]
pub struct Outbox<T> {
    waiting: VecDeque<T>,
    backlog_max: usize,
    dropped: usize,
}

impl<T> Outbox<T> {
    pub fn new(backlog_max: usize) -> Self {
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

    /// Returns what no longer fits: the oldest.
    pub fn push(&mut self, news: T) -> Vec<T> {
        self.waiting.push_back(news);
        self.drop_excess()
    }

    pub fn take_batch(&mut self) -> Vec<T> {
        let count = self.waiting.len().min(BATCH_MAX);
        self.waiting.drain(..count).collect()
    }

    /// A delivery failed: its news goes back to the front, to be sent again first. Returns what no
    /// longer fits.
    pub fn give_back(&mut self, batch: Vec<T>) -> Vec<T> {
        for news in batch.into_iter().rev() {
            self.waiting.push_front(news);
        }
        self.drop_excess()
    }

    /// News dropped since the last call, for the metric.
    pub fn take_dropped(&mut self) -> usize {
        std::mem::take(&mut self.dropped)
    }

    fn drop_excess(&mut self) -> Vec<T> {
        let excess = self.waiting.len().saturating_sub(self.backlog_max);
        self.dropped = self.dropped.saturating_add(excess);
        self.waiting.drain(..excess).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn a_failed_batch_is_sent_again_in_order() {
        let mut outbox = Outbox::new(1000);
        for news in 0..BATCH_MAX + 2 {
            outbox.push(news);
        }
        let batch = outbox.take_batch();
        assert_eq!(batch.len(), BATCH_MAX);
        assert_eq!(outbox.len(), 2);
        outbox.give_back(batch);
        assert_eq!(outbox.take_batch()[..2], [0, 1]);
    }

    #[test]
    fn the_backlog_is_bounded_and_what_is_lost_is_counted() {
        let mut outbox = Outbox::new(3);
        let lost: Vec<i32> = (0..5).flat_map(|news| outbox.push(news)).collect();
        assert_eq!(lost, [0, 1]);
        assert_eq!(outbox.take_batch(), [2, 3, 4]);
        assert_eq!((outbox.take_dropped(), outbox.take_dropped()), (2, 0));
    }
}
