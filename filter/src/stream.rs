//! One HTTP stream: Envoy's callbacks become events.

use crate::vm::{Moment, Turn, Vm};
use crate::{host, routing, sidecar};
use admission::carried;
use admission::config::Bind;
use admission::inspect::{self, Demand, Inspected, demand};
use admission::lifecycle::{AffinityNews, Event, Lifecycle, Traffic};
use admission::outcome::ResponseFlags;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::{Action, Bytes};
use std::cell::RefCell;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::str::FromStr;

pub(crate) struct Stream {
    context: u32,
    vm: Rc<Vm>,
    lifecycle: Rc<RefCell<Lifecycle>>,
    /// The request's path says that its affinity ends with it.
    unbinds: bool,
    bodies: Bodies,
}

/// What is known of the bodies without asking Envoy, which costs as much as all that is read of headers.
#[derive(Default)]
struct Bodies {
    request_is_over: bool,
    response_is_over: bool,
    /// As the response's headers announce it. Longer ones are asked for; there is one of these for each session.
    response_bytes: Option<NonZeroU32>,
}

impl Bodies {
    /// Of a stream that has ended with these flags.
    fn traffic(&self, flags: ResponseFlags) -> Traffic {
        // If nothing went wrong, all passed that was announced.
        let announced = self
            .response_bytes
            .filter(|_| flags == ResponseFlags::default());
        Traffic {
            bytes_read: if self.request_is_over {
                0
            } else {
                host::request_bytes()
            },
            bytes_written: match announced {
                Some(bytes) => u64::from(bytes.get()),
                None if self.response_is_over => 0,
                None => host::response_bytes(),
            },
        }
    }
}

impl Stream {
    pub(crate) fn new(context: u32, vm: Rc<Vm>) -> Self {
        Self {
            context,
            vm,
            lifecycle: Rc::default(),
            unbinds: false,
            bodies: Bodies::default(),
        }
    }

    fn handle(&self, event: Event, moment: Moment) -> Action {
        (self.vm).handle(self.context, &self.lifecycle, event, moment)
    }

    fn affinity_news(&self) -> AffinityNews {
        let Some(config) = &self.vm.config.affinity else {
            return AffinityNews::default();
        };
        let header = |name: &String| host::response_header(name).filter(|value| !value.is_empty());
        let bind = match &config.bind {
            Bind::Request => None,
            Bind::AnswerHeader(name) => header(name).map(|key| carried::key(&key)),
        };
        let unbinds = || config.unbind_header.as_ref().and_then(header).is_some();
        AffinityNews {
            unbind: self.unbinds || unbinds(),
            bind,
        }
    }

    fn end(&self) {
        if self.lifecycle.borrow().is_over() {
            return;
        }
        let moment = Moment::of(Turn::Later);
        let flags = host::response_flags();
        let event = Event::Ended {
            flags,
            traffic: self.bodies.traffic(flags),
            now_us: moment.now_us,
        };
        self.handle(event, moment);
    }
}

fn number<T: FromStr>(value: Option<Bytes>) -> Option<T> {
    std::str::from_utf8(&value?).ok()?.parse().ok()
}

impl Context for Stream {
    fn on_http_call_response(&mut self, _token: u32, headers: usize, _body: usize, _: usize) {
        // The only call that a stream makes itself: it waits for the answer as long as it lives.
        self.vm.bound(sidecar::is_bound(headers));
        self.handle(Event::Bound, Moment::of(Turn::Later));
    }

    fn on_done(&mut self) -> bool {
        self.end();
        true
    }
}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _headers: usize, end_of_stream: bool) -> Action {
        #[cfg(feature = "poison")]
        if host::request_header("x-berth-poison").is_some() {
            std::process::abort();
        }
        let config = &self.vm.config;
        routing::strip_request(config);
        let path = config.reads_path().then(|| host::request_header(":path"));
        let request = Inspected {
            path: path.flatten().unwrap_or_default(),
            upgrade: host::request_header("upgrade").unwrap_or_default(),
        };
        self.unbinds = inspect::unbinds(config, &request.path);
        self.bodies.request_is_over = end_of_stream;
        let moment = Moment::of(Turn::Now);
        let event = match demand(config, &request) {
            Demand::Pass => Event::Passed,
            demand @ (Demand::Upgrade | Demand::Request) => self.vm.begin(demand, moment.now_us),
        };
        self.handle(event, moment)
    }

    fn on_http_response_headers(&mut self, _headers: usize, end_of_stream: bool) -> Action {
        routing::strip_response(&self.vm.config);
        if self.lifecycle.borrow().is_over() {
            return Action::Continue;
        }
        let status = number(host::response_header(":status")).unwrap_or(0);
        self.bodies.response_is_over = end_of_stream;
        if !end_of_stream {
            self.bodies.response_bytes = number(host::response_header("content-length"));
        }
        let moment = Moment::of(Turn::Now);
        let event = Event::Responding {
            status,
            author: host::response_author(),
            now_us: moment.now_us,
            affinity: self.affinity_news(),
        };
        self.handle(event, moment);
        if self.lifecycle.borrow().is_binding() {
            Action::Pause
        } else {
            Action::Continue
        }
    }

    // Envoy logs a stream before it destroys it, with its flags complete; `on_done` is there for
    // streams that are never logged.
    fn on_log(&mut self) {
        self.end();
    }
}
