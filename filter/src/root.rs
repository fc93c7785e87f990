//! One VM's life: it reads the configuration, delivers news, and watches the waiting.

use crate::stream::Stream;
use crate::vm::Vm;
use crate::{host, sidecar};
use admission::config::FilterConfig;
use admission::message::{Observation, Release};
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;
use std::collections::HashMap;
use std::rc::Rc;

/// News on its way to the sidecar, kept until it is known to have arrived.
enum Delivery {
    Releases(Vec<Release>),
    Observations(Vec<Observation>),
}

impl Delivery {
    fn len(&self) -> usize {
        match self {
            Self::Releases(releases) => releases.len(),
            Self::Observations(seen) => seen.len(),
        }
    }
}

pub(crate) struct Root {
    context: u32,
    vm: Option<Rc<Vm>>,
    deliveries: HashMap<u32, Delivery>,
}

/// Calls under way at once. While they are out, news gathers and the next call carries more.
const DELIVERIES_MAX: usize = 8;

impl Root {
    pub(crate) fn new(context: u32) -> Self {
        Self {
            context,
            vm: None,
            deliveries: HashMap::new(),
        }
    }

    /// Sends what is due. Sent from the root: a dying stream would never hear the answer.
    fn deliver(&mut self, vm: &Vm) {
        while self.deliveries.len() < DELIVERIES_MAX && vm.may_deliver() {
            let delivery = {
                let mut inventory = vm.inventory.borrow_mut();
                if !inventory.observations.is_empty() {
                    Delivery::Observations(inventory.observations.take_batch())
                } else if !inventory.releases.is_empty() {
                    Delivery::Releases(inventory.releases.take_batch())
                } else {
                    break;
                }
            };
            let sent = match &delivery {
                Delivery::Releases(releases) => sidecar::send_releases(vm, releases),
                Delivery::Observations(seen) => sidecar::send_observations(vm, seen),
            };
            match sent {
                Ok(token) => {
                    self.deliveries.insert(token, delivery);
                }
                Err(_) => {
                    take_back(vm, delivery);
                    return vm.put_off();
                }
            }
        }
        vm.rest();
    }
}

fn take_back(vm: &Vm, delivery: Delivery) {
    let mut inventory = vm.inventory.borrow_mut();
    match delivery {
        Delivery::Releases(releases) => inventory.releases.give_back(releases),
        Delivery::Observations(seen) => inventory.observations.give_back(seen),
    }
    vm.metrics.dropped(inventory.releases.take_dropped());
    vm.metrics.dropped(inventory.observations.take_dropped());
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, headers: usize, _body: usize, _: usize) {
        let (Some(delivery), Some(vm)) = (self.deliveries.remove(&token), self.vm.clone()) else {
            return;
        };
        if sidecar::is_answered(headers) {
            if vm.inventory.borrow().has_news() {
                self.deliver(&vm);
            }
        } else if sidecar::is_rejected(headers) {
            log::error!("the sidecar refused a delivery: filter and sidecar do not fit together");
            vm.metrics.dropped(delivery.len());
        } else {
            take_back(&vm, delivery);
            vm.put_off();
        }
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
        vm.rest();
        self.vm = Some(vm);
        true
    }

    fn on_tick(&mut self) {
        if let Some(vm) = self.vm.clone() {
            vm.answer_overdue(self.context);
            self.deliver(&vm);
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
