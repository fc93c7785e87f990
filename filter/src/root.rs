//! One VM's life: it reads the configuration, asks for leases, makes the calls of its holder, and watches the
//! waiting.

use crate::sidecar::{Message, Reply};
use crate::stream::Stream;
use crate::vm::Vm;
use crate::{host, sidecar};
use admission::asks::Group;
use admission::config::FilterConfig;
use admission::holder::Errand;
use admission::inventory::Delivery;
use admission::line::Line;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{ContextType, Status};
use std::rc::Rc;

/// A call that the root made, and waits for.
pub(crate) enum Call {
    /// For streams.
    Asks(Group),
    /// For the holder.
    News(News),
}

pub(crate) enum News {
    Presence { number: u64 },
    Beat { beat: u64 },
    Delivery(Delivery),
}

pub(crate) struct Root {
    pub(crate) context: u32,
    vm: Option<Rc<Vm>>,
    /// A handful, by the token that Envoy gave each.
    calls: Vec<(u32, Call)>,
    pub(crate) line: Line<Call>,
}

impl Root {
    pub(crate) fn new(context: u32) -> Self {
        Self {
            context,
            vm: None,
            calls: Vec::new(),
            line: Line::default(),
        }
    }

    /// Asks what is to be asked now.
    fn ask(&mut self, vm: &Vm, now_us: u64) {
        while let Some(group) = vm.next_asks(now_us) {
            // Only a call can carry a trace.
            let by_call = group.is_traced() || self.line.up().is_none();
            match sidecar::ask(vm, &group.asks) {
                Ok(mut message) if by_call => {
                    message.follow(&group.asks, self.context);
                    self.post(vm, &message, Call::Asks(group), now_us);
                }
                Ok(message) => self.say(vm, &message, Call::Asks(group), now_us),
                Err(_) => vm.answer_group(self.context, group, Vec::new(), now_us),
            }
        }
        vm.watch_asks();
    }

    /// Does what is due. Done by the root: a dying stream would never hear an answer.
    fn run_errands(&mut self, vm: &Vm, now_us: u64) {
        let errands = vm.holder.borrow_mut().due(now_us);
        for errand in errands {
            match errand {
                Errand::BePresent { number } => {
                    let call = Call::News(News::Presence { number });
                    self.sent(vm, sidecar::be_present(vm, number), call, now_us);
                }
                Errand::Beat(request) => {
                    let news = News::Beat { beat: request.beat };
                    match sidecar::beat(vm, &request) {
                        Ok(message) => self.post(vm, &message, Call::News(news), now_us),
                        Err(_) => failed(vm, news, now_us),
                    }
                }
                Errand::Deliver(delivery) => {
                    let message = sidecar::deliver(vm, &delivery);
                    let news = News::Delivery(delivery);
                    match message {
                        Ok(message) => self.say(vm, &message, Call::News(news), now_us),
                        Err(_) => failed(vm, news, now_us),
                    }
                }
                Errand::Close(numbers) => vm.close(self.context, &numbers),
                Errand::Tell(news) => vm.tell(news),
            }
        }
        vm.tell_dropped();
    }

    /// By a call of its own.
    pub(crate) fn post(&mut self, vm: &Vm, message: &Message, call: Call, now_us: u64) {
        self.sent(vm, sidecar::post(vm, message), call, now_us);
    }

    fn sent(&mut self, vm: &Vm, token: Result<u32, Status>, call: Call, now_us: u64) {
        match token {
            Ok(token) => self.calls.push((token, call)),
            Err(_) => self.unsent(vm, call, now_us),
        }
    }

    /// Nobody will answer it.
    pub(crate) fn unsent(&mut self, vm: &Vm, call: Call, now_us: u64) {
        match call {
            Call::Asks(group) => vm.answer_group(self.context, group, Vec::new(), now_us),
            Call::News(news) => failed(vm, news, now_us),
        }
    }

    pub(crate) fn settle(&mut self, vm: &Vm, call: Call, reply: &Reply, now_us: u64) {
        match call {
            Call::Asks(group) => {
                let answers = reply.admit_answers().unwrap_or_default();
                vm.answer_group(self.context, group, answers, now_us);
                // Not at once: others may ask before Envoy is through with what it is doing. News waits for a tick.
                return vm.call_root_for_asks(now_us);
            }
            Call::News(news) => match reply {
                Reply::Answered(_) => answered(vm, news, reply, now_us),
                Reply::Rejected => rejected(vm, news, now_us),
                Reply::Nothing => failed(vm, news, now_us),
            },
        }
        self.run_errands(vm, now_us);
        vm.watch_news(now_us);
    }
}

