//! A line: the calls of one holder, and their answers, over one call that stays open (docs/decisions/0024). What is
//! called is answered as if it had come by itself. Whatever is no call ends the line, and the filter goes on without.

mod frame;

use super::{ApiError, App, answering, routes};
use crate::connection::Endless;
use crate::settings::Api;
use crate::untaken::{Untaken, Waits};
use admission::message::{LineAnswer, LineCall};
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::{Extension, Router};
use frame::{Broken, Messages};
use http_body_util::{BodyExt, Collected, StreamBody};
use hyper::body::Frame;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tower::ServiceExt;

const GRPC: &str = "application/grpc";
/// Answers that wait to be taken. A filter has a handful of calls under way, and takes each answer as it comes.
const ANSWERS_MAX: usize = 64;

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
}

pub(super) async fn line(
    State(app): State<App>,
    untaken: Option<Extension<Arc<Untaken>>>,
    request: Request,
) -> Result<Response, ApiError> {
    let kind = request
        .headers()
        .get(CONTENT_TYPE)
        .map(HeaderValue::as_bytes);
    if !kind.is_some_and(|kind| kind.starts_with(GRPC.as_bytes())) {
        return Err(ApiError::Invalid {
            status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            message: format!("content-type must be {GRPC}"),
        });
    }
    let (say, said) = mpsc::channel(ANSWERS_MAX);
    let (end, ended) = oneshot::channel();
    let talk = Talk {
        // Behind the same door: whoever is let in to open a line may make these calls.
        calls: answering(routes(Api::Data)).with_state(app.clone()),
        app,
        say,
        untaken: untaken.map(|Extension(untaken)| untaken),
    };
    tokio::spawn(talk.go_on(request.into_body(), end));
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

/// One holder on the line.
#[derive(Clone)]
struct Talk {
    app: App,
    calls: Router,
    say: mpsc::Sender<Piece>,
    untaken: Option<Arc<Untaken>>,
}

impl Talk {
    /// Until either side has hung up. Whoever is still to be answered is answered.
    async fn go_on(self, body: Body, end: oneshot::Sender<Status>) {
        let _open = self.app.metrics.line_opened();
        self.tell(&LineAnswer::Ready);
        let mut messages = Messages::of(body, self.app.clone());
        let mut leaving = false;
        let status = loop {
            tokio::select! {
                message = messages.next() => match message {
                    Ok(Some(message)) => {
                        if self.hear(&message).is_err() {
                            break Status::Invalid;
                        }
                    }
                    Ok(None) => break Status::Ended,
                    Err(Broken) => break Status::Invalid,
                },
                () = self.say.closed() => return,
                () = self.app.stop.cancelled(), if !leaving => {
                    leaving = true;
                    self.tell(&LineAnswer::Leaving);
                }
            }
        };
        let _ = end.send(status);
    }

    fn hear(&self, message: &[u8]) -> Result<(), Broken> {
        let call = LineCall::read(message).ok_or(Broken)?;
        let request = Request::post(call.path).body(Body::from(call.body.to_vec()));
        let request = request.map_err(|_| Broken)?;
        let (talk, number) = (self.clone(), call.number);
        tokio::spawn(async move {
            let answered = tokio::select! {
                answered = talk.calls.clone().oneshot(request) => answered,
                // Nobody hears it: what is given is taken back, as when any caller leaves.
                () = talk.say.closed() => return,
            };
            let Ok(answer) = answered;
            let status = answer.status().as_u16();
            // No answer to a call goes on without an end, and all are in memory.
            let body = answer.into_body().collect().await;
            let body = body.map(Collected::to_bytes).unwrap_or_default();
            talk.tell(&LineAnswer::Answer {
                number,
                status,
                body: &body,
            });
        });
        Ok(())
    }

    /// A holder that takes no answers does not hear this one either; its connection ends for that.
    fn tell(&self, answer: &LineAnswer<'_>) {
        let message = frame::of(&answer.write());
        let waits = self.untaken.as_ref().map(|it| it.wait(message.len()));
        let _ = self.say.try_send(Piece {
            frame: Frame::data(message),
            _waits: waits,
        });
    }
}
