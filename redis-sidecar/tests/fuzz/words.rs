//! What requests and arguments are made of: few names, so that they meet, and values that no filter and
//! no worker would send.

use admission::id::{BEAT_SHIFT, Epoch};
use serde_json::{Value, json};

pub(super) const STRATEGIES: [&str; 8] = [
    "lifetime_first",
    "round_robin",
    "least_connections",
    "random",
    "sewt",
    "score",
    "nodeads",
    "noerrors",
];
pub(super) const OUTCOMES: [&str; 7] = [
    "success",
    "warning",
    "connect_failed",
    "reset_before_headers",
    "reset",
    "timeout",
    "unknown",
];

/// Numbers at the edges of what can be kept.
const NUMBERS: [u64; 12] = [
    0,
    1,
    2,
    255,
    256,
    1 << 24,
    u32::MAX as u64,
    1 << 32,
    100_000_000_000_000,
    1 << 53,
    (1 << 53) + 1,
    u64::MAX,
];

/// Text as nobody writes it.
pub(super) const TEXTS: [&str; 22] = [
    "",
    " ",
    "0",
    "-1",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "1e999",
    "0x10",
    " 5 ",
    "1.5",
    "head",
    "asking",
    "\0",
    "a\nb",
    "{demo}",
    "ws:{demo}:pool",
    "9007199254740993",
    "%s%n",
    "\u{1f4a3}",
    "%00",
];

pub(super) trait Words {
    fn of<T: Copy>(&mut self, choices: &[T]) -> T;
    /// True in one of so many cases.
    fn one_in(&mut self, cases: u32) -> bool;
    fn number(&mut self) -> u64;
    fn time_us(&mut self) -> u64;
    fn worker(&mut self) -> String;
    fn incarnation(&mut self) -> &'static str;
    fn epoch(&mut self) -> Epoch;
    fn lease_number(&mut self) -> u64;
    fn key(&mut self) -> String;
    fn hostile_json(&mut self) -> Value;
    fn hostile_text(&mut self) -> String;
}

impl Words for fastrand::Rng {
    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.usize(..choices.len())]
    }

    fn one_in(&mut self, cases: u32) -> bool {
        self.u32(..cases) == 0
    }

    fn number(&mut self) -> u64 {
        match self.one_in(3) {
            true => self.of(&NUMBERS),
            false => self.u64(..20),
        }
    }

    fn time_us(&mut self) -> u64 {
        self.of(&[0, 1, 500, 20_000, 5_000_000, u64::MAX])
    }

    fn worker(&mut self) -> String {
        format!("w{}", self.u8(1..5))
    }

    fn incarnation(&mut self) -> &'static str {
        self.of(&["a", "a", "a", "b"])
    }

    fn epoch(&mut self) -> Epoch {
        Epoch::from_random([self.u8(1..4); 16])
    }

    /// After one of the first beats, so that beats speak for some and not for others.
    fn lease_number(&mut self) -> u64 {
        (self.u64(..4) << BEAT_SHIFT) + self.u64(1..8)
    }

    fn key(&mut self) -> String {
        format!("k{}", self.u8(..4))
    }

    fn hostile_json(&mut self) -> Value {
        match self.u8(..9) {
            0 => Value::Null,
            1 => json!(self.bool()),
            2 => json!(-1),
            3 => json!(self.of(&[0.5, 1e308, 1e-320, -0.0, 1e14])),
            4 => json!([]),
            5 => json!({"unknown": [[[]]]}),
            6 => json!("x".repeat(self.usize(..5000))),
            7 => json!(self.of(&NUMBERS)),
            _ => json!(self.of(&TEXTS)),
        }
    }

    fn hostile_text(&mut self) -> String {
        match self.u8(..4) {
            0 => self.of(&NUMBERS).to_string(),
            1 => "x".repeat(self.usize(..300)),
            _ => self.of(&TEXTS).to_owned(),
        }
    }
}
