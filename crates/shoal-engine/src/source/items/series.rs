//! A series of items: its batches, and what the pushing thread, the listing and the lanes share of it.
//!
//! Not here: filling batches (`push.rs`), opening them (`fetch.rs`).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};

use tokio::sync::Notify;

use crate::error::{Error, Kind, Result};
use crate::partition::{Cursor, Key, Partition};
use crate::poison::ignore_poison;

/// Most items of one batch.
pub const BATCH_ITEMS: usize = 100;
/// Bytes at which a batch is closed, so that few large items do not wait for many.
pub const BATCH_BYTES: u64 = 8 << 20;
/// In front of the name in a locator, high bytes first: the number of the batch, and the index in it. So the order of
/// locators is that of the items.
pub(super) const PLACE: usize = 12;

/// An object to save. Its bytes are created when they are needed.
pub trait Item: Send + Sync + 'static {
    /// Bytes it keeps in memory.
    fn held(&self) -> u64;
    /// Returns its bytes: its own, or created in `scratch`, which is empty. Called on a lane; an error fails this
    /// object.
    fn data<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]>;
}

/// A place in a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct At {
    /// The number of the next batch.
    pub seq: u64,
    /// Items before it.
    pub items: u64,
    /// What they were called; only in a named series.
    pub names: Key,
}

impl At {
    pub fn cursor(self) -> Cursor {
        let numbers = [self.seq.to_le_bytes(), self.items.to_le_bytes()].concat();
        Cursor([numbers, self.names.0.to_le_bytes().to_vec()].concat().into())
    }

    pub fn parse(cursor: &Cursor) -> Option<At> {
        let (seq, rest) = cursor.0.split_first_chunk::<8>()?;
        let (items, rest) = rest.split_first_chunk::<8>()?;
        let names = rest.try_into().ok()?;
        let names = Key(u128::from_le_bytes(names));
        Some(At { seq: u64::from_le_bytes(*seq), items: u64::from_le_bytes(*items), names })
    }
}

/// A batch that the listing knows.
pub(super) enum Known<I: Item> {
    /// No lane has opened it yet. Where its partition is gone, no lane ever will: an earlier session has committed it.
    Waiting(Arc<Batch<I>>, Weak<[u8]>),
    /// The lanes that work on it hold it; another may join them.
    Open(Weak<Batch<I>>),
}

pub(super) struct State<I: Item> {
    /// Closed and not listed yet.
    pub closed: VecDeque<Partition>,
    /// By number. Never dropped under the lock: that takes the lock.
    pub batches: HashMap<u64, Known<I>>,
    /// Of these, not opened yet.
    pub waiting: usize,
    /// Done with, to be dropped by the thread that pushed them.
    pub returned: Vec<I>,
    /// Where the listing began, once it has.
    pub begun: Option<At>,
    /// Nothing more will be pushed; whether that was all there is.
    pub end: Option<bool>,
    /// Why the series cannot go on.
    pub broken: Option<Error>,
    /// Items that failed in an earlier session.
    pub retries: Option<Retries<I>>,
}

/// The items that are to be retried. They are selected in the order of their positions, so it is known of every position
/// up to the last selected one whether its item is needed.
pub(super) struct Retries<I: Item> {
    /// The series goes on behind them; else nothing else is needed.
    pub lists: bool,
    /// The position of the last one selected.
    pub last: Option<u64>,
    /// No more will be selected.
    pub all: bool,
    /// Selected, and not come yet: their locators by position.
    pub wanted: BTreeMap<u64, Box<[u8]>>,
    /// What has come for them: the item, or why there is none.
    pub found: BTreeMap<u64, Result<Arc<Batch<I>>>>,
    /// The partitions of those selected: the payload, and the last position.
    pub selected: VecDeque<(Weak<[u8]>, u64)>,
}

impl<I: Item> Retries<I> {
    pub fn new(lists: bool) -> Retries<I> {
        let (wanted, found, selected) = Default::default();
        Retries { lists, last: None, all: false, wanted, found, selected }
    }

