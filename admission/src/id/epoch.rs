//! The id of a filter VM's life.

use super::{IdError, Text};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// 128 random bits in hexadecimal: an epoch is a capability and must not be guessable.
const EPOCH_BYTES: usize = 32;

/// 128 random bits that name one life of a filter VM. Whoever knows it may change its leases. Every lease of a
/// filter has one, so it is kept in as few bytes as it has.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch([u8; EPOCH_BYTES / 2]);

impl Epoch {
    pub fn from_random(bytes: [u8; EPOCH_BYTES / 2]) -> Self {
        Self(bytes)
    }

    pub fn parse(text: &str) -> Result<Self, IdError> {
        let shape = || IdError::Shape {
            what: "an epoch",
            shape: "32 lower-case hexadecimal digits",
        };
        let mut bytes = [0; EPOCH_BYTES / 2];
        if text.len() != EPOCH_BYTES {
            return Err(shape());
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            for digit in digits {
                *byte = (*byte << 4) | hexadecimal(*digit).ok_or_else(shape)?;
            }
        }
        Ok(Self(bytes))
    }

    /// As it is written.
    pub fn text(&self) -> EpochText {
        const DIGITS: [u8; 16] = *b"0123456789abcdef";
        let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or_default();
        let mut text = [0; EPOCH_BYTES];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
        }
        EpochText(text)
    }
}

/// One spelling of one value: upper-case digits would be a second.
fn hexadecimal(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// An epoch as text, without a place of its own in memory.
pub struct EpochText([u8; EPOCH_BYTES]);

impl std::ops::Deref for EpochText {
    type Target = str;

    fn deref(&self) -> &str {
        // Digits alone, always.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

text_conversions!(Epoch);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

// An epoch is a capability: a log line must not hand it out.
impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({}…)", self.text().get(..6).unwrap_or_default())
    }
}

impl fmt::Debug for EpochText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EpochText(…)")
    }
}
