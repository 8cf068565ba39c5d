//! The lanes' end: opens batches, asks items for their bytes and hands these to the lane.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use super::super::in_pieces::in_pieces;
use super::super::locators::{Located, entry};
use super::super::{Body, Entries, Entry, Fetcher, Job, Lane, LocalFuture, Take, WHOLE_MAX, locators};
use super::series::{Batch, Item, Known, PLACE, Shared, position};
use crate::display::escape;
use crate::error::Result;
use crate::object::{ObjectMeta, Payload};
use crate::partition::Partition;

/// A large item is written in pieces of this many bytes: a stop is noticed in between.
const PIECE: usize = 1 << 20;
/// What a lane keeps for the next item of the memory in which the last one was made.
const SCRATCH_KEPT: usize = 4 << 20;

/// A partition of items by their locators; their data is gone.
pub(super) fn selected(locators: &[Box<[u8]>]) -> Partition {
    locators::partition(b"", locators)
}

pub(super) struct ItemFetcher<I: Item> {
    shared: Arc<Shared<I>>,
    /// What this lane has open.
    open: RefCell<Vec<Weak<Batch<I>>>>,
    scratch: Cell<Vec<u8>>,
}

impl<I: Item> ItemFetcher<I> {
    pub fn new(shared: Arc<Shared<I>>) -> ItemFetcher<I> {
        ItemFetcher { shared, open: RefCell::default(), scratch: Cell::default() }
    }

    fn entries(&self, partition: &Partition) -> Rc<dyn Entries> {
        let len = partition.len.unwrap_or(0);
        let Ok(number) = <[u8; 8]>::try_from(&*partition.payload) else {
            return Rc::new(Located { locators: locators::parse(&partition.payload), name: PLACE });
        };
        match self.batch(u64::from_le_bytes(number)) {
            Some(batch) => {
                let mut open = self.open.borrow_mut();
                open.retain(|batch| batch.strong_count() > 0);
                open.push(Arc::downgrade(&batch));
                Rc::new(Opened(batch))
            }
            // The lanes that had it open have taken all of it between this one's joining them and now.
            None => Rc::new(Taken(len)),
        }
    }

    fn batch(&self, number: u64) -> Option<Arc<Batch<I>>> {
        let mut state = self.shared.state();
        let known = state.batches.get_mut(&number)?;
        let batch = match known {
            Known::Open(batch) => return batch.upgrade(),
            Known::Waiting(batch, _) => batch.clone(),
        };
        *known = Known::Open(Arc::downgrade(&batch));
        state.waiting -= 1;
        drop(state);
        self.shared.pusher.notify_all();
        Some(batch)
    }

    /// An item of a batch that this lane has open.
    fn find(&self, locator: &[u8]) -> Option<(Arc<Batch<I>>, usize)> {
        let at = position(locator)?;
        let open = self.open.borrow();
        open.iter().filter_map(Weak::upgrade).find_map(|batch| {
            let index = usize::try_from(at.checked_sub(batch.number)?).ok()?;
            (index < batch.items.len() && batch.locator(index) == locator).then_some((batch, index))
        })
    }

    async fn answer(&self, lane: &dyn Lane, job: Job) {
        let locator = job.entry().locator;
        let found = match self.find(locator) {
            Some(found) => Ok(found),
            None => self.shared.retried(locator).await.map(|batch| (batch, 0)),
        };
        let (batch, index) = match found {
            Ok(found) => found,
            Err(error) => {
                let name = escape(job.entry().name);
                return lane.failed(job, error.on(&name));
            }
        };
        let mut scratch = self.scratch.take();
        match batch.items[index].data(&mut scratch) {
            Ok(data) => write(lane, job, data).await,
            Err(error) => {
                let name = escape(job.entry().name);
                lane.failed(job, error.on(&name));
            }
        }
        if scratch.capacity() <= SCRATCH_KEPT {
            scratch.clear();
            self.scratch.set(scratch);
        }
    }
}

async fn write(lane: &dyn Lane, job: Job, data: &[u8]) {
    let meta = ObjectMeta { size: Some(data.len() as u64), ..ObjectMeta::default() };
    if data.len() <= WHOLE_MAX {
        lane.whole(job, &meta, Payload::Borrowed(data));
        return;
    }
    let write = async |body: &mut Body| {
        for piece in data.chunks(PIECE) {
            body.write(piece)?;
            tokio::task::yield_now().await;
        }
        Ok(())
    };
    in_pieces(lane, job, &meta, write).await;
}

impl<I: Item> Fetcher for ItemFetcher<I> {
    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>> {
        let entries = self.entries(partition);
        Box::pin(async move { Ok(entries) })
    }

    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            loop {
                match lane.take() {
                    Take::Stop => return Ok(()),
                    Take::Wait => lane.wake().await,
                    Take::Job(job) => {
                        self.answer(&*lane, job).await;
                        tokio::task::yield_now().await;
                    }
                }
            }
        })
    }
}

/// A batch on the lanes that work on it.
struct Opened<I: Item>(Arc<Batch<I>>);

impl<I: Item> Entries for Opened<I> {
    fn len(&self) -> u32 {
        self.0.items.len() as u32
    }

    fn get(&self, index: u32) -> Entry<'_> {
        entry(self.0.locator(index as usize), PLACE)
    }
}

/// A batch of which nothing is left to take.
struct Taken(u32);

impl Entries for Taken {
    fn len(&self) -> u32 {
        self.0
    }

    fn get(&self, _index: u32) -> Entry<'_> {
        entry(&[], PLACE)
    }
}
