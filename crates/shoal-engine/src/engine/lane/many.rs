//! What a lane knows of many hosts: which of them take no request now, and so which partition it opens next. Not here: which
//! object it takes next (`take.rs`), when a host is paused or stays away (`retry/`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use super::super::lane_partition::LanePartition;
use super::super::queue::{Dequeued, Taker};
use super::super::retry::HostState;
use super::LaneState;
use crate::error::HostId;

/// Objects of a host without room that a lane has open before it opens no more of them: work until the next one is open.
const BLOCKED_MAX: u32 = 50;
/// A lane that takes this many objects in a tick is busy …
const BUSY: u32 = 64;
/// … and then opens a partition of a host that stays away only once in so many ticks. Each of its objects fails, which takes
/// more processor time than fetching a small one, so those of other hosts go first.
const AWAY_TICKS: u64 = 5;

#[derive(Default)]
pub(super) struct ManyHosts {
    /// Those that took no request since the last tick. They are asked again after the next, not for every object.
    gated: RefCell<HashMap<HostId, HostState>>,
    /// Partitions of hosts that stay away which may be opened before the next tick.
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
        self.away_left.set(if is_busy { u32::from(self.ticks.get().is_multiple_of(AWAY_TICKS)) } else { u32::MAX });
    }

    /// Whether objects that wait go before fresh ones, also while some host is gated: after each tick, until none can go.
    pub fn waiting_first(&self) -> bool {
        self.waiting_first.get()
    }

    /// No object that waits can go before fresh ones now.
    pub fn none_waits(&self) {
        self.waiting_first.set(false);
    }

    /// A slot's host takes no request now.
    pub fn block(&self, slot: &mut LanePartition) {
        (slot.blocked, slot.blocked_at) = (true, self.ticks.get());
    }

    /// Whether a slot is passed over when a connection to `own` asks: its host took no request in this tick, and has not
    /// answered since, or a connection of its own would ask.
    pub fn is_passed(&self, slot: &LanePartition, own: Option<HostId>) -> bool {
        slot.blocked && slot.blocked_at == self.ticks.get() && own.is_some() && slot.open.host != own
    }

    /// The lane has taken an object.
    pub fn taken(&self) {
        self.taken.set(self.taken.get().saturating_add(1));
    }
}

impl LaneState {
    /// The next partition of the queue for this lane.
    pub(super) fn next_partition(&self) -> Dequeued {
        let is_idle = self.is_idle();
        let next = self.shared.queue.take(&Taker {
            is_idle,
            // What it has may wait for slow hosts, while a lane that is no longer needed has objects of others.
            shares: is_idle || self.shared.retry.is_of_many() && self.untaken() == 0,
            passes_over: &|host| self.passes_over(host),
            has: &|open| self.slots.borrow().iter().flatten().any(|slot| Arc::ptr_eq(&slot.open, open)),
        });
        if let Dequeued::Partition(open) = &next
            && open.host.is_some_and(|host| self.host_state(host) == HostState::Away)
        {
            self.many.away_left.set(self.many.away_left.get().saturating_sub(1));
        }
        next
    }

    /// Whether a partition of this host is not opened now: it is paused, or has no room and enough to go on with here, or stays
    /// away and others go first.
    fn passes_over(&self, host: HostId) -> bool {
        let slots = self.slots.borrow();
        let waiting = slots.iter().flatten().filter(|slot| slot.blocked && slot.open.host == Some(host));
        waiting.map(|slot| slot.open.untaken()).sum::<u32>() >= BLOCKED_MAX
            || match self.host_state(host) {
                HostState::Open => false,
                HostState::Closed => true,
                HostState::Away => self.many.away_left.get() == 0,
            }
    }

    /// Whether the lane has objects of this host that have not been taken yet.
    pub(super) fn has_fresh(&self, host: HostId) -> bool {
        self.slots.borrow().iter().flatten().any(|slot| slot.open.host == Some(host) && slot.open.untaken() > 0)
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
}
