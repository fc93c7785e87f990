//! How messages travel: late, twice, or not at all.

use crate::chance::Chance;

/// What a seed's network is like, in thousandths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    lost: u64,
    doubled: u64,
    slow: u64,
}

/// A copy of a message may come this much later.
const DOUBLE_US_MAX: u64 = 4_000_000;
/// Most answers are given up after 300 ms; what is slower takes effect unheard.
const SLOW_US_MAX: u64 = 1_500_000;

/// Most messages take no longer.
pub(crate) const QUICK_US: u64 = 1_500;

impl Weather {
    pub(crate) const CALM: Self = Self {
        lost: 0,
        doubled: 0,
        slow: 0,
    };

    pub(crate) fn of(chance: &mut Chance) -> Self {
        Self {
            lost: chance.pick(&[0, 2, 10]),
            doubled: chance.pick(&[0, 10, 50]),
            slow: chance.pick(&[0, 10, 50]),
        }
    }

    /// When each copy of a message arrives, from now.
    pub(crate) fn send(self, chance: &mut Chance) -> [Option<u64>; 2] {
        let mut arrivals = [None, None];
        if !chance.in_thousand(self.lost) {
            arrivals[0] = Some(self.delay(chance));
        }
        if chance.in_thousand(self.doubled) {
            arrivals[1] = Some(chance.between(100, DOUBLE_US_MAX));
        }
        arrivals
    }

    pub(crate) fn delay(self, chance: &mut Chance) -> u64 {
        if chance.in_thousand(self.slow) {
            chance.between(1_000, SLOW_US_MAX)
        } else {
            chance.between(100, QUICK_US)
        }
    }
}
