//! Source: items that the caller pushes one by one from its own thread, such as those that a generator yields.
//!
//! ```text
//! Pusher::push ──▶ open batch ──closed──▶ listing ──▶ lane: opens the batch, asks each item for its bytes, writes them
//!      ▲                                                 │
//!      └───────── items come back to be dropped ◀────────┘
//! ```
//!
//! A batch is a partition: at most [`BATCH_ITEMS`] items or [`BATCH_BYTES`]. Its items wait here until a lane opens it.
//! When no lane has it open any more, they return to the thread that pushed them, so that they are dropped only there.
//! Not here: what an item is and how it becomes bytes; waiting with an interpreter (the binding).
//!
//! Items can be listed once and fetched once. A **named** series promises the same items in the same order each time.
//! Its cursor records how many items are before it, and a hash of their names, so that a resumed run skips exactly
//! these.

mod fetch;
mod push;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};

use tokio::sync::Notify;

use super::{BoxFuture, Fetcher, Listing, ListingEnd, Source, SourceProperties};
use crate::error::{Error, Kind, Result};
use crate::fs::random::random;
use crate::partition::{Cursor, Key, Partition};
use crate::poison::ignore_poison;
use crate::session::Twice;
pub use push::{Pusher, Room};

/// Most items of one batch, and so most files in a directory of `layout="partition"`.
pub const BATCH_ITEMS: usize = 100;
/// Bytes at which a batch is closed, so that few large items do not wait for many.
pub const BATCH_BYTES: u64 = 8 << 20;
/// Number and index in front of the name in a locator.
const PLACE: usize = 12;

/// An object to save, whose bytes are created when they are needed.
pub trait Item: Send + Sync + 'static {
    /// Bytes it keeps in memory.
    fn held(&self) -> u64;
    /// Returns its bytes: its own, or created in `scratch`, which is empty. Called on a lane; an error fails this
    /// object.
    fn data<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]>;
}

/// Returns a source of items, and the [`Pusher`] that they are pushed to.
///
/// `name` identifies the series when a run resumes; the caller promises the same items in the same order. Without a
/// name nothing of an earlier run counts. `memory` is the most bytes that pushed items may keep in memory.
pub fn items<I: Item>(name: Option<&str>, memory: u64) -> (Items<I>, Pusher<I>) {
    let identity = match name {
        Some(name) => format!("items:{name}"),
        None => format!("items#{:032x}", u128::from_ne_bytes(random())),
    };
    let shared = Arc::new(Shared {
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
    });
    let pusher = Pusher::new(shared.clone(), name.is_some(), memory);
    (Items { identity, shared }, pusher)
}

/// A place in a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct At {
    /// The number of the next batch.
    seq: u64,
    /// Items before it.
    items: u64,
    /// What they were called; only in a named series.
    names: Key,
}

impl At {
    fn cursor(self) -> Cursor {
        let numbers = [self.seq.to_le_bytes(), self.items.to_le_bytes()].concat();
        Cursor([numbers, self.names.0.to_le_bytes().to_vec()].concat().into())
    }

    fn parse(cursor: &Cursor) -> Option<At> {
        let (seq, rest) = cursor.0.split_first_chunk::<8>()?;
        let (items, rest) = rest.split_first_chunk::<8>()?;
        let names = rest.try_into().ok()?;
        let names = Key(u128::from_le_bytes(names));
        Some(At { seq: u64::from_le_bytes(*seq), items: u64::from_le_bytes(*items), names })
    }
}

/// A batch that the listing knows.
enum Known<I: Item> {
    /// No lane has opened it yet.
    Waiting(Arc<Batch<I>>),
    /// The lanes that work on it hold it; another may join them.
    Open(Weak<Batch<I>>),
}

struct State<I: Item> {
    /// Closed and not listed yet.
    closed: VecDeque<Partition>,
    /// By number. Never dropped under the lock: that takes the lock.
    batches: HashMap<u64, Known<I>>,
    /// Of these, not opened yet.
    waiting: usize,
    /// Done with, to be dropped by the thread that pushed them.
    returned: Vec<I>,
    /// Where the listing began, once it has.
    begun: Option<At>,
    /// Nothing more will be pushed; whether that was all there is.
    end: Option<bool>,
    /// Why the series cannot go on.
    broken: Option<Error>,
}

struct Shared<I: Item> {
    state: Mutex<State<I>>,
    /// The run is over.
    ended: AtomicBool,
    listing: Notify,
    /// The pushing thread waits here.
    pusher: Condvar,
}

impl<I: Item> Shared<I> {
    fn state(&self) -> MutexGuard<'_, State<I>> {
        ignore_poison(self.state.lock())
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// The items of one partition.
struct Batch<I: Item> {
    number: u64,
    items: Vec<I>,
    /// Place and name of each item, one behind the other.
    locators: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    home: Weak<Shared<I>>,
}

impl<I: Item> Batch<I> {
    fn locator(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.locators[start..self.ends[index]]
    }
}

impl<I: Item> Drop for Batch<I> {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let mut state = home.state();
        state.batches.remove(&self.number); // it can only be open: nobody else holds it
        state.returned.append(&mut self.items);
        drop(state);
        home.pusher.notify_all();
    }
}

/// A source of pushed items.
pub struct Items<I: Item> {
    identity: String,
    shared: Arc<Shared<I>>,
}

impl<I: Item> Drop for Items<I> {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        // Under the lock, so that the pushing thread is either before its look at the flag or already waiting.
        let _state = self.shared.state();
        self.shared.pusher.notify_all();
    }
}

impl<I: Item> Source for Items<I> {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn properties(&self) -> SourceProperties {
        SourceProperties { is_network: false, once: true, twice: Twice::Conflict, ..SourceProperties::default() }
    }

    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>> {
        let at = match &after {
            None => At::default(),
            Some(cursor) => At::parse(cursor).ok_or_else(|| {
                Error::new(Kind::CursorRefused, "the journal's cursor for the items is damaged")
                    .hint("start over with `resume=\"restart\"`")
            })?,
        };
        let mut state = self.shared.state();
        if state.begun.is_some() {
            return Err(Error::new(Kind::Config, "items from an iterator cannot be listed twice"));
        }
        state.begun = Some(at);
        drop(state);
        self.shared.pusher.notify_all();
        Ok(Box::new(Batches(self.shared.clone())))
    }

    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        Ok(fetch::selected(locators))
    }

    fn fetcher(&self, _lane: usize) -> Result<Box<dyn Fetcher>> {
        Ok(Box::new(fetch::ItemFetcher::new(self.shared.clone())))
    }
}

/// The listing: batches as they are closed.
struct Batches<I: Item>(Arc<Shared<I>>);

impl<I: Item> Listing for Batches<I> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        Box::pin(async {
            loop {
                let changed = self.0.listing.notified();
                {
                    let mut state = self.0.state();
                    if let Some(error) = state.broken.take() {
                        return Err(error);
                    }
                    if let Some(partition) = state.closed.pop_front() {
                        return Ok(Some(partition));
                    }
                    if state.end.is_some() {
                        return Ok(None);
                    }
                }
                changed.await;
            }
        })
    }

    fn end(&mut self) -> ListingEnd {
        ListingEnd { is_whole: self.0.state().end == Some(true), ..ListingEnd::default() }
    }
}
