//! The places of a lane, and what those of its objects tell of hosts that are paused, have never answered, or hang. Not here:
//! what follows (`hosts/`).

use std::cell::RefCell;

use super::super::progress::{add, sub};
use super::LaneState;
use crate::error::HostId;
use crate::hosts::Places;
use crate::source::{Hangs, Job, JobId};

pub(super) type Asked = RefCell<Places<JobId>>;

impl LaneState {
    pub(super) fn add_probe(&self, slot: u32, index: u32) {
        self.places.borrow_mut().probes(JobId { slot, index });
    }

    /// An object is requested.
    pub(super) fn asks(&self, job: &Job) {
        let is_unheard = !self.shared.hosts.has_answered(job.entry().host);
        self.places.borrow_mut().asks(job.id(), is_unheard);
        add(&self.counters().in_flight, 1);
    }

    /// Whether this object, which is answered now, asked a host that is paused.
    pub(super) fn take_probe(&self, job: JobId) -> bool {
        let (had_no_place, is_probe) = self.places.borrow_mut().arrives(job);
        add(&self.counters().in_flight, u64::from(had_no_place));
        is_probe
    }

    /// See `Lane::hangs`.
    pub(super) fn hangs(&self, job: JobId, why: Hangs) {
        let Some(host) = self.slots.host(job.slot, job.index) else { return };
        if let Hangs::Silent { is_connected } = why {
            self.shared.hosts.hangs(host, is_connected);
            self.add_probe(job.slot, job.index);
        }
        sub(&self.counters().in_flight, u64::from(self.places.borrow_mut().hangs(job)));
        self.wakes.jobs.notify_waiters();
    }

    /// See `Lane::arrives`. Others need not wait for the end of a body that has begun to arrive, either.
    pub(super) fn arrives(&self, job: JobId) {
        if self.take_probe(job)
            && let Some(host) = self.slots.host(job.slot, job.index)
        {
            self.shared.hosts.arrives(host, true);
        }
    }

    /// Whether as many objects are in flight as may.
    pub(super) fn is_full(&self) -> bool {
        self.places.borrow().are_full(self.limit(), self.places_of_unheard())
    }

    /// How many objects this lane may request now from hosts that have never answered.
    pub(super) fn room_for_unheard(&self) -> usize {
        self.places.borrow().room_for_unheard(self.places_of_unheard())
    }

    /// Whether an object has to wait because its host has never answered.
    pub(super) fn is_held_up(&self, host: HostId) -> bool {
        !self.shared.hosts.has_answered(host) && self.room_for_unheard() == 0
    }

    /// One at least, also on a lane that is no longer needed: it has to finish what it has open.
    fn places_of_unheard(&self) -> usize {
        (self.share() / 2).max(1)
    }
}
