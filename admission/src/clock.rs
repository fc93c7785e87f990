//! A clock that never goes back, made from one that may.

/// A proxy's host may set its clock back. Whoever waits for a time would then wait for as long.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    last_us: u64,
    /// How far this clock is ahead of the host's.
    ahead_us: u64,
}

impl Clock {
    /// The time now, when the host's clock shows `wall_us`.
    pub fn read(&mut self, wall_us: u64) -> u64 {
        let now_us = wall_us.saturating_add(self.ahead_us);
        let back_us = self.last_us.saturating_sub(now_us);
        self.ahead_us = self.ahead_us.saturating_add(back_us);
        self.last_us = now_us.max(self.last_us);
        self.last_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn a_clock_that_is_set_back_goes_on_from_where_it_was() {
        let mut clock = Clock::default();
        assert_eq!(clock.read(1000), 1000);
        assert_eq!(clock.read(400), 1000);
        assert_eq!(clock.read(500), 1100);
        assert_eq!(clock.read(2000), 2600);
    }
}
