//! What the end of a stream says about its worker.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The worker answered, and not with a 5xx.
    Success,
    /// The worker answered with a 5xx.
    Warning,
    /// No connection: refused, not made in time, or not tried, because Envoy itself counts the worker
    /// out (it failed its health check, or is no member of the cluster).
    ConnectFailed,
    /// Connected, but closed or reset before its response headers.
    ResetBeforeHeaders,
    /// Reset in the middle of a response or session.
    Reset,
    /// No response in time.
    Timeout,
    /// Nothing was learned: the client left first, or Envoy itself refused.
    Unknown,
}

impl Outcome {
    pub const ALL: [Self; 7] = [
        Self::Success,
        Self::Warning,
        Self::ConnectFailed,
        Self::ResetBeforeHeaders,
        Self::Reset,
        Self::Timeout,
        Self::Unknown,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Warning => "warning",
            Self::ConnectFailed => "connect_failed",
            Self::ResetBeforeHeaders => "reset_before_headers",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::Unknown => "unknown",
        }
    }
}

/// Envoy's response flags: what Envoy itself had to say about a stream. The bits are those of
/// `response.flags`; only the ones that tell something about the worker are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponseFlags(pub u64);

impl ResponseFlags {
    const NO_HEALTHY_UPSTREAM: u64 = 1 << 1;
    const UPSTREAM_REQUEST_TIMEOUT: u64 = 1 << 2;
    const UPSTREAM_REMOTE_RESET: u64 = 1 << 4;
    const UPSTREAM_CONNECTION_FAILURE: u64 = 1 << 5;
    const UPSTREAM_CONNECTION_TERMINATION: u64 = 1 << 6;
    const UPSTREAM_PROTOCOL_ERROR: u64 = 1 << 23;

    fn any(self, bits: u64) -> bool {
        self.0 & bits != 0
    }

    fn connect_failed(self) -> bool {
        self.any(Self::UPSTREAM_CONNECTION_FAILURE | Self::NO_HEALTHY_UPSTREAM)
    }

    fn timed_out(self) -> bool {
        self.any(Self::UPSTREAM_REQUEST_TIMEOUT)
    }

    fn reset(self) -> bool {
        self.any(
            Self::UPSTREAM_REMOTE_RESET
                | Self::UPSTREAM_CONNECTION_TERMINATION
                | Self::UPSTREAM_PROTOCOL_ERROR,
        )
    }
}

/// Who wrote the response that the client gets. Envoy's substitute for a missing response has a
/// status like any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    Worker,
    Envoy,
}

/// A worker's response, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// No response headers came.
    None,
    /// The worker answered.
    Worker { status: u16 },
    /// Envoy answered in the worker's place, for the reason its flags tell.
    Envoy,
}

impl Response {
    pub fn of(status: u16, author: Author) -> Self {
        match author {
            Author::Worker => Self::Worker { status },
            Author::Envoy => Self::Envoy,
        }
    }
}

pub fn judge(response: Response, flags: ResponseFlags) -> Outcome {
    match response {
        Response::Worker { .. } if flags.reset() => Outcome::Reset,
        Response::Worker { status } if status >= 500 => Outcome::Warning,
        Response::Worker { .. } => Outcome::Success,
        Response::None | Response::Envoy => {
            if flags.connect_failed() {
                Outcome::ConnectFailed
            } else if flags.timed_out() {
                Outcome::Timeout
            } else if flags.reset() {
                Outcome::ResetBeforeHeaders
            } else {
                Outcome::Unknown
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    const CLEAN: ResponseFlags = ResponseFlags(0);
    const REFUSED: ResponseFlags = ResponseFlags(ResponseFlags::UPSTREAM_CONNECTION_FAILURE);
    const COUNTED_OUT: ResponseFlags = ResponseFlags(ResponseFlags::NO_HEALTHY_UPSTREAM);
    const CUT: ResponseFlags = ResponseFlags(ResponseFlags::UPSTREAM_CONNECTION_TERMINATION);
    const LATE: ResponseFlags = ResponseFlags(ResponseFlags::UPSTREAM_REQUEST_TIMEOUT);

    fn ended(author: Author, status: u16, flags: ResponseFlags) -> Outcome {
        judge(Response::of(status, author), flags)
    }

    #[test]
    fn a_worker_that_answers_succeeds_or_warns() {
        assert_eq!(ended(Author::Worker, 101, CLEAN), Outcome::Success);
        assert_eq!(ended(Author::Worker, 404, CLEAN), Outcome::Success);
        assert_eq!(ended(Author::Worker, 503, CLEAN), Outcome::Warning);
    }

    #[test]
    fn envoys_answer_in_its_place_is_a_failure_of_the_kind_the_flags_tell() {
        assert_eq!(ended(Author::Envoy, 503, REFUSED), Outcome::ConnectFailed);
        assert_eq!(
            ended(Author::Envoy, 503, COUNTED_OUT),
            Outcome::ConnectFailed
        );
        assert_eq!(ended(Author::Envoy, 503, CUT), Outcome::ResetBeforeHeaders);
        assert_eq!(ended(Author::Envoy, 504, LATE), Outcome::Timeout);
    }

    #[test]
    fn a_refusal_of_envoy_itself_says_nothing_about_the_worker() {
        assert_eq!(ended(Author::Envoy, 413, CLEAN), Outcome::Unknown);
    }

    #[test]
    fn a_session_cut_by_its_worker_is_a_reset() {
        assert_eq!(ended(Author::Worker, 101, CUT), Outcome::Reset);
    }

    #[test]
    fn a_client_that_leaves_first_teaches_nothing() {
        assert_eq!(judge(Response::None, CLEAN), Outcome::Unknown);
    }

    #[test]
    fn outcomes_are_spelled_alike_in_json_and_text() {
        for outcome in Outcome::ALL {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
    }
}
