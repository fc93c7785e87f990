//! The line to the sidecar, from the filter's end: whether it is up, and which calls on it are not answered yet. There
//! is one at a time, and what cannot go by it goes by a call of its own.

use crate::message::LINE_CALLS_MAX;

/// A line that broke is opened again after this, or twice as long as the last time if it was of no use meanwhile.
const PAUSE_US: u64 = 1_000_000;
const PAUSE_US_MAX: u64 = 64_000_000;
/// A line is left after this, and the next leads to whichever sidecar is the first by then: a spare is not asked for
/// ever, because it was asked once.
const AGE_US_MAX: u64 = 5_000_000;
/// A line that is not ready after this leads nowhere.
const OPENING_US_MAX: u64 = 5_000_000;

#[derive(Debug, PartialEq, Eq)]
enum State {
    Down {
        until_us: u64,
    },
    /// The proxy knows it by this token; whether anybody answers is not known yet.
    Opening {
        token: u32,
        until_us: u64,
    },
    Up {
        token: u32,
        until_us: u64,
    },
    /// Nothing more is asked on it, and what was is still answered.
    Leaving {
        token: u32,
        why: Why,
    },
}

/// Why a line is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its sidecar will end, or it is old.
    Time,
    /// Its sidecar cannot answer, or does not make sense.
    Trouble,
}

/// How a line is ended from this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// In a word, which the other end answers with its own.
    TakeLeave(u32),
    /// Nobody is heard at its other end.
    HangUp(u32),
}

#[derive(Debug)]
struct Sent<T> {
    number: u64,
    call: T,
    until_us: u64,
}

#[derive(Debug)]
pub struct Line<T> {
    state: State,
    under_way: Vec<Sent<T>>,
    /// Nothing came over it since a call was given up.
    is_silent: bool,
    numbers: u64,
    pause_us: u64,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self {
            state: State::Down { until_us: 0 },
            under_way: Vec::new(),
            is_silent: false,
            numbers: 0,
            pause_us: PAUSE_US,
        }
    }
}

impl<T> Line<T> {
    /// Whether it is down, and may be opened.
    pub fn may_open(&self, now_us: u64) -> bool {
        matches!(self.state, State::Down { until_us } if now_us >= until_us)
    }

    pub fn opening(&mut self, token: u32, now_us: u64) {
        let until_us = now_us.saturating_add(OPENING_US_MAX);
        self.state = State::Opening { token, until_us };
        self.is_silent = false;
    }

    /// A sidecar is at its end.
    pub fn ready(&mut self, token: u32, now_us: u64) {
        if matches!(self.state, State::Opening { token: known, .. } if known == token) {
            let until_us = now_us.saturating_add(AGE_US_MAX);
            self.state = State::Up { token, until_us };
        }
    }

    /// Leaves it, if it is old.
    pub fn age(&mut self, now_us: u64) {
        if let State::Up { token, until_us } = self.state
            && now_us >= until_us
        {
            self.leave(token, Why::Time);
        }
    }

    /// Where to ask now. Not where so many wait that the sidecar would not read what comes next.
    pub fn up(&self) -> Option<u32> {
        match self.state {
            State::Up { token, .. } => (self.under_way.len() < LINE_CALLS_MAX).then_some(token),
            State::Down { .. } | State::Opening { .. } | State::Leaving { .. } => None,
        }
    }

    /// Whether this is the line that there is.
    fn is(&self, other: u32) -> bool {
        match self.state {
            State::Opening { token, .. }
            | State::Up { token, .. }
            | State::Leaving { token, .. } => token == other,
            State::Down { .. } => false,
        }
    }

    /// What the next call is known by: no two have the same.
    pub fn next_number(&mut self) -> u64 {
        self.numbers = self.numbers.saturating_add(1);
        self.numbers
    }

    /// An answer is waited for until then.
    pub fn sent(&mut self, number: u64, call: T, until_us: u64) {
        self.under_way.push(Sent {
            number,
            call,
            until_us,
        });
    }

    /// Whether somebody waits for an answer over it.
    pub fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// What was answered, if it was called on this line.
    pub fn answered(&mut self, token: u32, number: u64) -> Option<T> {
        if !self.is(token) {
            return None;
        }
        self.is_silent = false;
        let place = (self.under_way.iter()).position(|sent| sent.number == number)?;
        self.pause_us = PAUSE_US;
        Some(self.under_way.swap_remove(place).call)
    }

    /// Asks nothing more on it. Trouble is not forgotten because its time comes, too.
    pub fn leave(&mut self, token: u32, why: Why) {
        let in_trouble = matches!(
            self.state,
            State::Leaving {
                why: Why::Trouble,
                ..
            }
        );
        if self.is(token) && !in_trouble {
            self.state = State::Leaving { token, why };
        }
    }

    /// Those that have waited for so long that no answer will come. The line is left for them, but whoever has
    /// called later is still waited for: their answers may be on their way.
    pub fn give_up(&mut self, now_us: u64) -> Vec<T> {
        let late: Vec<T> = (self.under_way)
            .extract_if(.., |sent| now_us >= sent.until_us)
            .map(|sent| sent.call)
            .collect();
        if let State::Up { token, .. } | State::Leaving { token, .. } = self.state
            && !late.is_empty()
        {
            self.is_silent = true;
            self.leave(token, Why::Trouble);
        }
        late
    }

    /// How to end the line, when it is time: nobody is to ask on it any more, and all are answered or given up.
    pub fn end(&self, now_us: u64) -> Option<End> {
        match self.state {
            State::Leaving { token, .. } if !self.is_busy() => Some(if self.is_silent {
                End::HangUp(token)
            } else {
                End::TakeLeave(token)
            }),
            State::Opening { token, until_us } if now_us >= until_us => Some(End::HangUp(token)),
            State::Leaving { .. }
            | State::Opening { .. }
            | State::Up { .. }
            | State::Down { .. } => None,
        }
    }

    /// It could not be opened, or has ended; these will not be answered.
    pub fn ended(&mut self, token: Option<u32>, now_us: u64) -> Vec<T> {
        if token.is_some_and(|token| !self.is(token)) {
            return Vec::new();
        }
        let in_good_order = match self.state {
            State::Leaving { why, .. } => why == Why::Time && !self.is_busy(),
            State::Opening { .. } | State::Up { .. } | State::Down { .. } => false,
        };
        // The next may follow at once.
        let pause_us = if in_good_order { 0 } else { self.pause_us };
        if !in_good_order {
            self.pause_us = self.pause_us.saturating_mul(2).min(PAUSE_US_MAX);
        }
        self.state = State::Down {
            until_us: now_us.saturating_add(pause_us),
        };
        (self.under_way.drain(..).map(|sent| sent.call)).collect()
    }
}

#[cfg(test)]
mod tests;
