//! Places that sessions leave while nobody can be told. They stay held, so the store notices nothing,
//! and the next session takes one with the same lease (docs/outages.md).
//!
//! A place is spare only while another session of this holder lives on the same life of its worker.
//! That session's connection is the proof that the worker was not started anew: a new life begins
//! with none of its places taken, and the store would give this one to others as well.

use super::{Inventory, Life};
use crate::message::{Admitted, Release, Use};
use std::rc::Rc;

impl Life {
    pub(super) fn enter(&self) {
        self.sessions.set(self.sessions.get().saturating_add(1));
    }

    /// Returns whether places are left on it, and no session: all of them are spare.
    pub(super) fn leave(self: &Rc<Self>) -> bool {
        self.sessions.set(self.sessions.get().saturating_sub(1));
        // The inventory's map has it as well, and so has the place that is being left.
        self.sessions.get() == 0 && Rc::strong_count(self) > 2
    }
}

impl Inventory {
    /// The session is over, and its place is kept for the next one, if it can be. Its release waits.
    pub fn set_aside(&mut self, release: Release) {
        let number = release.lease.seq;
        let fit = self.spares.len() < self.spares_max && !self.bound.contains(&number);
        let lease = self.held.get(&number);
        let Some(lease) = lease.filter(|lease| fit && lease.life.sessions.get() > 1) else {
            return self.ended(release);
        };
        lease.life.leave();
        if release.r#use == Use::Used {
            self.used.insert(number);
        }
        self.spares.push(release);
    }

    /// The place that was left last: of its worker the latest is known.
    pub fn take_spare(&mut self) -> Option<Admitted> {
        let release = self.spares.pop()?;
        let lease = self.held.get(&release.lease.seq)?;
        let life = &lease.life;
        life.enter();
        Some(Admitted {
            worker: life.worker.clone(),
            incarnation: life.incarnation.clone(),
            address: life.address,
            lease: release.lease,
            active: life.sessions.get(),
            lifetime: lease.lifetime,
            probe: false,
            client: lease.client,
            affinity: None,
        })
    }

    /// Whatever is spare ends, as it would have without an outage.
    pub fn end_spares(&mut self) {
        for release in std::mem::take(&mut self.spares) {
            self.let_go(release);
        }
    }

    /// Ends the spare places on workers that no session vouches for any more.
    pub(super) fn end_unwitnessed(&mut self) {
        for release in std::mem::take(&mut self.spares) {
            let lease = self.held.get(&release.lease.seq);
            if lease.is_some_and(|lease| lease.life.sessions.get() > 0) {
                self.spares.push(release);
            } else {
                self.let_go(release);
            }
        }
    }
}
