//! The line to the sidecar. A message on it costs Envoy a fraction of a call of its own, so what is said often goes by
//! it: questions that need no trace, and deliveries. While there is none, they go by calls. It is opened once a call is
//! answered: then there is a sidecar, and Envoy knows which.

use crate::root::{Call, Root};
use crate::sidecar::{ANSWER_BYTES_MAX, Message, Reply};
use crate::vm::Vm;
use crate::{host, sidecar};
use admission::line::{End, Why};
use admission::message::{HolderWord, LineAnswer, LineCall};
use std::time::Duration;

/// Between two looks at the line while somebody waits for an answer: nobody else notices that none comes.
const WATCH: Duration = Duration::from_millis(25);

impl Root {
    pub(crate) fn open_line(&mut self, vm: &Vm, now_us: u64) {
        if !self.line.may_open(now_us) {
            return;
        }
        match sidecar::open_line(vm) {
            Ok(token) => self.line.opening(token, now_us),
            Err(_) => self.line_ended(vm, None, now_us),
        }
    }

    /// On the line, or by a call of its own if that cannot be.
    pub(crate) fn say(&mut self, vm: &Vm, message: &Message, call: Call, now_us: u64) {
        let Some(token) = self.line.up() else {
            return self.post(vm, message, call, now_us);
        };
        let number = self.line.next_number();
        let line_call = LineCall {
            number,
            path: message.path,
            body: &message.body,
        };
        match host::say(token, &line_call.write()) {
            Ok(()) => {
                let patience_us = u64::try_from(message.timeout.as_micros()).unwrap_or(u64::MAX);
                let until_us = now_us.saturating_add(patience_us);
                self.line.sent(number, call, until_us);
                self.watch_line(vm, now_us);
            }
            Err(_) => {
                self.hang_up(vm, token, now_us);
                self.post(vm, message, call, now_us);
            }
        }
    }

    pub(crate) fn hear(&mut self, vm: &Vm, token: u32) {
        let now_us = host::now_us();
        let message = host::heard(ANSWER_BYTES_MAX).unwrap_or_default();
        match LineAnswer::read(&message) {
            Some(LineAnswer::Ready) => self.line.ready(token, now_us),
            Some(LineAnswer::Answer {
                number,
                status,
                body,
            }) => {
                let reply = Reply::on_line(status, body);
                let call = self.line.answered(token, number);
                // This sidecar cannot answer, perhaps for want of a Redis. Calls go where Envoy's health checks say,
                // and find another if there is one. One that merely has too much to do would have more with calls.
                if matches!(reply, Reply::Nothing) && !sidecar::is_overloaded(body) {
                    self.line.leave(token, Why::Trouble);
                }
                if let Some(call) = call {
                    self.settle(vm, call, &reply, now_us);
                }
            }
            Some(LineAnswer::Leaving) => self.line.leave(token, Why::Time),
            // No sidecar says this. Whoever called is answered, or has waited for long enough soon.
            None => self.line.leave(token, Why::Trouble),
        }
        self.watch_line(vm, now_us);
    }

    /// Somebody waits for an answer, or the line is to be ended. Not at once: more may have come with the message that
    /// says so, and Envoy would look for whom to tell it where nobody is.
    pub(crate) fn watch_line(&self, vm: &Vm, now_us: u64) {
        if self.line.end(now_us).is_some() {
            vm.tick_soon();
        } else if self.line.is_busy() {
            vm.tick_within(WATCH);
        }
    }

    pub(crate) fn look_at_line(&mut self, vm: &Vm, now_us: u64) {
        self.line.age(now_us);
        let given_up = self.line.give_up(now_us);
        self.unanswered(vm, given_up, now_us);
        match self.line.end(now_us) {
            Some(End::TakeLeave(token)) => self.take_leave(vm, token, now_us),
            Some(End::HangUp(token)) => self.hang_up(vm, token, now_us),
            None => {}
        }
    }

    /// The sidecar ends the line then, and Envoy tells so.
    fn take_leave(&mut self, vm: &Vm, token: u32, now_us: u64) {
        match host::say_last(token, &HolderWord::Leaving.write()) {
            Ok(()) => self.line_ended(vm, Some(token), now_us),
            Err(_) => self.hang_up(vm, token, now_us),
        }
    }

    fn hang_up(&mut self, vm: &Vm, token: u32, now_us: u64) {
        host::hang_up(token);
        self.line_ended(vm, Some(token), now_us);
    }

    pub(crate) fn line_ended(&mut self, vm: &Vm, token: Option<u32>, now_us: u64) {
        let left = self.line.ended(token, now_us);
        self.unanswered(vm, left, now_us);
    }

    fn unanswered(&mut self, vm: &Vm, calls: Vec<Call>, now_us: u64) {
        if calls.is_empty() {
            return;
        }
        for call in calls {
            self.unsent(vm, call, now_us);
        }
        vm.call_root_for_asks(now_us);
    }
}
