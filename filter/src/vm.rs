//! What the root and all streams of one VM share. A VM is single-threaded and a callback runs to
//! its end; a cell is borrowed for one statement, or where nothing that is called borrows it again.

mod watch;

use crate::metrics::Metrics;
use crate::{host, routing, sidecar};
use admission::asks::Asks;
use admission::carried;
use admission::config::{FilterConfig, OnOutage};
use admission::holder::{self, Holder, News, Toll};
use admission::id::{Epoch, HolderId, Origin, ProxyId};
use admission::inspect::Demand;
use admission::lifecycle::{Effect, Event, Lifecycle};
use admission::reply::{REASON_HEADER, Refusal};
use proxy_wasm::types::{Action, Status};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

pub(crate) struct Vm {
    pub(crate) config: FilterConfig,
    pub(crate) id: HolderId,
    pub(crate) holder: RefCell<Holder>,
    pub(crate) metrics: Metrics,
    /// Streams that wait for the sidecar, by context id.
    waiting: RefCell<BTreeMap<u32, Waiting>>,
    pub(crate) asks: RefCell<Asks>,
    /// By which streams call the root, and whether it is called already.
    pub(crate) queue: u32,
    pub(crate) root_called: Cell<bool>,
    tick: Cell<Duration>,
}

/// Whether Envoy waits for the callback that is running to say if the request goes on, or holds the
/// request until it is told to resume.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    Later,
}

/// When a callback runs. The clock is read once for each: every look at it is a call on Envoy.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) turn: Turn,
    pub(crate) now_us: u64,
}

impl Moment {
    pub(crate) fn of(turn: Turn) -> Self {
        let now_us = host::now_us();
        Self { turn, now_us }
    }

    /// For a stream that the root acts for.
    pub(crate) fn later(now_us: u64) -> Self {
        let turn = Turn::Later;
        Self { turn, now_us }
    }
}

struct Waiting {
    lifecycle: Rc<RefCell<Lifecycle>>,
    since_us: u64,
}

impl Vm {
    pub(crate) fn new(config: FilterConfig, epoch_bytes: [u8; 16], queue: u32) -> Self {
        let proxy = match &config.proxy_id {
            Some(proxy) => proxy.clone(),
            None => ProxyId::lossy(&host::node_id()),
        };
        let id = HolderId {
            proxy,
            epoch: Epoch::from_random(epoch_bytes),
        };
        let settings = holder::Settings {
            backlog_max: config.release_backlog_max,
            delivery_delay_ms: config.release_delay_ms,
            delivery_retry_ms: config.release_retry_ms,
            on_lease_lost: config.on_lease_lost,
            on_outage: config.on_outage,
        };
        Self {
            holder: RefCell::new(Holder::new(config.pool.clone(), id.clone(), settings)),
            id,
            metrics: Metrics::define(),
            waiting: RefCell::default(),
            asks: RefCell::default(),
            queue,
            root_called: Cell::new(false),
            tick: Cell::new(Duration::ZERO),
            config,
        }
    }

    /// A request needs a lease: it is asked for, or there is a place at hand.
    pub(crate) fn begin(&self, demand: Demand, now_us: u64) -> Event {
        let mut holder = self.holder.borrow_mut();
        let at_hand = if sidecar::is_bound_somewhere(self) {
            None
        } else {
            holder.reuse(now_us)
        };
        match at_hand {
            Some(admitted) => {
                self.metrics.reused();
                Event::Placed {
                    admitted,
                    demand,
                    now_us,
                }
            }
            None => Event::Wanted {
                lease: holder.mint(),
                demand,
            },
        }
    }

