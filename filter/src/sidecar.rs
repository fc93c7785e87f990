//! The questions and news for the sidecar, and what counts as its answer. By which way they go is decided in `line`.

use crate::host::{self, Callout};
use crate::vm::Vm;
use admission::asks::Ask;
use admission::carried;
use admission::config::{AffinityConfig, Bind, ClientSource, KeySource, Mode};
use admission::id::LeaseId;
use admission::inspect;
use admission::inventory::Delivery;
use admission::message::{
    ADMIT_GROUP_PATH, AdmitGroupAnswer, AdmitGroupRequest, AffinityRequest, Answer, BIND_PATH,
    BindAnswer, BindRequest, ErrorAnswer, HOLDER_HEADER, LINE_METHOD, LINE_SERVICE, OBSERVE_PATH,
    OVERLOADED, ObserveRequest, POOL_HEADER, PRESENCE_HEADER, PRESENCE_PATH, Question,
    RELEASE_PATH, RENEW_PATH, ReleaseRequest, RenewRequest, SIDECAR_HEADER, SIDECAR_HEADER_VALUE,
};
use proxy_wasm::types::{Bytes, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A beat that lists thousands of leases may take longer than a question.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// An answer is a few hundred bytes for each that asked; more is not an answer.
pub(crate) const ANSWER_BYTES_MAX: usize = 32 * 1024;
/// Copied from the request so that the question shows up in its trace: Envoy gives callouts none.
const TRACE_HEADERS: [&str; 4] = ["traceparent", "tracestate", "baggage", "x-request-id"];
/// Longer values are left out: they are for tracing, not worth a larger question.
const TRACE_BYTES_MAX: usize = 512;

/// What is posted to the sidecar.
pub(crate) struct Message {
    pub(crate) path: &'static str,
    pub(crate) body: Vec<u8>,
    /// How long an answer may take.
    pub(crate) timeout: Duration,
    traces: Vec<(&'static str, String)>,
}

impl Message {
    fn to(path: &'static str, content: &impl Serialize, timeout: Duration) -> Result<Self, Status> {
        Ok(Self {
            path,
            body: serde_json::to_vec(content).map_err(|_| Status::InternalFailure)?,
            timeout,
            traces: Vec::new(),
        })
    }

    /// Becomes part of the trace of the stream that is asked for, if it is asked for alone.
    pub(crate) fn follow(&mut self, asks: &[Ask], root: u32) {
        if let [ask] = asks
            && host::act_for(ask.stream).is_ok()
        {
            self.traces = traces();
            let _ = host::act_for(root);
        }
    }
}

/// What came of it.
pub(crate) enum Reply {
    /// The sidecar did what it was asked; this is the answer's body.
    Answered(Bytes),
    /// The sidecar refused the message itself, or the store's script broke on it, so that repeating it cannot help.
    Rejected,
    /// Nobody answered, or it was no answer of a sidecar.
    Nothing,
}

impl Reply {
    /// To a call of its own. Envoy reports a timeout as 504, a refused connection as 503, and an answer that broke off
    /// as no headers at all; only the sidecar's own header tells an answer from these.
    pub(crate) fn to_call(headers: usize) -> Self {
        let marked = || host::callout_header(SIDECAR_HEADER);
        if headers == 0 || marked().as_deref() != Some(SIDECAR_HEADER_VALUE.as_bytes()) {
            return Self::Nothing;
        }
        let status = host::callout_header(":status").unwrap_or_default();
        let status = std::str::from_utf8(&status)
            .ok()
            .and_then(|it| it.parse().ok());
        Self::of(status.unwrap_or_default(), || {
            host::callout_body(ANSWER_BYTES_MAX)
        })
    }

    /// Only a sidecar speaks on a line.
    pub(crate) fn on_line(status: u16, body: &[u8]) -> Self {
        Self::of(status, || Some(body.to_vec()))
    }

    /// It helps to repeat what was not looked at: a token that is not known yet (401), a body that was slow (408).
    fn of(status: u16, body: impl FnOnce() -> Option<Bytes>) -> Self {
        match status {
            200 => Self::Answered(body().unwrap_or_default()),
            401 | 408 => Self::Nothing,
            400..=500 => Self::Rejected,
            _ => Self::Nothing,
        }
    }

    pub(crate) fn decode<T: DeserializeOwned>(&self) -> Option<T> {
        match self {
            Self::Answered(body) => serde_json::from_slice(body).ok(),
            Self::Rejected | Self::Nothing => None,
        }
    }

    /// To a group of questions. Whoever is not in it has no answer.
    pub(crate) fn admit_answers(&self) -> Option<Vec<Answer>> {
        let group: AdmitGroupAnswer = self.decode()?;
        Some(group.answers)
    }
}

/// Whether a sidecar that gave no answer says that it has too much to do.
pub(crate) fn is_overloaded(body: &[u8]) -> bool {
    serde_json::from_slice::<ErrorAnswer>(body).is_ok_and(|it| it.error == OVERLOADED)
}

/// What is asked for the stream in effect.
pub(crate) fn question(vm: &Vm, number: u64) -> Question {
    let config = &vm.config;
    let path = if config.reads_path() {
        host::request_header(":path").unwrap_or_default()
    } else {
        Vec::new()
    };
    Question {
        number,
        bytes: content_length(),
        operation: inspect::operation(config, &path),
        client: config.client.as_ref().map(client_key),
        affinity: (config.affinity.as_ref()).and_then(|it| affinity_of(it, &path)),
    }
}

/// Whether the stream in effect is part of a trace that is kept: version, trace, parent and flags, of which the
/// lowest says so.
pub(crate) fn is_traced() -> bool {
    let parent = host::request_header("traceparent");
    let flags = parent
        .as_ref()
        .and_then(|it| it.rsplit(|&byte| byte == b'-').next());
    let last = flags.and_then(|it| it.last()).copied();
    last.is_some_and(|digit| {
        char::from(digit)
            .to_digit(16)
            .is_some_and(|flags| flags & 1 == 1)
    })
}

/// Asks for the leases of a group.
pub(crate) fn ask(vm: &Vm, asks: &[Ask]) -> Result<Message, Status> {
    let request = AdmitGroupRequest {
        pool: vm.config.pool.clone(),
        holder: vm.id.clone(),
        own: vm.config.own.clone(),
        redirect: vm.config.mode == Mode::Redirect,
        questions: asks.iter().map(|ask| ask.question.clone()).collect(),
    };
    Message::to(ADMIT_GROUP_PATH, &request, answer_timeout(vm))
}

fn traces() -> Vec<(&'static str, String)> {
    let names = TRACE_HEADERS.into_iter();
    names
        .filter_map(|name| Some((name, trace_value(name)?)))
        .collect()
}

/// Whom the request is counted for. Those of whom nothing is known are counted together.
fn client_key(source: &ClientSource) -> String {
    match source {
        ClientSource::Header(name) => carried::key(&host::request_header(name).unwrap_or_default()),
        ClientSource::Peer => carried::peer(&host::peer().unwrap_or_default()),
        ClientSource::Metadata { filter, path } => {
            carried::key(&host::metadata(filter, path).unwrap_or_default())
        }
    }
}

fn affinity_of(config: &AffinityConfig, path: &[u8]) -> Option<AffinityRequest> {
    let key = match &config.key {
        KeySource::Header(name) => host::request_header(name).filter(|key| !key.is_empty()),
        KeySource::Cookie(name) => {
            let cookies = host::request_header("cookie")?;
            carried::cookie(&cookies, name).map(<[u8]>::to_vec)
        }
        KeySource::Query(name) => carried::parameter(path, name).map(<[u8]>::to_vec),
    };
    Some(AffinityRequest {
        key: carried::key(&key?),
        bind: config.bind == Bind::Request,
    })
}

/// Whether the request carries an affinity key.
pub(crate) fn is_bound_somewhere(vm: &Vm) -> bool {
    let path = || host::request_header(":path").unwrap_or_default();
    let affinity = vm.config.affinity.as_ref();
    affinity.is_some_and(|it| affinity_of(it, &path()).is_some())
}

/// Has a key bound that the worker's answer carries; the stream in effect will hear the answer.
pub(crate) fn bind(vm: &Vm, lease: LeaseId, key: String) -> Result<u32, Status> {
    let request = BindRequest {
        pool: vm.config.pool.clone(),
        holder: vm.id.clone(),
        lease,
        key,
    };
    post(vm, &Message::to(BIND_PATH, &request, answer_timeout(vm))?)
}

/// Of the call that `bind` made.
pub(crate) fn is_bound(headers: usize) -> bool {
    let answer: Option<BindAnswer> = Reply::to_call(headers).decode();
    answer.is_some_and(|answer| answer.bound)
}

fn content_length() -> Option<u64> {
    let text = host::request_header("content-length")?;
    std::str::from_utf8(&text).ok()?.parse().ok()
}

fn trace_value(name: &str) -> Option<String> {
    let value = host::request_header(name)?;
    let short = value.len() <= TRACE_BYTES_MAX;
    String::from_utf8(value).ok().filter(|_| short)
}

pub(crate) fn deliver(vm: &Vm, delivery: &Delivery) -> Result<Message, Status> {
    let pool = vm.config.pool.clone();
    let holder = vm.id.clone();
    match delivery {
        Delivery::Releases(releases) => {
            let releases = releases.clone();
            let request = ReleaseRequest {
                pool,
                holder,
                releases,
            };
            Message::to(RELEASE_PATH, &request, answer_timeout(vm))
        }
        Delivery::Observations(observations) => {
            let observations = observations.clone();
            let request = ObserveRequest {
                pool,
                holder,
                observations,
            };
            Message::to(OBSERVE_PATH, &request, answer_timeout(vm))
        }
    }
}

pub(crate) fn beat(vm: &Vm, request: &RenewRequest) -> Result<Message, Status> {
    let timeout = match request.leases {
        Some(_) => LIST_TIMEOUT,
        None => answer_timeout(vm),
    };
    Message::to(RENEW_PATH, request, timeout)
}

/// Opens a call that hangs for as long as this VM lives.
pub(crate) fn be_present(vm: &Vm, number: u64) -> Result<u32, Status> {
    let (holder, number) = (vm.id.to_string(), number.to_string());
    let mut headers = vec![
        (":method", "GET"),
        (":path", PRESENCE_PATH),
        (":authority", "berth"),
        (POOL_HEADER, vm.config.pool.as_str()),
        (HOLDER_HEADER, holder.as_str()),
        (PRESENCE_HEADER, number.as_str()),
    ];
    let authorization = authorization(vm);
    headers.extend(
        authorization
            .iter()
            .map(|it| ("authorization", it.as_str())),
    );
    host::call(Callout {
        cluster: &vm.config.sidecar,
        headers,
        body: &[],
        // None: it is to hang.
        timeout: Duration::ZERO,
    })
}

/// For a sidecar that asks for a token.
fn authorization(vm: &Vm) -> Option<String> {
    let token = vm.config.sidecar_token.as_ref()?;
    Some(format!("Bearer {}", token.expose()))
}

fn answer_timeout(vm: &Vm) -> Duration {
    Duration::from_millis(vm.config.ask_timeout_ms)
}

/// By a call of its own, whose answer is told to whoever is in effect.
pub(crate) fn post(vm: &Vm, message: &Message) -> Result<u32, Status> {
    let mut headers = vec![
        (":method", "POST"),
        (":path", message.path),
        (":authority", "berth"),
        ("content-type", "application/json"),
    ];
    let traces = message.traces.iter();
    headers.extend(traces.map(|(name, value)| (*name, value.as_str())));
    let authorization = authorization(vm);
    headers.extend(
        authorization
            .iter()
            .map(|it| ("authorization", it.as_str())),
    );
    host::call(Callout {
        cluster: &vm.config.sidecar,
        headers,
        body: &message.body,
        timeout: message.timeout,
    })
}

/// Opens a line; whoever is in effect hears what comes over it.
pub(crate) fn open_line(vm: &Vm) -> Result<u32, Status> {
    let authorization = authorization(vm);
    let authorization = authorization.iter();
    let headers = authorization.map(|it| ("authorization", it.as_bytes()));
    host::open_line(
        &vm.config.sidecar,
        LINE_SERVICE,
        LINE_METHOD,
        headers.collect(),
    )
}
