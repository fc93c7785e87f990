//! One HTTP stream: Envoy's callbacks become events.

use crate::vm::{Moment, Turn, Vm};
use crate::{host, routing, sidecar};
use admission::carried;
use admission::config::Bind;
use admission::inspect::{self, Demand, Inspected, demand};
use admission::lifecycle::{AffinityNews, Event, Lifecycle};
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;
use std::cell::RefCell;
use std::rc::Rc;

pub(crate) struct Stream {
    context: u32,
    vm: Rc<Vm>,
    lifecycle: Rc<RefCell<Lifecycle>>,
    /// The request's path says that its affinity ends with it.
    unbinds: bool,
}

impl Stream {
    pub(crate) fn new(context: u32, vm: Rc<Vm>) -> Self {
        Self {
            context,
            vm,
            lifecycle: Rc::default(),
            unbinds: false,
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
        let event = Event::Ended {
            flags: host::response_flags(),
            traffic: host::traffic(),
            now_us: moment.now_us,
        };
        self.handle(event, moment);
    }
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
    fn on_http_request_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
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
        let moment = Moment::of(Turn::Now);
        let event = match demand(config, &request) {
            Demand::Pass => Event::Passed,
            demand @ (Demand::Upgrade | Demand::Request) => self.vm.begin(demand, moment.now_us),
        };
        self.handle(event, moment)
    }

    fn on_http_response_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        routing::strip_response(&self.vm.config);
        if self.lifecycle.borrow().is_over() {
            return Action::Continue;
        }
        let status = host::response_header(":status")
            .and_then(|status| std::str::from_utf8(&status).ok()?.parse().ok())
            .unwrap_or(0);
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
