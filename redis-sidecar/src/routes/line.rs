//! A line: the calls of one holder, and their answers, over one call that stays open (docs/decisions/0024). What is
//! called is answered as if it had come by itself. Whatever is no call ends the line, and the filter goes on without.

mod frame;

use super::{ApiError, App};
use crate::connection::Endless;
use crate::doors::crowd::Room;
use crate::metrics::doors::Reason;
use crate::untaken::{Untaken, Waits};
use admission::message::{HolderWord, LINE_CALLS_MAX, LINE_PATH, LineAnswer, LineCall};
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use frame::{Broken, Message, Messages};
use http_body_util::{BodyExt, Collected, StreamBody};
use hyper::body::Frame;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tower::ServiceExt;

const GRPC: &str = "application/grpc";
/// Lines at a time. An Envoy has one for each of its threads; what is above is an error or an attack.
pub(super) const LINES_MAX: usize = 10_000;
/// What is said without having been asked: `ready`, `leaving`.
const WORDS_MAX: usize = 2;

/// How a line ended, in gRPC's words.
#[derive(Debug)]
enum Status {
    /// The holder has nothing more to ask.
    Ended,
    Invalid,
}

impl Status {
    fn trailers(&self) -> HeaderMap {
        let code = match self {
            Self::Ended => "0",
            Self::Invalid => "3",
        };
        HeaderMap::from_iter([(
            HeaderName::from_static("grpc-status"),
            HeaderValue::from_static(code),
        )])
    }
}

/// A message on its way to the holder.
struct Piece {
    frame: Frame<Bytes>,
    _waits: Option<Waits>,
    /// Of the call that it answers.
    _place: Option<OwnedSemaphorePermit>,
}

/// What may be called on a line.
#[derive(Clone)]
struct Calls(Router);

/// These calls ask for a token, where one is needed, as if each had come by itself: a line may be older than a token's
/// withdrawal.
pub(super) fn route(calls: Router) -> Router<App> {
    Router::new().route(LINE_PATH, post(line).layer(Extension(Calls(calls))))
}

async fn line(
    State(app): State<App>,
    Extension(Calls(calls)): Extension<Calls>,
    untaken: Option<Extension<Arc<Untaken>>>,
    request: Request,
) -> Result<Response, ApiError> {
    let headers = request.headers();
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if !kind.is_some_and(|kind| kind.starts_with(GRPC.as_bytes())) {
        return Err(ApiError::Invalid {
            status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            message: format!("content-type must be {GRPC}"),
        });
    }
    let Ok(line) = app.lines.clone().try_acquire_owned() else {
        return Err(ApiError::Invalid {
            status: StatusCode::TOO_MANY_REQUESTS,
            message: "there are too many lines at this sidecar".into(),
        });
    };
    let (say, said) = mpsc::channel(LINE_CALLS_MAX + WORDS_MAX);
    let (end, ended) = oneshot::channel();
    let talk = Talk {
        authorization: headers.get(AUTHORIZATION).cloned(),
        app,
        calls,
        places: Arc::new(Semaphore::new(LINE_CALLS_MAX)),
        say,
        untaken: untaken.map(|Extension(untaken)| untaken),
    };
    tokio::spawn(async move {
        talk.go_on(request.into_body(), end).await;
        drop(line);
    });
    let mut response = Response::new(Body::new(StreamBody::new(pieces(said, ended))));
    let kind = HeaderValue::from_static(GRPC);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response.extensions_mut().insert(Endless);
    Ok(response)
}

/// What is said, until nobody is left to say something; then how it ended.
fn pieces(
    said: mpsc::Receiver<Piece>,
    ended: oneshot::Receiver<Status>,
) -> impl futures_util::Stream<Item = Result<Frame<Bytes>, Infallible>> {
    futures_util::stream::unfold(Some((said, ended)), async |line| {
        let (mut said, ended) = line?;
        Some(match said.recv().await {
            Some(piece) => (Ok(piece.frame), Some((said, ended))),
            None => {
                let status = ended.await.unwrap_or(Status::Ended);
                (Ok(Frame::trailers(status.trailers())), None)
            }
        })
    })
}