    /// Nobody answered the stream's question: there may be a place at hand all the same.
    pub(crate) fn unanswered(
        &self,
        lifecycle: &RefCell<Lifecycle>,
        otherwise: Event,
        now_us: u64,
    ) -> Event {
        // A place that nobody waits for would be lost.
        if !lifecycle.borrow().is_asking() {
            return otherwise;
        }
        if sidecar::is_bound_somewhere(self) {
            self.holder.borrow_mut().bound_ask_failed(now_us);
            return otherwise;
        }
        match self.holder.borrow_mut().ask_failed(now_us) {
            Some(admitted) => {
                self.metrics.reused();
                Event::Rescued { admitted, now_us }
            }
            None => otherwise,
        }
    }

    /// Lets the lifecycle decide and carries the effects out, for the stream that is in effect. Returns
    /// what its callback is to tell Envoy.
    pub(crate) fn handle(
        &self,
        context: u32,
        lifecycle: &Rc<RefCell<Lifecycle>>,
        event: Event,
        moment: Moment,
    ) -> Action {
        let (asked, was_holding) = {
            let lifecycle = lifecycle.borrow();
            (lifecycle.asked(), lifecycle.is_holding())
        };
        let effects = lifecycle.borrow_mut().handle(event);
        let (is_asking, is_holding) = {
            let lifecycle = lifecycle.borrow();
            (lifecycle.is_asking(), lifecycle.is_holding())
        };
        self.metrics
            .hold(i64::from(is_holding).saturating_sub(i64::from(was_holding)));
        if is_asking {
            self.waiting
                .borrow_mut()
                .entry(context)
                .or_insert_with(|| Waiting {
                    lifecycle: lifecycle.clone(),
                    since_us: moment.now_us,
                });
        } else if asked.is_some() {
            self.waiting.borrow_mut().remove(&context);
            self.asks.borrow_mut().forget(context);
        }
        let mut action = Action::Pause;
        for effect in effects {
            self.note(context, asked, &effect, moment.now_us);
            let binds = matches!(effect, Effect::Bind { .. });
            match self.carry_out(context, effect, moment) {
                Ok(Action::Continue) => action = Action::Continue,
                Ok(_) => {}
                Err(_) => {
                    let event = if binds {
                        Event::Bound
                    } else {
                        self.unanswered(lifecycle, Event::Failed, moment.now_us)
                    };
                    action = self.handle(context, lifecycle, event, moment);
                }
            }
        }
        action
    }

    /// Keeps the inventory in step. `asked` is the lease that the stream waited for until now.
    fn note(&self, context: u32, asked: Option<u64>, effect: &Effect, now_us: u64) {
        let mut holder = self.holder.borrow_mut();
        match effect {
            Effect::Route(admitted) => {
                holder.inventory().admitted(admitted, context);
            }
            Effect::Refuse(Refusal::Denied { reason, .. }) => {
                if let Some(number) = asked {
                    holder.denied(number, *reason, now_us);
                }
            }
            Effect::Redirect(_) => {
                if let Some(number) = asked {
                    holder.inventory().refused(number);
                }
            }
            Effect::Observe(observation) => holder.inventory().observe(observation.clone()),
            Effect::Release(release) => {
                holder.ended(release.clone(), now_us);
            }
            Effect::Refuse(Refusal::Outage | Refusal::Overdue | Refusal::TooManyHops)
            | Effect::Pass
            | Effect::Ask(_)
            | Effect::Bind { .. }
            | Effect::Answer => {}
        }
    }

    /// An error means that the stream cannot go on as decided.
    fn carry_out(&self, context: u32, effect: Effect, moment: Moment) -> Result<Action, Status> {
        let Moment { turn, now_us } = moment;
        match effect {
            Effect::Pass => return Ok(Action::Continue),
            Effect::Ask(lease) => self.ask(context, lease.seq, now_us),
            Effect::Route(admitted) => {
                self.metrics.admitted();
                // If this fails, the stream holds its lease all the same; its end gives it back.
                let told = routing::name(&self.config, admitted.address);
                return Ok(self.go_on(told, turn));
            }
            Effect::Refuse(Refusal::Outage | Refusal::Overdue)
                if self.config.on_outage == OnOutage::Allow =>
            {
                self.metrics.fell_back();
                return Ok(self.go_on(routing::fall_back(), turn));
            }
            Effect::Refuse(refusal) => self.refuse(refusal),
            Effect::Redirect(origin) => self.redirect(&origin),
            Effect::Bind { lease, key } => {
                sidecar::bind(self, lease, key)?;
            }
            // Within the answer's own callback it goes on by itself.
            Effect::Answer => {
                if turn == Turn::Later {
                    host::resume_response();
                }
            }
            Effect::Observe(_) | Effect::Release(_) => self.watch_news(now_us),
        }
        Ok(Action::Pause)
    }

