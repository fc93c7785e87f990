//! Changes to inputs where nothing guides them: seeded, so that a failing run fails again.

/// What readers stumble over.
const TOKENS: [&[u8]; 40] = [
    b"",
    b"\0",
    b"\n",
    b"\r\n",
    b"\x1b[31m",
    b"\x80",
    b"\xff\xfe",
    b"\xc3\xa4",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x92\xa3",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"{}",
    b"[]",
    b"[[[[",
    b"null",
    b"true",
    b"-0",
    b"0",
    b"-1",
    b"1e308",
    b"1e-320",
    b"4294967296",
    b"9007199254740993",
    b"18446744073709551615",
    b"18446744073709551616",
    b"0.1",
    b"00112233445566778899aabbccddeeff",
    b"127.0.0.1:80",
    b"[::ffff:0.0.0.0]:80",
    b"websocket",
    b",",
    b"?",
    b"&berth-hop=",
    b"; ",
    b"=",
    b"%00",
    b"60/min",
    b"unix:/",
];

/// Larger than every limit on what is read.
const BYTES_MAX: usize = 70_000;

#[derive(Debug)]
pub struct Mutator {
    dice: fastrand::Rng,
    corpus: Vec<Vec<u8>>,
}

impl Mutator {
    pub fn new(corpus: Vec<Vec<u8>>, seed: u64) -> Self {
        Self {
            dice: fastrand::Rng::with_seed(seed),
            corpus,
        }
    }

    /// One of the corpus, changed in one to eight places.
    pub fn draw(&mut self) -> Vec<u8> {
        let mut input = self.pick();
        for _ in 0..=self.dice.usize(..8) {
            self.change(&mut input);
        }
        input.truncate(BYTES_MAX);
        input
    }

    fn pick(&mut self) -> Vec<u8> {
        let chosen = self.dice.usize(..self.corpus.len().max(1));
        self.corpus.get(chosen).cloned().unwrap_or_default()
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.dice.usize(..=input.len());
        let end = (at + self.dice.usize(..16)).min(input.len());
        match self.dice.u8(..7) {
            0 => insert(input, at, &[self.dice.u8(..)]),
            1 => insert(input, at, TOKENS[self.dice.usize(..TOKENS.len())]),
            2 => {
                input.drain(at..end);
            }
            3 => {
                let piece = input[at..end].to_vec();
                insert(input, at, &piece.repeat(1 + self.dice.usize(..4)));
            }
            4 => {
                let other = self.pick();
                let from = self.dice.usize(..=other.len());
                input.truncate(at);
                input.extend(&other[from..]);
            }
            // Rarely, because it makes all that follows slow.
            5 if self.dice.u8(..) == 0 => {
                let byte = [self.dice.u8(..)];
                insert(input, at, &byte.repeat(self.dice.usize(..BYTES_MAX)));
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.dice.u8(..8);
                }
            }
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    input.splice(at..at, piece.iter().copied());
}
