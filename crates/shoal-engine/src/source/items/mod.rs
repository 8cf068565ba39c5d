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
//! these. Those among them that failed are retried: the engine selects them in the order of their positions, and the
//! pushing end keeps each as it comes, for the lane that waits for it (`series::Retries`).
//!
//! `series.rs` has what the two ends share, `push.rs` the pushing end, `fetch.rs` that of the lanes.

mod fetch;
mod push;
mod series;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use self::series::{At, Retries, Shared, position};
use super::{BoxFuture, Fetcher, Listing, ListingEnd, Source, SourceProperties};
use crate::error::{Error, Kind, Result};
use crate::fs::random::random;
use crate::partition::{Cursor, Partition};
use crate::session::Twice;
pub use push::{Pusher, Room};
pub use series::{BATCH_BYTES, BATCH_ITEMS, Item};

/// Returns a source of items, and the [`Pusher`] that they are pushed to.
///
/// `name` identifies the series when a run resumes; the caller promises the same items in the same order. Without a
/// name nothing of an earlier run counts. `memory` is the most bytes that pushed items may keep in memory.
pub fn items<I: Item>(name: Option<&str>, memory: u64) -> (Items<I>, Pusher<I>) {
    let identity = match name {
        Some(name) => format!("items:{name}"),
        None => format!("items#{:032x}", u128::from_ne_bytes(random())),
    };
    let shared = Arc::new(Shared::new(name.is_some()));
    let pusher = Pusher::new(shared.clone(), memory);
    (Items { identity, shared }, pusher)
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
        let (once, in_turn) = (true, self.shared.is_named);
        SourceProperties {
            is_network: false,
            once,
            in_turn,
            updates: false,
            twice: Twice::Conflict,
            ..SourceProperties::default()
        }
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

    fn begin_retries(&self, lists: bool) {
        self.shared.state().retries = Some(Retries::new(lists));
    }

    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        let partition = fetch::selected(locators);
        if let Some(retries) = &mut self.shared.state().retries {
            // One that comes before the last has come before: it failed again, and its data is gone.
            for (at, locator) in locators.iter().filter_map(|locator| Some((position(locator)?, locator))) {
                if !retries.all && retries.last.is_none_or(|last| last < at) {
                    retries.last = Some(at);
                    retries.wanted.insert(at, locator.clone());
                }
            }
            retries.selected.extend(retries.last.map(|last| (Arc::downgrade(&partition.payload), last)));
        }
        self.shared.pusher.notify_all();
        Ok(partition)
    }

    fn end_retries(&self) {
        if let Some(retries) = &mut self.shared.state().retries {
            retries.all = true;
        }
        self.shared.pusher.notify_all();
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
