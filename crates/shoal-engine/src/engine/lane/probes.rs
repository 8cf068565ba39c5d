//! The objects with which a lane asks hosts that are paused or have never answered, and those that hang. Not here: when a
//! host is asked (`retry/`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::super::progress::{add, sub};
use super::LaneState;
use crate::error::HostId;
use crate::source::{Hangs, Job, JobId};

/// Objects that arrive slowly and take no place, for each that takes one. It may be the line that is slow.
const SLOW_FOR_EACH: usize = 3;

#[derive(Default)]
pub(super) struct Probes {
    asked: RefCell<HashMap<JobId, Asked>>,
    /// How many of them hang.
    hanging: Cell<usize>,
    /// How many of these arrive slowly.
    slow: Cell<usize>,
    /// How many arrive slowly and take a place, because enough others take none.
    slow_in_place: Cell<usize>,
}

#[derive(Default)]
struct Asked {
    /// Its host is paused: the answer is one about the host.
    is_probe: bool,
    /// It does not count as in flight.
    hangs: bool,
    /// It arrives slowly.
    is_slow: bool,
}

impl LaneState {
    pub(super) fn add_probe(&self, slot: u32, index: u32) {
        self.probes.asked.borrow_mut().entry(JobId { slot, index }).or_default().is_probe = true;
    }

    /// An object is requested. With many hosts, those count of which none has answered.
    pub(super) fn asks(&self, job: &Job) {
        if !self.shared.retry.has_answered(job.entry().host) {
            self.probes.asked.borrow_mut().entry(job.id()).or_default();
        }
    }

    /// Whether this object, which is answered now, asked a host that is paused.
    pub(super) fn take_probe(&self, job: JobId) -> bool {
        let mut asked = self.probes.asked.borrow_mut();
        if asked.is_empty() {
            return false;
        }
        let Some(answered) = asked.remove(&job) else { return false };
        if answered.hangs {
            self.probes.hanging.set(self.probes.hanging.get() - 1);
            self.probes.slow.set(self.probes.slow.get() - usize::from(answered.is_slow));
            self.in_flight.set(self.in_flight.get() + 1);
            add(&self.counters().in_flight, 1);
        } else if answered.is_slow {
            self.probes.slow_in_place.set(self.probes.slow_in_place.get() - 1);
        }
        if self.probes.slow_in_place.get() > 0
            && self.may_hang(true)
            && let Some(next) = asked.values_mut().find(|asked| asked.is_slow && !asked.hangs)
        {
            self.probes.slow_in_place.set(self.probes.slow_in_place.get() - 1);
            self.let_hang(next);
            self.jobs.notify_waiters();
        }
        answered.is_probe
    }

    /// See `Lane::hangs`.
    pub(super) fn hangs(&self, job: JobId, why: Hangs) {
        let Some(host) = self.host(job.slot, job.index) else { return };
        let mut asked = self.probes.asked.borrow_mut();
        let asked = asked.entry(job).or_default();
        if let Hangs::Silent { is_connected } = why {
            self.shared.retry.hangs(host, is_connected);
            asked.is_probe = true;
        }
        if !asked.hangs {
            let was_slow = std::mem::replace(&mut asked.is_slow, why == Hangs::Slow);
            let may_hang = self.may_hang(asked.is_slow);
            if may_hang {
                self.let_hang(asked);
            }
            let in_place = self.probes.slow_in_place.get() + usize::from(asked.is_slow && !may_hang);
            self.probes.slow_in_place.set(in_place - usize::from(was_slow));
        }
        self.jobs.notify_waiters();
    }

    /// Whether another object may take no place.
    fn may_hang(&self, is_slow: bool) -> bool {
        self.probes.hanging.get() < self.shared.hanging_max
            && (!is_slow || self.probes.slow.get() < SLOW_FOR_EACH * self.share())
    }

    /// An object takes no place any more.
    fn let_hang(&self, asked: &mut Asked) {
        asked.hangs = true;
        self.probes.hanging.set(self.probes.hanging.get() + 1);
        self.probes.slow.set(self.probes.slow.get() + usize::from(asked.is_slow));
        self.in_flight.set(self.in_flight.get() - 1);
        sub(&self.counters().in_flight, 1);
    }

    /// The body of an object arrives. If nothing came from its host before, the others need not wait for the end of it.
    pub(super) fn begins(&self, job: &Job) {
        let host = job.entry().host;
        if !self.shared.retry.has_answered(host) && self.take_probe(job.id()) {
            self.shared.retry.arrives(host, true);
        }
    }

    /// See `Lane::arrives`.
    pub(super) fn arrives(&self, job: JobId) {
        if let Some(host) = self.host(job.slot, job.index)
            && self.take_probe(job)
        {
            self.shared.retry.arrives(host, true);
        }
    }

    /// Whether as many objects are in flight as may. If as many hang as may, those of hosts that have never answered take at
    /// most half of the places: the next ones would hang too.
    pub(super) fn is_full(&self) -> bool {
        let surplus = match self.probes.hanging.get() >= self.shared.hanging_max {
            true => (self.unanswered() - self.probes.hanging.get()).saturating_sub(self.places_of_unheard()),
            false => 0,
        };
        self.in_flight.get().saturating_sub(surplus) >= self.limit()
    }

    /// How many objects this lane may request now from hosts that have never answered.
    pub(super) fn room_for_unheard(&self) -> usize {
        (self.shared.hanging_max + self.places_of_unheard()).saturating_sub(self.unanswered())
    }

    /// Objects that hang, and those of hosts that have not answered.
    fn unanswered(&self) -> usize {
        self.probes.asked.borrow().len() - self.probes.slow_in_place.get()
    }

    /// Whether an object has to wait because its host has never answered.
    pub(super) fn is_held_up(&self, host: HostId) -> bool {
        !self.shared.retry.has_answered(host) && self.room_for_unheard() == 0
    }

    /// One at least, also on a lane that is no longer needed: it has to finish what it has open.
    fn places_of_unheard(&self) -> usize {
        (self.share() / 2).max(1)
    }
}
