//! A series of items: its batches, and what the pushing thread, the listing and the lanes share of it.
//!
//! Not here: filling batches (`push.rs`), opening them (`fetch.rs`).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};

use tokio::sync::Notify;

use crate::error::{Error, Result};
use crate::partition::{Cursor, Key, Partition};
use crate::poison::ignore_poison;

/// Most items of one batch, and so most files in a directory of `layout="partition"`.
pub const BATCH_ITEMS: usize = 100;
/// Bytes at which a batch is closed, so that few large items do not wait for many.
pub const BATCH_BYTES: u64 = 8 << 20;
/// Number and index in front of the name in a locator.
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
    /// No lane has opened it yet.
    Waiting(Arc<Batch<I>>),
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
}

pub(super) struct Shared<I: Item> {
    state: Mutex<State<I>>,
    /// The run is over.
    pub ended: AtomicBool,
    pub listing: Notify,
    /// The pushing thread waits here.
    pub pusher: Condvar,
}

impl<I: Item> Shared<I> {
    pub fn new() -> Shared<I> {
        Shared {
            state: Mutex::new(State {
                closed: VecDeque::new(),
                batches: HashMap::new(),
                waiting: 0,
                returned: Vec::new(),
                begun: None,
                end: None,
                broken: None,
            }),
            ended: AtomicBool::new(false),
            listing: Notify::new(),
            pusher: Condvar::new(),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State<I>> {
        ignore_poison(self.state.lock())
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// The items of one partition.
pub(super) struct Batch<I: Item> {
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
