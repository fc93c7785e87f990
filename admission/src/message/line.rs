//! A line: a call that stays open, over which others go back and forth. It is a gRPC call, because Envoy lets a filter
//! keep no other open both ways. Each of its messages is what a call of its own would be: a line of text, and a body.

/// gRPC has a service and a method, and makes a path of both.
pub const LINE_PATH: &str = "/v1/line";
pub const LINE_SERVICE: &str = "v1";
pub const LINE_METHOD: &str = "line";

/// Calls of one line that have no answer yet, or one that was not taken. The sidecar reads no more until one is, so a
/// filter that has as many makes calls of their own. Mostly it has a handful.
pub const LINE_CALLS_MAX: usize = 64;

/// The first that a sidecar says: the line can be used. Until then nobody knows whether there is a sidecar at its end.
const READY: &[u8] = b"ready";
/// Whoever says so asks no more on this line, or is not to be asked any more; what was asked is still answered.
const LEAVING: &[u8] = b"leaving";

/// `7 /v1/release`, and the body that is posted there.
#[derive(Debug, PartialEq, Eq)]
pub struct LineCall<'a> {
    /// By this the answer is known. Answers come in any order.
    pub number: u64,
    pub path: &'a str,
    pub body: &'a [u8],
}

impl<'a> LineCall<'a> {
    pub fn write(&self) -> Vec<u8> {
        written(self.number, self.path, self.body)
    }

    pub fn read(message: &'a [u8]) -> Option<Self> {
        let (number, path, body) = read(message)?;
        Some(Self { number, path, body })
    }
}

/// What a holder says.
#[derive(Debug, PartialEq, Eq)]
pub enum HolderWord<'a> {
    Call(LineCall<'a>),
    /// The last word. (To hang up without it would do, but the SDK of the filter forgets a line only when it was ended
    /// from the other side.)
    Leaving,
}

impl<'a> HolderWord<'a> {
    pub fn write(&self) -> Vec<u8> {
        match self {
            Self::Call(call) => call.write(),
            Self::Leaving => LEAVING.to_vec(),
        }
    }

    pub fn read(message: &'a [u8]) -> Option<Self> {
        match message {
            LEAVING => Some(Self::Leaving),
            _ => LineCall::read(message).map(Self::Call),
        }
    }
}

/// What the sidecar says.
#[derive(Debug, PartialEq, Eq)]
pub enum LineAnswer<'a> {
    Ready,
    /// `7 200`, and the answer's body.
    Answer {
        number: u64,
        status: u16,
        body: &'a [u8],
    },
    Leaving,
}

impl<'a> LineAnswer<'a> {
    pub fn write(&self) -> Vec<u8> {
        match self {
            Self::Ready => READY.to_vec(),
            Self::Answer {
                number,
                status,
                body,
            } => written(*number, &status.to_string(), body),
            Self::Leaving => LEAVING.to_vec(),
        }
    }

    pub fn read(message: &'a [u8]) -> Option<Self> {
        match message {
            READY => return Some(Self::Ready),
            LEAVING => return Some(Self::Leaving),
            _ => {}
        }
        let (number, status, body) = read(message)?;
        let status = status.parse().ok()?;
        Some(Self::Answer {
            number,
            status,
            body,
        })
    }
}

fn written(number: u64, word: &str, body: &[u8]) -> Vec<u8> {
    let number = number.to_string();
    [number.as_bytes(), b" ", word.as_bytes(), b"\n", body].concat()
}

fn read(message: &[u8]) -> Option<(u64, &str, &[u8])> {
    let end = message.iter().position(|byte| *byte == b'\n')?;
    let (head, body) = message.split_at_checked(end)?;
    let (number, word) = std::str::from_utf8(head).ok()?.split_once(' ')?;
    Some((number.parse().ok()?, word, body.get(1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn what_is_written_is_read() {
        let call = LineCall {
            number: 7,
            path: "/v1/release",
            body: b"{}\n",
        };
        let word = HolderWord::Call(call);
        assert_eq!(HolderWord::read(&word.write()), Some(word));
        let word = HolderWord::Leaving;
        assert_eq!(HolderWord::read(&word.write()), Some(word));
        let answer = LineAnswer::Answer {
            number: u64::MAX,
            status: 503,
            body: b"",
        };
        assert_eq!(LineAnswer::read(&answer.write()), Some(answer));
        for word in [LineAnswer::Ready, LineAnswer::Leaving] {
            assert_eq!(LineAnswer::read(&word.write()), Some(word));
        }
    }

    #[test]
    fn what_is_no_message_is_not_read() {
        for message in [
            "",
            "\n",
            "7",
            "7 200",
            "x 200\n",
            "7\n",
            " 200\n",
            "7 ok\n",
            "7 70000\n",
            "leaving\n",
        ] {
            assert_eq!(LineAnswer::read(message.as_bytes()), None, "{message:?}");
        }
        assert_eq!(LineAnswer::read(b"\xff 200\n"), None);
        assert_eq!(HolderWord::read(b"leaving\n"), None);
    }
}
