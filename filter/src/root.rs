//! One VM's life: it reads the configuration, makes the calls of its holder, and watches the waiting.

use crate::stream::Stream;
use crate::vm::Vm;
use crate::{host, sidecar};
use admission::config::FilterConfig;
use admission::holder::Errand;
use admission::inventory::Delivery;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;
use std::collections::HashMap;
use std::rc::Rc;

/// A call that the root made, and waits for.
enum Call {
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

    /// Does what is due. Done by the root: a dying stream would never hear an answer.
    fn run_errands(&mut self, vm: &Vm) {
        let errands = vm.holder.borrow_mut().due(host::now_us());
        for errand in errands {
            let (sent, call) = match errand {
                Errand::BePresent { number } => {
                    (sidecar::be_present(vm, number), Call::Presence { number })
                }
                Errand::Beat(request) => {
                    let beat = request.beat;
                    (sidecar::beat(vm, &request), Call::Beat { beat })
                }
                Errand::Deliver(delivery) => {
                    (sidecar::deliver(vm, &delivery), Call::Delivery(delivery))
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
                    self.calls.insert(token, call);
                }
                Err(_) => failed(vm, call),
            }
        }
        vm.tell_dropped();
        vm.rest();
    }
}

/// Nobody answered, or it was no answer of a sidecar.
fn failed(vm: &Vm, call: Call) {
    let now_us = host::now_us();
    let mut holder = vm.holder.borrow_mut();
    match call {
        Call::Presence { number } => holder.presence_ended(number, false, now_us),
        Call::Beat { beat } => holder.beat_answered(beat, None, now_us),
        Call::Delivery(delivery) => holder.undelivered(delivery, now_us),
    }
}

fn answered(vm: &Vm, call: Call) {
    let now_us = host::now_us();
    let mut holder = vm.holder.borrow_mut();
    match call {
        Call::Presence { number } => holder.presence_ended(number, true, now_us),
        Call::Beat { beat } => holder.beat_answered(beat, sidecar::beat_answer(), now_us),
        Call::Delivery(delivery) => holder.delivered(delivery),
    }
}

/// The sidecar refused the message itself: repeating it cannot help. The next beat tells what a
/// release would have told.
fn rejected(vm: &Vm, call: Call) {
    log::error!("the sidecar refused a message: filter and sidecar do not fit together");
    match call {
        Call::Delivery(delivery) => {
            vm.metrics.dropped(delivery.len());
            vm.holder.borrow_mut().delivered(delivery);
        }
        Call::Presence { .. } | Call::Beat { .. } => failed(vm, call),
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, headers: usize, _body: usize, _: usize) {
        let (Some(call), Some(vm)) = (self.calls.remove(&token), self.vm.clone()) else {
            return;
        };
        if sidecar::is_answered(headers) {
            answered(&vm, call);
        } else if sidecar::is_rejected(headers) {
            rejected(&vm, call);
        } else {
            failed(&vm, call);
        }
        // Under steady load answers come faster than ticks, and each puts the next tick off.
        vm.answer_overdue(self.context);
        self.run_errands(&vm);
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
        let Some(epoch_bytes) = host::random_bytes() else {
            log::error!("Envoy gave no random numbers: without them leases could be guessed");
            return false;
        };
        let vm = Rc::new(Vm::new(config, epoch_bytes));
        vm.start();
        self.vm = Some(vm);
        true
    }

    fn on_tick(&mut self) {
        if let Some(vm) = self.vm.clone() {
            vm.answer_overdue(self.context);
            self.run_errands(&vm);
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
