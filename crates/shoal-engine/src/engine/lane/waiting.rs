//! Objects of many hosts that were given back, or are due for another try: they wait with their slot, leave their partition,
//! or fail. Not here: when a host is paused or stays away (`hosts/`), objects of a source with one host (`take.rs`).

use std::cmp::Reverse;
use std::time::Instant;

use super::super::in_flight_partition::Origin;
use super::LaneState;
use super::take::Asking;
use crate::error::{Error, HostId};
use crate::hosts::Gate;
use crate::source::Job;

/// Objects given back that are looked at, to find one of a host that takes a request.
const AGAIN_LOOKS: usize = 64;

impl LaneState {
    /// An object waits until it can be taken again.
    pub(super) fn wait_again(&self, number: u32, index: u32) {
        let mut slots = self.slots.open.borrow_mut();
        match slots[number as usize].as_mut() {
            Some(slot) if slot.open.host.is_some() => {
                slot.given_back.push_back(index);
                let mut order = self.slots.order.borrow_mut();
                if !slot.parked && !order.contains(&number) {
                    order.insert(0, number);
                }
            }
            _ => self.waiting.again.borrow_mut().push_back((number, index)),
        }
    }

    /// The first of those given back from partitions of several hosts that is of a host which takes a request. The others
    /// have their turn later, or leave their partition.
    pub(super) fn waiting_of_many(&self, asking: &Asking<'_>) -> Option<Job> {
        self.all_due_wait_again();
        let looks = self.waiting.again.borrow().len().min(AGAIN_LOOKS);
        for _ in 0..looks {
            let (number, index) = self.waiting.again.borrow_mut().pop_front()?;
            let host = self.slots.host(number, index)?;
            let look = match self.look(host) {
                Gate::Away => self.shared.hosts.look(host), // it may be back since the last tick
                look => look,
            };
            let may_ask = matches!(look, Gate::Open | Gate::Probe);
            let is_asked = may_ask && (asking.has_room)(host) && !self.is_held_up(host);
            if look != Gate::Away && !is_asked && self.defer_unasked(asking, number, index, true) {
                continue;
            }
            match if is_asked { self.shared.hosts.gate(host) } else { look } {
                Gate::Away => self.fail_waiting(number, index, host),
                gate if is_asked && gate != Gate::Closed => return self.job_of_waiting(number, index, gate),
                _ => self.waiting.again.borrow_mut().push_back((number, index)),
            }
        }
        None
    }

    /// Those that are due for another try wait for their host now: one that takes no request must not be in the way of others.
    fn all_due_wait_again(&self) {
        let now = Instant::now();
        loop {
            let mut retries = self.waiting.due.borrow_mut();
            let is_due = retries.peek().is_some_and(|Reverse((at, ..))| *at <= now);
            let Some(Reverse((_, number, index))) = is_due.then(|| retries.pop()).flatten() else { return };
            drop(retries);
            self.wait_again(number, index);
        }
    }

    /// An object of a slot of one host that waits, if its host takes a request.
    pub(super) fn again_of(&self, number: u32, index: u32, host: HostId) -> Option<Job> {
        match self.shared.hosts.gate(host) {
            Gate::Away => self.fail_waiting(number, index, host),
            Gate::Closed => self.wait_again(number, index),
            gate => return self.job_of_waiting(number, index, gate),
        }
        None
    }

    /// If its host is paused for longer, or has to wait for its turn, an object leaves its partition for a later try, so that
    /// the others of that can be committed. Returns whether it did. A stream cannot be read again. `waits`: it is one of
    /// those that wait.
    pub(super) fn defer_unasked(&self, asking: &Asking<'_>, number: u32, index: u32, waits: bool) -> bool {
        let Some(host) = self.slots.host(number, index) else { return false };
        let has_room = (asking.has_room)(host);
        let mut slots = self.slots.open.borrow_mut();
        let Some(slot) = slots[number as usize].as_mut() else { return false };
        if self.shared.source.properties().once || !matches!(slot.open.origin, Origin::Listed) {
            return false;
        }
        let hosts = &self.shared.hosts;
        let later = hosts.deferral(host, has_room).or_else(|| self.is_held_up(host).then(|| hosts.turn(host)));
        let Some((error, wait)) = later else { return false };
        slot.waiting -= u32::from(waits);
        let tried = slot.tried_so_far(index, self.shared.hosts.paused(host));
        slot.failed(index, &error, Some(tried), Some(wait));
        drop(slots);
        self.slots.skip_in_sink(number, index);
        if waits {
            self.close_if_settled(number);
        }
        true
    }

    /// An object that has asked a paused host in vain leaves its partition, if that has objects of other hosts, too. Given
    /// back, it would be the next one that asks, and it may be the only one that the host does not answer. Returns whether
    /// it did.
    pub(super) fn defer_hung(&self, job: &Job, error: &Error) -> bool {
        let hosts = &self.shared.hosts;
        let Some(wait) = hosts.wait_of_others(error.host_id()) else { return false };
        let tried = match self.slots.open.borrow_mut()[job.slot as usize].as_mut() {
            Some(slot) if slot.open.host.is_none() && matches!(slot.open.origin, Origin::Listed) => {
                slot.tried_so_far(job.index, hosts.paused(error.host_id()))
            }
            _ => return false,
        };
        if self.shared.source.properties().once {
            return false;
        }
        self.slots.skip_in_sink(job.slot, job.index);
        self.settle(job, |slot| slot.failed(job.index, error, Some(tried), Some(wait)));
        true
    }

    /// An object that waits for a host which stays away has failed.
    pub(super) fn fail_waiting(&self, number: u32, index: u32, host: HostId) {
        let mut slots = self.slots.open.borrow_mut();
        let Some(slot) = slots[number as usize].as_mut() else { return };
        slot.waiting -= 1;
        self.fail_unasked(slot, index, self.shared.hosts.away(host));
        drop(slots);
        self.slots.skip_in_sink(number, index);
        self.close_if_settled(number);
    }
}
