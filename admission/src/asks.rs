//! Questions on their way to the sidecar. A call costs the proxy more than what is asked in it, so those that come
//! while others are under way go together with the next call. A lone one waits for nobody.

use crate::message::{GROUP_MAX, Question};
use std::collections::VecDeque;

/// So many that wait are worth a call of their own, even if others are under way.
const WORTH_A_CALL: usize = 8;
/// Calls under way at once, but for those whose patience has ended.
const CALLS_MAX: usize = 4;
/// For longer than this no question waits for company: calls that take so long are slow, or tell of trouble, and
/// what is asked meanwhile is to be answered in time all the same.
pub const PATIENCE_US: u64 = 2_000;
/// What the keys of one call may have together. The sidecar reads no more than 20 KiB at once, and JSON may write a
/// byte with six characters; a question's own keys always fit.
const KEY_BYTES_MAX: usize = 2048;

/// A question, and who asks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub stream: u32,
    pub question: Question,
    /// Its call is to show up in the request's trace, so nobody else is asked for in it.
    pub traced: bool,
}

#[derive(Debug)]
struct Waiting {
    ask: Ask,
    since_us: u64,
}

/// What goes with one call.
#[derive(Debug, PartialEq, Eq)]
pub struct Group {
    /// By this it is known when it is answered.
    pub call: u64,
    pub asks: Vec<Ask>,
}

impl Group {
    /// Whether its call is to show up in a request's trace.
    pub fn is_traced(&self) -> bool {
        self.asks.iter().any(|ask| ask.traced)
    }
}

#[derive(Debug, Default)]
pub struct Asks {
    waiting: VecDeque<Waiting>,
    /// The calls that are not answered yet, those of traced requests not among them.
    under_way: Vec<u64>,
    calls: u64,
}

impl Asks {
    pub fn add(&mut self, ask: Ask, now_us: u64) {
        let since_us = now_us;
        self.waiting.push_back(Waiting { ask, since_us });
    }

    /// The stream is gone, or was answered otherwise.
    pub fn forget(&mut self, stream: u32) {
        self.waiting.retain(|waiting| waiting.ask.stream != stream);
    }

    /// Whether somebody is to be asked for now.
    pub fn is_due(&self, now_us: u64) -> bool {
        let Some(first) = self.waiting.front() else {
            return false;
        };
        let worth = self.waiting.len() >= WORTH_A_CALL && self.under_way.len() < CALLS_MAX;
        self.under_way.is_empty() || worth || first.ask.traced || first.waited_enough(now_us)
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next call, if it is due.
    pub fn take(&mut self, now_us: u64) -> Option<Group> {
        if !self.is_due(now_us) {
            return None;
        }
        let count = self.next_count();
        let asks: Vec<Ask> = (self.waiting.drain(..count))
            .map(|waiting| waiting.ask)
            .collect();
        self.calls = self.calls.saturating_add(1);
        let call = self.calls;
        let group = Group { call, asks };
        if !group.is_traced() {
            self.under_way.push(call);
        }
        Some(group)
    }

    /// The call came to its end, however it did.
    pub fn ended(&mut self, call: u64) {
        self.under_way.retain(|under_way| *under_way != call);
    }

    /// From the first on: as many as go together.
    fn next_count(&self) -> usize {
        let mut key_bytes: usize = 0;
        let mut count: usize = 0;
        for Waiting { ask, .. } in self.waiting.iter().take(GROUP_MAX) {
            key_bytes = key_bytes.saturating_add(ask.question.key_bytes());
            if count > 0 && (ask.traced || key_bytes > KEY_BYTES_MAX) {
                break;
            }
            count = count.saturating_add(1);
            if ask.traced {
                break;
            }
        }
        count
    }
}

impl Waiting {
    fn waited_enough(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.since_us) >= PATIENCE_US
    }
}

impl Question {
    fn key_bytes(&self) -> usize {
        let client = self.client.as_ref().map_or(0, String::len);
        let affinity = self.affinity.as_ref().map_or(0, |it| it.key.len());
        client.saturating_add(affinity)
    }
}

#[cfg(test)]
mod tests;
