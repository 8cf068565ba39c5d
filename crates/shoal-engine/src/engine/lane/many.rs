//! What a lane knows of many hosts: which of them take no request now, and so which partition it opens next, and which it
//! has parked. Not here: which object it takes next (`take.rs`), when a host is paused or stays away (`hosts/`).

use std::cell::{Cell, LazyCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::lane_partition::LanePartition;
use super::super::queue::{Dequeued, Taker};
use super::LaneState;
use super::take::Asking;
use crate::error::HostId;
use crate::hosts::Gate;
use crate::source::Job;

/// Objects of a host without room that a lane has parked before it opens no more of them: work until the next one is open.
const BLOCKED_MAX: u32 = 50;
/// Objects that a lane may have parked before it opens no more of hosts that are paused …
const PARKED_MAX: u64 = 200_000;
/// … where a partition counts as so many more.
const PARTITION_COST: u64 = 20;
/// A lane that takes this many objects in a tick is busy. To let one fail costs more processor time than fetching a small
/// one, so objects of hosts that stay away wait until it is not.
const BUSY: u32 = 64;

#[derive(Default)]
pub(super) struct ManyHosts {
    /// Those that took no request since the last tick. They are asked again after the next, not for every object.
    gated: RefCell<HashMap<HostId, Gate>>,
    /// Slots from which nothing is taken now, by their host.
    parked: RefCell<HashMap<HostId, Vec<u32>>>,
    /// Objects in them, as `PARKED_MAX` counts.
    parked_objects: Cell<u64>,
    /// Objects taken since the last tick.
    taken: Cell<u32>,
    /// The lane was busy until the last tick.
    is_busy: Cell<bool>,
    /// See `waiting_first()`.
    waiting_first: Cell<bool>,
}

impl ManyHosts {
    /// The clock of the lane has ticked.
    pub fn tick(&self) {
        self.waiting_first.set(true);
        self.gated.borrow_mut().clear();
        self.is_busy.set(self.taken.replace(0) >= BUSY);
    }

    /// Whether objects that wait go before fresh ones, also while some host is gated: after each tick, until none can go.
    pub fn waiting_first(&self) -> bool {
        self.waiting_first.get()
    }

    /// No object that waits can go before fresh ones now.
    pub fn none_waits(&self) {
        self.waiting_first.set(false);
    }

    /// The lane has taken an object.
    pub fn taken(&self) {
        self.taken.set(self.taken.get().saturating_add(1));
    }

    /// A slot is closed.
    pub fn forget(&self, slot: &LanePartition, number: u32) {
        if let Some(host) = slot.open.host.filter(|_| slot.parked) {
            let mut parked = self.parked.borrow_mut();
            let slots = parked.entry(host).or_default();
            slots.retain(|other| *other != number);
            if slots.is_empty() {
                parked.remove(&host);
            }
            self.parked_objects.set(self.parked_objects.get() - cost(slot));
        }
    }
}

impl LaneState {
    /// The next partition of the queue for this lane.
    pub(super) fn next_partition(&self) -> Dequeued {
        let is_idle = self.is_idle();
        let slots = self.slots.open.borrow();
        let own = LazyCell::new(|| slots.iter().flatten().map(|slot| Arc::as_ptr(&slot.open)).collect::<HashSet<_>>());
        self.shared.queue.take(&Taker {
            is_idle,
            // What it has may wait for slow hosts, while a lane that is no longer needed has objects of others.
            shares: is_idle || self.shared.hosts.are_many() && self.slots.untaken() == 0,
            passes_over: &|host| self.passes_over(host),
            has: &|open| own.contains(&Arc::as_ptr(open)),
        })
    }

    /// Whether an object of this partition steps aside while its host takes no request: others may be of other hosts.
    pub(super) fn steps_aside(&self, slot: &LanePartition) -> bool {
        slot.open.host.is_none() && self.shared.hosts.are_many()
    }

    /// Whether all objects of a partition wait for the only host that there is.
    pub(super) fn waits_in_place(&self, slot: &LanePartition) -> bool {
        slot.open.host.is_none() && !self.shared.hosts.are_many()
    }

    /// The next object to fetch.
    pub(super) fn next_job(&self, asking: &Asking<'_>) -> Option<Job> {
        let many = self.shared.hosts.are_many();
        let fresh = || self.fresh(asking);
        let waiting = || match many {
            true => self.waiting_of_many(asking),
            false => self.due_retry().or_else(|| self.requeued_before()),
        };
        if !self.shared.hosts.any_gated() {
            return waiting().or_else(fresh);
        }
        if many && self.many.waiting_first() {
            // Else it would wait as long as some host is paused and others have objects.
            let job = self.waiting_of_many(asking);
            if job.is_some() {
                return job;
            }
            self.many.none_waits();
        }
        // A probe with an object that has not failed yet tells most about its host.
        fresh().or_else(waiting)
    }

    /// Whether a partition of this host is not opened now: it is paused, or has no room and enough to go on with here, or stays
    /// away and others go first.
    fn passes_over(&self, host: HostId) -> bool {
        let parked = self.many.parked.borrow();
        let slots = self.slots.open.borrow();
        let waiting = parked.get(&host).into_iter().flatten().filter_map(|number| slots[*number as usize].as_ref());
        waiting.map(|slot| slot.open.untaken()).sum::<u32>() >= BLOCKED_MAX
            || match self.look(host) {
                Gate::Open => false,
                Gate::Probe => self.many.parked_objects.get() >= PARKED_MAX,
                Gate::Closed => true,
                Gate::Away => self.many.is_busy.get(),
            }
    }

    /// What may be done with an object of this host now.
    pub(super) fn look(&self, host: HostId) -> Gate {
        if self.shared.hosts.is_well(host) {
            return Gate::Open;
        }
        if let Some(gate) = self.many.gated.borrow().get(&host) {
            return *gate;
        }
        let gate = self.shared.hosts.look(host);
        if matches!(gate, Gate::Closed | Gate::Away) {
            self.many.gated.borrow_mut().insert(host, gate);
        }
        gate
    }

    /// Takes nothing more from a slot, because its host is paused or has no room. If it has never answered, it may take long.
    pub(super) fn park(&self, number: u32, host: HostId) {
        self.slots.take_no_more(number);
        let aside = self.look(host) != Gate::Open || !self.shared.hosts.has_answered(host);
        if let Some(slot) = self.slots.open.borrow_mut()[number as usize].as_mut() {
            slot.parked = true;
            self.many.parked.borrow_mut().entry(host).or_default().push(number);
            self.many.parked_objects.set(self.many.parked_objects.get() + cost(slot));
            if aside {
                self.shared.queue.set_aside(&slot.open);
            }
        }
        self.wakes.hungry.notify_one();
    }

    /// Looks at parked slots again, after a tick. Returns whether there is something to take again.
    pub(super) fn unpark_some(&self) -> bool {
        let before = self.slots.order.borrow().len();
        let mut hosts: Vec<HostId> = self.many.parked.borrow().keys().copied().collect();
        // Another one is the first each time: there may not be room for all.
        let first = fastrand::usize(..hosts.len().max(1));
        hosts.rotate_left(first);
        let mut unheard = self.room_for_unheard();
        for host in hosts {
            match self.look(host) {
                Gate::Closed => {}
                Gate::Away if self.many.is_busy.get() => {}
                Gate::Open | Gate::Probe if !self.shared.hosts.has_answered(host) => {
                    if unheard > 0 {
                        unheard -= 1;
                        self.unpark(host);
                    }
                }
                // One object asks whether it is back.
                Gate::Probe => drop(self.unpark(host)),
                Gate::Open | Gate::Away => while self.unpark(host).is_some() {},
            }
        }
        self.slots.order.borrow().len() > before
    }

    /// A connection to this host can take more.
    pub(super) fn unpark_one(&self, host: HostId) {
        if matches!(self.look(host), Gate::Open | Gate::Probe) {
            self.unpark(host);
        }
    }

    /// Takes from a parked slot of this host again.
    fn unpark(&self, host: HostId) -> Option<()> {
        let mut parked = self.many.parked.borrow_mut();
        let slots = parked.get_mut(&host)?;
        let number = (!slots.is_empty()).then(|| slots.remove(0));
        if slots.is_empty() {
            parked.remove(&host);
        }
        let (number, mut slots) = (number?, self.slots.open.borrow_mut());
        let slot = slots[number as usize].as_mut()?;
        slot.parked = false;
        self.many.parked_objects.set(self.many.parked_objects.get() - cost(slot));
        self.shared.queue.take_up(&slot.open);
        self.slots.order.borrow_mut().insert(0, number);
        Some(())
    }
}

fn cost(slot: &LanePartition) -> u64 {
    slot.open.len() + PARTITION_COST
}