enum Heard {
    Call,
    End,
}

/// One holder on the line.
#[derive(Clone)]
struct Talk {
    app: App,
    calls: Router,
    /// As the line was opened with.
    authorization: Option<HeaderValue>,
    places: Arc<Semaphore>,
    say: mpsc::Sender<Piece>,
    untaken: Option<Arc<Untaken>>,
}

impl Talk {
    /// Until either side has hung up. Whoever is still to be answered is answered.
    async fn go_on(self, body: Body, end: oneshot::Sender<Status>) {
        let _open = self.app.metrics.line_opened();
        self.tell(&LineAnswer::Ready, None);
        let mut messages = Messages::of(body, self.app.clone());
        let mut leaving = false;
        let status = loop {
            tokio::select! {
                heard = self.hear(&mut messages) => match heard {
                    Ok(Heard::Call) => {}
                    Ok(Heard::End) => break Status::Ended,
                    Err(broken) => {
                        self.refuse(broken);
                        break Status::Invalid;
                    }
                },
                () = self.say.closed() => return,
                () = self.app.stop.cancelled(), if !leaving => {
                    leaving = true;
                    self.tell(&LineAnswer::Leaving, None);
                }
            }
        };
        let _ = end.send(status);
    }

    /// What the holder says next, once there is a place for one more call.
    async fn hear(&self, messages: &mut Messages) -> Result<Heard, Broken> {
        let place = self.places.clone().acquire_owned().await;
        let place = place.map_err(|_| Broken::CutShort)?;
        let Some(Message { bytes, room }) = messages.next().await? else {
            return Ok(Heard::End);
        };
        match HolderWord::read(&bytes).ok_or(Broken::NoMessage)? {
            HolderWord::Leaving => Ok(Heard::End),
            HolderWord::Call(call) => {
                self.clone().answer(&call, room, place)?;
                Ok(Heard::Call)
            }
        }
    }

    fn answer(
        self,
        call: &LineCall<'_>,
        room: Room,
        place: OwnedSemaphorePermit,
    ) -> Result<(), Broken> {
        let mut request = Request::post(call.path);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Body::from(call.body.to_vec()));
        let request = request.map_err(|_| Broken::NoMessage)?;
        let number = call.number;
        tokio::spawn(async move {
            let answered = tokio::select! {
                answered = self.calls.clone().oneshot(request) => answered,
                // Nobody hears it: what is given is taken back, as when any caller leaves.
                () = self.say.closed() => return,
            };
            drop(room);
            let Ok(answer) = answered;
            let status = answer.status().as_u16();
            // No answer to a call goes on without an end, and all are in memory.
            let body = answer.into_body().collect().await;
            let body = body.map(Collected::to_bytes).unwrap_or_default();
            let answer = LineAnswer::Answer {
                number,
                status,
                body: &body,
            };
            self.tell(&answer, Some(place));
        });
        Ok(())
    }

    /// Counted as the same is of calls.
    fn refuse(&self, broken: Broken) {
        tracing::debug!(?broken, "a line ends: no message can be read any more");
        match broken {
            Broken::TooSlow => self.app.metrics.doors.refused(Reason::SlowBody),
            Broken::NoRoom => self.app.metrics.doors.refused(Reason::Overloaded),
            Broken::NoMessage | Broken::CutShort => {}
        }
    }

    /// There is room: each answer has its call's place, until it is taken.
    fn tell(&self, answer: &LineAnswer<'_>, place: Option<OwnedSemaphorePermit>) {
        let message = frame::of(&answer.write());
        let waits = self.untaken.as_ref().map(|it| it.wait(message.len()));
        let _ = self.say.try_send(Piece {
            frame: Frame::data(message),
            _waits: waits,
            _place: place,
        });
    }
}