    /// Takes out what no lane will ask for, as its partition is gone: its name was refused. In turn, because the partitions
    /// end about in turn.
    fn take_unasked(&mut self) -> BTreeMap<u64, Result<Arc<Batch<I>>>> {
        let mut unasked = BTreeMap::new();
        while self.selected.front().is_some_and(|(payload, _)| payload.strong_count() == 0) {
            let Some((_, last)) = self.selected.pop_front() else { break };
            self.wanted = self.wanted.split_off(&(last + 1));
            let kept = self.found.split_off(&(last + 1));
            unasked.append(&mut std::mem::replace(&mut self.found, kept));
        }
        unasked
    }
}

/// The position in the series of the item at a locator.
pub(super) fn position(locator: &[u8]) -> Option<u64> {
    let (first, rest) = locator.split_first_chunk::<8>()?;
    let index = u32::from_be_bytes(*rest.first_chunk::<4>()?);
    u64::from_be_bytes(*first).checked_add(index.into())
}

pub(super) struct Shared<I: Item> {
    pub is_named: bool,
    state: Mutex<State<I>>,
    /// The run is over.
    pub ended: AtomicBool,
    pub listing: Notify,
    /// The pushing thread waits here.
    pub pusher: Condvar,
    /// Lanes wait here for items that are retried.
    pub lanes: Notify,
}

impl<I: Item> Shared<I> {
    pub fn new(is_named: bool) -> Shared<I> {
        Shared {
            is_named,
            state: Mutex::new(State {
                closed: VecDeque::new(),
                batches: HashMap::new(),
                waiting: 0,
                returned: Vec::new(),
                begun: None,
                end: None,
                broken: None,
                retries: None,
            }),
            ended: AtomicBool::new(false),
            listing: Notify::new(),
            pusher: Condvar::new(),
            lanes: Notify::new(),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State<I>> {
        ignore_poison(self.state.lock())
    }

    /// Gives back what no lane will ask for.
    pub fn drop_unasked(&self) {
        let mut state = self.state();
        let gone = |known: &Known<I>| matches!(known, Known::Waiting(_, payload) if payload.strong_count() == 0);
        let batches: Vec<_> = state.batches.extract_if(|_, known| gone(known)).collect();
        state.waiting -= batches.len();
        let retried = state.retries.as_mut().map(Retries::take_unasked);
        drop(state);
        drop((batches, retried)); // not under the lock, which that takes
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Waits for an item that is retried.
    pub async fn retried(&self, locator: &[u8]) -> Result<Arc<Batch<I>>> {
        loop {
            let changed = self.lanes.notified();
            {
                let mut state = self.state();
                let end = state.end;
                let waits = match (&mut state.retries, position(locator)) {
                    (Some(retries), Some(at)) => match retries.found.remove(&at) {
                        Some(found) => return found,
                        None => retries.wanted.contains_key(&at),
                    },
                    _ => false,
                };
                let why = match (waits, end) {
                    (true, None) => None,
                    (true, Some(true)) => Some("the items ended before it"),
                    (true, Some(false)) => Some("iterating over the items stopped before it"),
                    (false, _) => Some("its data is no longer in memory"),
                };
                if let Some(why) = why {
                    return Err(Error::new(Kind::Vanished, why).hint("save it again"));
                }
            }
            changed.await;
        }
    }
}

/// The items of one partition.
pub(super) struct Batch<I: Item> {
    /// The position of its first item.
    pub number: u64,
    pub items: Vec<I>,
    /// Place and name of each item, one behind the other.
    pub locators: Vec<u8>,
    /// Where each of them ends.
    pub ends: Vec<usize>,
    pub home: Weak<Shared<I>>,
}

impl<I: Item> Batch<I> {
    pub fn locator(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.locators[start..self.ends[index]]
    }
}

impl<I: Item> Drop for Batch<I> {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let mut state = home.state();
        state.batches.remove(&self.number); // it can only be open: no other lane holds it
        state.returned.append(&mut self.items);
        drop(state);
        home.pusher.notify_all();
    }
}
