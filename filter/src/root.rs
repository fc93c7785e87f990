//! One VM's life: it reads the configuration, asks for leases, makes the calls of its holder, and watches the
//! waiting.

use crate::stream::Stream;
use crate::vm::Vm;
use crate::{host, sidecar};
use admission::asks::Group;
use admission::config::FilterConfig;
use admission::holder::Errand;
use admission::inventory::Delivery;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;
use std::collections::HashMap;
use std::rc::Rc;

/// A call that the root made, and waits for.
enum Call {
    /// For streams.
    Asks(Group),
    /// For the holder.
    News(News),
}

enum News {
    Presence { number: u64 },
    Beat { beat: u64 },
    Delivery(Delivery),
}

pub(crate) struct Root {
    context: u32,
    vm: Option<Rc<Vm>>,
    calls: HashMap<u32, Call>,
}

impl Root {
    pub(crate) fn new(context: u32) -> Self {
        Self {
            context,
            vm: None,
            calls: HashMap::new(),
        }
    }

    /// Asks what is to be asked now.
    fn ask(&mut self, vm: &Vm, now_us: u64) {
        while let Some(group) = vm.next_asks(now_us) {
            match sidecar::ask(vm, self.context, &group.asks) {
                Ok(token) => {
                    self.calls.insert(token, Call::Asks(group));
                }
                Err(_) => vm.answer_group(self.context, group, Vec::new(), now_us),
            }
        }
        vm.watch_asks();
    }

    /// Does what is due. Done by the root: a dying stream would never hear an answer.
    fn run_errands(&mut self, vm: &Vm, now_us: u64) {
        let errands = vm.holder.borrow_mut().due(now_us);
        for errand in errands {
            let (sent, news) = match errand {
                Errand::BePresent { number } => {
                    (sidecar::be_present(vm, number), News::Presence { number })
                }
                Errand::Beat(request) => {
                    let beat = request.beat;
                    (sidecar::beat(vm, &request), News::Beat { beat })
                }
                Errand::Deliver(delivery) => {
                    (sidecar::deliver(vm, &delivery), News::Delivery(delivery))
                }
                Errand::Close(numbers) => {
                    vm.close(self.context, &numbers);
                    continue;
                }
                Errand::Tell(news) => {
                    vm.tell(news);
                    continue;
                }
            };
            match sent {
                Ok(token) => {
                    self.calls.insert(token, Call::News(news));
                }
                Err(_) => failed(vm, news, now_us),
            }
        }
        vm.tell_dropped();
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

fn answered(vm: &Vm, news: News, now_us: u64) {
    let mut holder = vm.holder.borrow_mut();
    match news {
        News::Presence { number } => holder.presence_ended(number, true, now_us),
        News::Beat { beat } => holder.beat_answered(beat, sidecar::beat_answer(), now_us),
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
        let (Some(call), Some(vm)) = (self.calls.remove(&token), self.vm.clone()) else {
            return;
        };
        let now_us = host::now_us();
        match call {
            Call::Asks(group) => {
                let answers = sidecar::admit_answers(headers, &vm.id.epoch);
                vm.answer_group(self.context, group, answers, now_us);
                // Not at once: others may ask before Envoy is through with what it is doing. News waits for a tick.
                return vm.call_root_for_asks(now_us);
            }
            Call::News(news) if sidecar::is_answered(headers) => answered(&vm, news, now_us),
            Call::News(news) if sidecar::is_rejected(headers) => rejected(&vm, news, now_us),
            Call::News(news) => failed(&vm, news, now_us),
        }
        self.run_errands(&vm, now_us);
        vm.watch_news(now_us);
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
            self.ask(&vm, now_us);
            self.run_errands(&vm, now_us);
            vm.metrics.tell();
            vm.rest(now_us);
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
