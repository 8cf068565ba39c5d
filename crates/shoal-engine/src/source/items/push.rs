//! The pushing end: fills batches and closes them, says when to wait, and takes items back. All on one thread, which never
//! waits here but in [`Pusher::wait`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::series::{At, BATCH_BYTES, BATCH_ITEMS, Batch, Item, Known, PLACE, Shared, State};
use crate::error::{Error, Kind};
use crate::partition::{Key, Partition};

/// A batch of an unnamed series is closed at this age, so that slow items are saved soon: five a second cost nothing.
const CLOSE_AGE: Duration = Duration::from_millis(200);
/// Batches that may wait for a lane: 25,600 small items, half a second of work.
const WAITING_MAX: usize = 256;
/// What an item costs beside what it holds: its place, its name, what an interpreter keeps for it.
const ITEM_OVERHEAD: u64 = 256;

/// Whether the next item can be pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Yes.
    Free,
    /// Not now: the run has not begun, or the buffer is full. Call again after [`Pusher::wait`].
    Full,
    /// The run is over.
    Ended,
}

/// Takes the items. If it is dropped without [`Pusher::finish`], the series counts as interrupted.
pub struct Pusher<I: Item> {
    shared: Arc<Shared<I>>,
    named: bool,
    memory: u64,
    close_bytes: u64,
    /// Bytes of items that were pushed and have not come back.
    held: u64,
    /// Behind the last closed batch.
    closed: At,
    /// Behind the last item that was pushed.
    at: At,
    /// Where the run begins, once it is known.
    begun: Option<At>,
    open: Batch<I>,
    open_bytes: u64,
    open_since: Option<Instant>,
    /// The shared bounds were looked at since the last batch was closed, and there was room.
    free: bool,
    finished: bool,
}

impl<I: Item> Pusher<I> {
    pub(super) fn new(shared: Arc<Shared<I>>, named: bool, memory: u64) -> Pusher<I> {
        Pusher {
            open: batch(&shared, 0),
            shared,
            named,
            memory,
            // Several must fit, or lanes would wait for the pushing thread and it for them.
            close_bytes: BATCH_BYTES.min(memory / 4),
            held: 0,
            closed: At::default(),
            at: At::default(),
            begun: None,
            open_bytes: 0,
            open_since: None,
            free: false,
            finished: false,
        }
    }

    /// Whether an item may be pushed now. Cheap: it takes the lock only once for each batch.
    pub fn room(&mut self) -> Room {
        if self.shared.has_ended() {
            return Room::Ended;
        }
        if !self.free {
            let state = self.shared.state();
            self.begun = state.begun;
            self.free = self.begun.is_some() && state.waiting < WAITING_MAX;
        }
        // One is always admitted: with nothing in work nothing would ever come back.
        if self.free && (self.held <= self.memory || self.held == self.open_bytes) { Room::Free } else { Room::Full }
    }

    /// Waits until there may be room, items were returned or the run is over, but at most `most`.
    pub fn wait(&mut self, most: Duration) {
        let state = self.shared.state();
        let (begun, much) = (self.begun.is_some(), self.held > self.memory);
        let nothing_new = |state: &mut State<I>| {
            !self.shared.has_ended()
                && if !begun {
                    state.begun.is_none()
                } else {
                    state.returned.is_empty() && (much || state.waiting >= WAITING_MAX)
                }
        };
        drop(self.shared.pusher.wait_timeout_while(state, most, nothing_new));
    }

    /// Waits until items were returned or the run is over, but at most `most`.
    pub fn wait_for_end(&mut self, most: Duration) {
        let going = |state: &mut State<I>| !self.shared.has_ended() && state.returned.is_empty();
        drop(self.shared.pusher.wait_timeout_while(self.shared.state(), most, going));
    }

    /// Whether the run is over. Then it does not use items any more.
    pub fn has_ended(&self) -> bool {
        self.shared.has_ended()
    }

    /// Returns items that are no longer needed, to be dropped here. Call it after each [`Pusher::push`] that returns
    /// true, and after [`Pusher::wait`].
    #[must_use]
    pub fn returned(&mut self) -> Vec<I> {
        let items = std::mem::take(&mut self.shared.state().returned);
        self.held -= items.iter().map(cost).sum::<u64>();
        items
    }