/// Nobody answered, or it was no answer of a sidecar.
fn failed(vm: &Vm, news: News, now_us: u64) {
    let mut holder = vm.holder.borrow_mut();
    match news {
        News::Presence { number } => holder.presence_ended(number, false, now_us),
        News::Beat { beat } => holder.beat_answered(beat, None, now_us),
        News::Delivery(delivery) => holder.undelivered(delivery, now_us),
    }
}

fn answered(vm: &Vm, news: News, reply: &Reply, now_us: u64) {
    let mut holder = vm.holder.borrow_mut();
    match news {
        News::Presence { number } => holder.presence_ended(number, true, now_us),
        News::Beat { beat } => holder.beat_answered(beat, reply.decode(), now_us),
        News::Delivery(delivery) => holder.delivered(delivery),
    }
}

/// The sidecar refused the message itself: repeating it cannot help. The next beat tells what a
/// release would have told.
fn rejected(vm: &Vm, news: News, now_us: u64) {
    log::error!("the sidecar refused a message: filter and sidecar do not fit together");
    match news {
        News::Delivery(delivery) => {
            vm.metrics.dropped(delivery.len());
            vm.holder.borrow_mut().delivered(delivery);
        }
        News::Presence { .. } | News::Beat { .. } => failed(vm, news, now_us),
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, headers: usize, _body: usize, _: usize) {
        let place = self.calls.iter().position(|(known, _)| *known == token);
        let (Some(place), Some(vm)) = (place, self.vm.clone()) else {
            return;
        };
        let (_, call) = self.calls.swap_remove(place);
        let (reply, now_us) = (Reply::to_call(headers), host::now_us());
        if let (Call::Asks(_), Reply::Answered(_)) = (&call, &reply) {
            self.open_line(&vm, now_us);
        }
        self.settle(&vm, call, &reply, now_us);
    }

    fn on_grpc_stream_message(&mut self, token: u32, _bytes: usize) {
        if let Some(vm) = self.vm.clone() {
            self.hear(&vm, token);
        }
    }

    fn on_grpc_stream_close(&mut self, token: u32, _status: u32) {
        host::hang_up(token);
        if let Some(vm) = self.vm.clone() {
            self.line_ended(&vm, Some(token), host::now_us());
        }
    }

    /// Other VMs share the figures, and go on with them.
    fn on_done(&mut self) -> bool {
        if let Some(vm) = &self.vm {
            vm.metrics.tell();
        }
        true
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _bytes: usize) -> bool {
        let config = match FilterConfig::parse(&host::plugin_configuration()) {
            Ok(config) => config,
            Err(error) => {
                log::error!("{error}");
                return false;
            }
        };
        let (Some(epoch_bytes), Some(queue)) = (host::random_bytes(), host::open_queue()) else {
            log::error!(
                "Envoy gave no random numbers, without which leases could be guessed, or no queue"
            );
            return false;
        };
        let vm = Rc::new(Vm::new(config, epoch_bytes, queue));
        vm.start();
        self.vm = Some(vm);
        true
    }

    fn on_tick(&mut self) {
        if let Some(vm) = self.vm.clone() {
            let now_us = host::now_us();
            vm.root_comes();
            vm.answer_overdue(self.context, now_us);
            self.look_at_line(&vm, now_us);
            self.ask(&vm, now_us);
            self.run_errands(&vm, now_us);
            vm.metrics.tell();
            vm.rest(now_us);
            self.watch_line(&vm, now_us);
        }
    }

    /// A stream has a question.
    fn on_queue_ready(&mut self, _queue: u32) {
        if let Some(vm) = self.vm.clone() {
            vm.root_comes();
            self.ask(&vm, host::now_us());
        }
    }

    fn create_http_context(&self, context: u32) -> Option<Box<dyn HttpContext>> {
        let vm = self.vm.clone()?;
        Some(Box::new(Stream::new(context, vm)))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}
