//! What a lane knows of many hosts: which of them take no request now, and so which partition it opens next, and which it
//! has parked. Not here: which object it takes next (`take.rs`), when a host is paused or stays away (`retry/`).

use std::cell::{Cell, LazyCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::lane_partition::LanePartition;
use super::super::queue::{Dequeued, Taker};
use super::super::retry::HostState;
use super::LaneState;
use crate::error::HostId;

/// Objects of a host without room that a lane has parked before it opens no more of them: work until the next one is open.
const BLOCKED_MAX: u32 = 50;
/// Objects that a lane may have parked before it opens no more of hosts that are paused …
const PARKED_MAX: u64 = 200_000;
/// … where a partition counts as so many more.
const PARTITION_COST: u64 = 20;
/// A lane that takes this many objects in a tick is busy …
const BUSY: u32 = 64;
/// … and then fails about this many objects of hosts that stay away in so many ticks. Each takes more processor time than
/// fetching a small one, so those of other hosts go first.
const AWAY: u32 = 100;
const AWAY_TICKS: u64 = 5;

#[derive(Default)]
pub(super) struct ManyHosts {
    /// Those that took no request since the last tick. They are asked again after the next, not for every object.
    gated: RefCell<HashMap<HostId, HostState>>,
    /// Slots from which nothing is taken now, by their host.
    parked: RefCell<HashMap<HostId, Vec<u32>>>,
    /// Objects in them, as `PARKED_MAX` counts.
    parked_objects: Cell<u64>,
    /// Objects of hosts that stay away which may fail before the next tick.
    away_left: Cell<u32>,
    /// Objects taken since the last tick.
    taken: Cell<u32>,
    /// Ticks so far.
    ticks: Cell<u64>,
    /// See `waiting_first()`.
    waiting_first: Cell<bool>,
}

impl ManyHosts {
    /// The clock of the lane has ticked.
    pub fn tick(&self) {
        self.ticks.set(self.ticks.get() + 1);
        self.waiting_first.set(true);
        self.gated.borrow_mut().clear();
        let is_busy = self.taken.replace(0) >= BUSY;
        let in_turn = if self.ticks.get().is_multiple_of(AWAY_TICKS) { AWAY } else { 0 };
        self.away_left.set(if is_busy { in_turn } else { u32::MAX });
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

    fn fails(&self, objects: u32) {
        self.away_left.set(self.away_left.get().saturating_sub(objects));
    }
}

impl LaneState {
    /// The next partition of the queue for this lane.
    pub(super) fn next_partition(&self) -> Dequeued {
        let is_idle = self.is_idle();
        let slots = self.slots.borrow();
        let own = LazyCell::new(|| slots.iter().flatten().map(|slot| Arc::as_ptr(&slot.open)).collect::<HashSet<_>>());
        let next = self.shared.queue.take(&Taker {
            is_idle,
            // What it has may wait for slow hosts, while a lane that is no longer needed has objects of others.
            shares: is_idle || self.shared.retry.is_of_many() && self.untaken() == 0,
            passes_over: &|host| self.passes_over(host),
            has: &|open| own.contains(&Arc::as_ptr(open)),
        });
        if let Dequeued::Partition(open) = &next
            && open.host.is_some_and(|host| self.host_state(host) == HostState::Away)
        {
            self.many.fails(open.untaken());
        }
        next
    }

    /// Whether a partition of this host is not opened now: it is paused, or has no room and enough to go on with here, or stays
    /// away and others go first.
    fn passes_over(&self, host: HostId) -> bool {
        let parked = self.many.parked.borrow();
        let slots = self.slots.borrow();
        let waiting = parked.get(&host).into_iter().flatten().filter_map(|number| slots[*number as usize].as_ref());
        waiting.map(|slot| slot.open.untaken()).sum::<u32>() >= BLOCKED_MAX
            || match self.host_state(host) {
                HostState::Open => self.many.parked_objects.get() >= PARKED_MAX && self.shared.retry.may_be_gated(host),
                HostState::Closed => true,
                HostState::Away => self.many.away_left.get() == 0,
            }
    }

    /// What becomes of an object of this host now.
    pub(super) fn host_state(&self, host: HostId) -> HostState {
        if !self.shared.retry.may_be_gated(host) {
            return HostState::Open;
        }
        if let Some(state) = self.many.gated.borrow().get(&host) {
            return *state;
        }
        let state = self.shared.retry.state(host);
        if state != HostState::Open {
            self.many.gated.borrow_mut().insert(host, state);
        }
        state
    }

    /// Takes nothing more from a slot, because its host is paused or has no room. If it has never answered, it may take long.
    pub(super) fn park(&self, number: u32, host: HostId) {
        self.take_no_more(number);
        let retry = &self.shared.retry;
        let aside = self.host_state(host) == HostState::Closed || retry.is_paused(host) || !retry.has_answered(host);
        if let Some(slot) = self.slots.borrow_mut()[number as usize].as_mut() {
            slot.parked = true;
            self.many.parked.borrow_mut().entry(host).or_default().push(number);
            self.many.parked_objects.set(self.many.parked_objects.get() + cost(slot));
            if aside {
                self.shared.queue.set_aside(&slot.open);
            }
        }
        self.hungry.notify_one();
    }

    /// Looks at parked slots again, after a tick. Returns whether there is something to take again.
    pub(super) fn unpark_some(&self) -> bool {
        let before = self.order.borrow().len();
        let mut hosts: Vec<HostId> = self.many.parked.borrow().keys().copied().collect();
        // Another one is the first each time: there may not be room for all.
        let first = fastrand::usize(..hosts.len().max(1));
        hosts.rotate_left(first);
        let mut unheard = self.room_for_unheard();
        for host in hosts {
            match self.host_state(host) {
                HostState::Closed => {}
                HostState::Open if !self.shared.retry.has_answered(host) => {
                    if unheard > 0 {
                        unheard -= 1;
                        self.unpark_one(host);
                    }
                }
                // One object asks whether it is back.
                HostState::Open if self.shared.retry.may_be_gated(host) => self.unpark_one(host),
                HostState::Open => while self.unpark(host).is_some() {},
                HostState::Away => {
                    while self.many.away_left.get() > 0
                        && let Some(objects) = self.unpark(host)
                    {
                        self.many.fails(objects);
                    }
                }
            }
        }
        self.order.borrow().len() > before
    }

    /// A connection to this host can take more.
    pub(super) fn unpark_one(&self, host: HostId) {
        if self.host_state(host) == HostState::Open {
            self.unpark(host);
        }
    }

    /// Takes from a parked slot of this host again. Returns how many objects it has to take.
    fn unpark(&self, host: HostId) -> Option<u32> {
        let mut parked = self.many.parked.borrow_mut();
        let slots = parked.get_mut(&host)?;
        let number = (!slots.is_empty()).then(|| slots.remove(0));
        if slots.is_empty() {
            parked.remove(&host);
        }
        let (number, mut slots) = (number?, self.slots.borrow_mut());
        let slot = slots[number as usize].as_mut()?;
        slot.parked = false;
        self.many.parked_objects.set(self.many.parked_objects.get() - cost(slot));
        self.shared.queue.take_up(&slot.open);
        self.order.borrow_mut().insert(0, number);
        Some(slot.open.untaken() + slot.given_back.len() as u32)
    }
}

fn cost(slot: &LanePartition) -> u64 {
    slot.open.len() + PARTITION_COST
}