    /// Lets the request go on where Envoy was told to send it.
    fn go_on(&self, told: Result<(), Status>, turn: Turn) -> Action {
        match (told, turn) {
            (Ok(()), Turn::Now) => return Action::Continue,
            (Ok(()), Turn::Later) => host::resume_request(),
            (Err(status), _) => {
                log::error!("Envoy was not told where to send a request: {status:?}");
                self.refuse(Refusal::Outage);
            }
        }
        Action::Pause
    }

    /// Whether a key is bound that a worker's answer carried. If not, it leads nowhere: requests with
    /// it are denied, and the client begins anew.
    pub(crate) fn bound(&self, bound: bool) {
        if !bound {
            self.metrics.unbound();
        }
    }

    /// Sends the client on, unless it comes from being sent on too often.
    fn redirect(&self, origin: &Origin) {
        let path = host::request_header(":path").unwrap_or_default();
        if carried::hops(&path) >= carried::HOPS_MAX {
            return self.refuse(Refusal::TooManyHops);
        }
        let location = format!("{origin}{}", carried::with_hop(&path));
        self.metrics.redirected();
        host::reply(307, vec![("location", location.as_str())], "");
    }

    fn refuse(&self, refusal: Refusal) {
        self.metrics.refused(refusal);
        let retry_after = refusal.retry_after_s().to_string();
        let headers = vec![
            ("content-type", "application/json"),
            ("retry-after", retry_after.as_str()),
            (REASON_HEADER, refusal.reason()),
        ];
        host::reply(refusal.status(), headers, &refusal.body());
    }

    /// Outages are said when they begin and when they end, by each VM for itself.
    pub(crate) fn tell(&self, news: News) {
        self.metrics.outage(news);
        match news {
            News::Begun => {
                log::warn!("outage: no answer from the sidecar, or from Redis behind it")
            }
            News::Over(Toll {
                lasted_ms,
                unanswered,
                reused,
            }) => log::warn!(
                "outage over after {lasted_ms} ms: {unanswered} requests found nobody to ask, \
                 {reused} took a place again"
            ),
        }
    }

    /// The lifecycle of a stream that still waits for this lease.
    pub(crate) fn waiting_for(&self, context: u32, number: u64) -> Option<Rc<RefCell<Lifecycle>>> {
        let waiting = self.waiting.borrow();
        let lifecycle = &waiting.get(&context)?.lifecycle;
        (lifecycle.borrow().asked() == Some(number)).then(|| lifecycle.clone())
    }

    /// News that will never reach the sidecar.
    pub(crate) fn tell_dropped(&self) {
        let dropped = self.holder.borrow_mut().inventory().take_dropped();
        self.metrics.dropped(dropped);
    }

    /// Ends the sessions whose places are others', or will be soon.
    pub(crate) fn close(&self, root: u32, numbers: &[u64]) {
        log::warn!(
            "{} sessions are closed: their leases are lost",
            numbers.len()
        );
        for number in numbers {
            let context = self.holder.borrow_mut().inventory().stream_of(*number);
            if let Some(context) = context
                && host::act_for(context).is_ok()
            {
                host::close_stream();
                self.metrics.closed();
            }
        }
        let _ = host::act_for(root);
    }
}
