//! Questions for leases. Streams leave theirs here; the root asks them together, because only the root hears
//! every answer: a stream may be gone before it comes.

use crate::host;
use crate::sidecar;
use crate::vm::{Moment, Vm};
use admission::asks::{Ask, Group, PATIENCE_US};
use admission::lifecycle::{Event, Lifecycle};
use admission::message::{AdmitAnswer, Answer};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_micros(PATIENCE_US);

impl Vm {
    /// For the stream in effect.
    pub(crate) fn ask(&self, context: u32, number: u64, now_us: u64) {
        let ask = Ask {
            stream: context,
            question: sidecar::question(self, number),
            traced: sidecar::is_traced(),
        };
        self.asks.borrow_mut().add(ask, now_us);
        self.call_root_for_asks(now_us);
    }

    /// Not from here: Envoy would tell the answer to the stream that is in effect.
    pub(crate) fn call_root_for_asks(&self, now_us: u64) {
        if !self.asks.borrow().is_due(now_us) {
            return self.watch_asks();
        }
        if !self.root_called.replace(true) && host::call_root(self.queue).is_err() {
            self.tick_soon();
        }
    }

    /// An answer on its way lets those that wait go on; if none comes, a tick does.
    pub(crate) fn watch_asks(&self) {
        if !self.asks.borrow().is_empty() {
            self.tick_within(PATIENCE);
        }
    }

    /// The root is here, called or not.
    pub(crate) fn root_comes(&self) {
        if self.root_called.replace(false) {
            host::empty_queue(self.queue);
        }
    }

    /// The next questions to be asked with one call, if they are due.
    pub(crate) fn next_asks(&self, now_us: u64) -> Option<Group> {
        self.asks.borrow_mut().take(now_us)
    }

    /// The answers to a group of questions have come: to some, or to none.
    pub(crate) fn answer_group(
        &self,
        root: u32,
        group: Group,
        mut answers: Vec<Answer>,
        now_us: u64,
    ) {
        self.asks.borrow_mut().ended(group.call);
        let moment = Moment::later(now_us);
        for ask in group.asks {
            let number = ask.question.number;
            let answer = (answers.iter())
                .position(|answer| answer.number == number)
                .and_then(|place| answers.swap_remove(place).into_answer(&self.id.epoch));
            // Otherwise the stream is gone, and its end has said what is to be said.
            if let Some(lifecycle) = self.waiting_for(ask.stream, number)
                && host::act_for(ask.stream).is_ok()
            {
                self.answer(ask.stream, &lifecycle, answer, moment);
            }
        }
        let _ = host::act_for(root);
    }

    fn answer(
        &self,
        context: u32,
        lifecycle: &Rc<RefCell<Lifecycle>>,
        answer: Option<AdmitAnswer>,
        moment: Moment,
    ) {
        let now_us = moment.now_us;
        // After a stop of the whole process, an old answer may be heard before any timer is.
        let event = if self.is_overdue(context, now_us) {
            self.unanswered(lifecycle, Event::Overdue, now_us)
        } else {
            match answer {
                Some(answer) => Event::Answered { answer, now_us },
                None => self.unanswered(lifecycle, Event::Failed, now_us),
            }
        };
        self.handle(context, lifecycle, event, moment);
    }
}