    /// Pushes an item. Returns true if it closed a batch: a good time for [`Pusher::returned`].
    pub fn push(&mut self, name: &[u8], item: I) -> bool {
        if self.passes_over(name) {
            return false;
        }
        let now = if self.named { None } else { Some(Instant::now()) };
        let waited =
            |since: Option<Instant>| matches!((now, since), (Some(now), Some(since)) if now - since >= CLOSE_AGE);
        let late = waited(self.open_since);
        let index = self.open.items.len() as u32;
        self.open.locators.extend_from_slice(&self.open.number.to_le_bytes());
        self.open.locators.extend_from_slice(&index.to_le_bytes());
        self.open.locators.extend_from_slice(name);
        self.open.ends.push(self.open.locators.len());
        let bytes = cost(&item);
        self.open.items.push(item);
        self.open_bytes += bytes;
        self.held += bytes;
        self.open_since = self.open_since.or(now);
        let full = self.open.items.len() >= BATCH_ITEMS || self.open_bytes >= self.close_bytes || late;
        if full {
            self.close();
        }
        full
    }

    /// Counts an item; true for one that an earlier run has done.
    fn passes_over(&mut self, name: &[u8]) -> bool {
        self.at.items += 1;
        if !self.named {
            return false;
        }
        self.at.names = self.at.names.chain(Key::of([name]));
        let Some(begun) = self.begun.filter(|begun| self.at.items <= begun.items) else { return false };
        if self.at.items == begun.items {
            self.closed = begun;
            self.open.number = begun.seq;
            if self.at.names != begun.names {
                let why = format!("the first {} items are not those of the earlier call", begun.items);
                self.break_off(why);
            }
        }
        true
    }

    fn break_off(&self, why: String) {
        let hint = "`source_id` promises the same items in the same order: pass another one, or start over with \
        `resume=\"restart\"`";
        self.shared.state().broken.get_or_insert(Error::new(Kind::CursorRefused, why).hint(hint));
        self.shared.listing.notify_one();
    }

    fn close(&mut self) {
        let seq = self.closed.seq;
        let behind = At { seq: seq + 1, ..self.at };
        let batch = std::mem::replace(&mut self.open, batch(&self.shared, behind.seq));
        let names = (0..batch.items.len()).map(|index| &batch.locator(index)[PLACE..]);
        let partition = Partition {
            seq,
            key: Key::of(names),
            after: self.closed.cursor(),
            next: Some(behind.cursor()),
            payload: Arc::from(seq.to_le_bytes()),
            len: Some(batch.items.len() as u32),
        };
        self.closed = behind;
        (self.open_bytes, self.open_since, self.free) = (0, None, false);
        let mut state = self.shared.state();
        state.batches.insert(seq, Known::Waiting(Arc::new(batch)));
        state.waiting += 1;
        state.closed.push_back(partition);
        drop(state);
        self.shared.listing.notify_one();
    }

    /// Ends the series. If `whole` is false, there were more items: the run saves those that were pushed and stays
    /// incomplete.
    pub fn finish(&mut self, whole: bool) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        if !self.open.items.is_empty() {
            self.close();
        }
        if let Some(begun) = self.begun.filter(|begun| whole && self.at.items < begun.items) {
            let why = format!("there are only {} items, but the earlier call saved {}", self.at.items, begun.items);
            self.break_off(why);
        }
        self.shared.state().end = Some(whole);
        self.shared.listing.notify_one();
    }

    /// Returns how many items were pushed, including those that an earlier run has saved.
    pub fn pushed(&self) -> u64 {
        self.at.items
    }
}

impl<I: Item> Drop for Pusher<I> {
    fn drop(&mut self) {
        self.finish(false);
        if self.shared.has_ended() {
            // What no lane came to is dropped here, like everything else.
            let left = std::mem::take(&mut self.shared.state().batches);
            drop(left);
            drop(self.returned());
        }
    }
}

fn cost<I: Item>(item: &I) -> u64 {
    item.held() + ITEM_OVERHEAD
}

fn batch<I: Item>(shared: &Arc<Shared<I>>, number: u64) -> Batch<I> {
    Batch {
        number,
        items: Vec::with_capacity(BATCH_ITEMS),
        locators: Vec::new(),
        ends: Vec::with_capacity(BATCH_ITEMS),
        home: Arc::downgrade(shared),
    }
}
