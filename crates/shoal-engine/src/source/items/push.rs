//! The pushing end: fills batches and closes them, says when to wait, and takes items back. All on one thread, which never
//! waits here but in [`Pusher::wait`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::series::{At, BATCH_BYTES, BATCH_ITEMS, Batch, Item, Known, PLACE, Retries, Shared, State};
use crate::display::escape;
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
    /// Items before this position are not needed.
    skips: u64,
    /// The position of the first item that is listed. Of those before it, some are retried.
    listed: u64,
    /// The shared bounds were looked at since the last batch was closed, and there was room.
    free: bool,
    finished: bool,
}

/// What the shared state says of the next items.
struct Outlook {
    begun: Option<At>,
    skips: u64,
    listed: u64,
    free: bool,
}

impl<I: Item> Pusher<I> {
    pub(super) fn new(shared: Arc<Shared<I>>, memory: u64) -> Pusher<I> {
        Pusher {
            open: batch(&shared, 0, BATCH_ITEMS),
            shared,
            memory,
            // Several must fit, or lanes would wait for the pushing thread and it for them.
            close_bytes: BATCH_BYTES.min(memory / 4),
            held: 0,
            closed: At::default(),
            at: At::default(),
            begun: None,
            open_bytes: 0,
            open_since: None,
            skips: 0,
            listed: 0,
            free: false,
            finished: false,
        }
    }

    /// Whether the next item may come now. Cheap: it takes the lock only once for each batch.
    pub fn room(&mut self) -> Room {
        if self.shared.has_ended() {
            return Room::Ended;
        }
        if self.at.items < self.skips {
            return Room::Free;
        }
        if !self.free {
            let outlook = self.outlook(&self.shared.state());
            (self.begun, self.skips, self.listed, self.free) =
                (outlook.begun, outlook.skips, outlook.listed, outlook.free);
        }
        // One is always admitted: with nothing in work nothing would ever come back.
        if self.free && (self.held <= self.memory || self.held == self.open_bytes) {
            return Room::Free;
        }
        self.shared.drop_unasked(); // that may be what makes it full
        Room::Full
    }

    fn outlook(&self, state: &State<I>) -> Outlook {
        let (at, begun) = (self.at.items, state.begun);
        // What comes before is committed, or failed.
        let listed = match (&state.retries, begun) {
            (Some(Retries { lists: false, .. }), _) => u64::MAX,
            (_, Some(begun)) => begun.items,
            (_, None) => return Outlook { begun, skips: 0, listed: 0, free: false },
        };
        let room = state.waiting < WAITING_MAX;
        let Some(retries) = &state.retries else {
            return Outlook { begun, skips: listed, listed, free: at < listed || room };
        };
        let wanted = retries.wanted.keys().next().copied();
        if listed == u64::MAX && retries.all && wanted.is_none() {
            return Outlook { begun, skips: 0, listed, free: false }; // what is left is to wait for the end
        }
        let undecided = if retries.all { u64::MAX } else { retries.last.map_or(0, |last| last.saturating_add(1)) };
        let skips = listed.min(undecided).min(wanted.unwrap_or(u64::MAX));
        Outlook { begun, skips, listed, free: at < skips || wanted == Some(at) || at >= listed && room }
    }

    /// Waits until there may be room, items were returned or the run is over, but at most `most`.
    pub fn wait(&mut self, most: Duration) {
        let state = self.shared.state();
        let much = self.held > self.memory;
        let nothing_new = |state: &mut State<I>| {
            !self.shared.has_ended() && state.returned.is_empty() && (much || !self.outlook(state).free)
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

    /// Whether the next item, for which there was room, is needed. Then push it; else it has been counted.
    pub fn needs(&mut self, name: &[u8]) -> bool {
        let at = self.at.items;
        if at >= self.listed {
            return true;
        }
        if at >= self.skips {
            let mut state = self.shared.state();
            let Some(retries) = &mut state.retries else { return true };
            let Some(locator) = retries.wanted.get(&at) else { return true };
            if locator[PLACE..] == *name {
                return true;
            }
            let why = format!("the item at its position is now called \"{}\"", escape(name));
            let hint = "`source_id` promises the same items in the same order";
            let found = Err(Error::new(Kind::Vanished, why).hint(hint));
            retries.wanted.remove(&at);
            retries.found.insert(at, found);
            drop(state);
            self.shared.lanes.notify_waiters();
            self.free = false;
        }
        self.count(name);
        false
    }

    /// Pushes an item. Returns true if it closed a batch: a good time for [`Pusher::returned`].
    pub fn push(&mut self, name: &[u8], item: I) -> bool {
        if !self.needs(name) {
            return false;
        }
        let index = self.open.items.len() as u32;
        if self.at.items < self.listed {
            self.push_retried(name, item);
            return true;
        }
        self.count(name);
        let now = if self.shared.is_named { None } else { Some(Instant::now()) };
        let waited =
            |since: Option<Instant>| matches!((now, since), (Some(now), Some(since)) if now - since >= CLOSE_AGE);
        let late = waited(self.open_since);
        self.open.locators.extend_from_slice(&self.open.number.to_be_bytes());
        self.open.locators.extend_from_slice(&index.to_be_bytes());
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

    /// Hands an item to the lane that waits for it.
    fn push_retried(&mut self, name: &[u8], item: I) {
        self.held += cost(&item);
        let mut state = self.shared.state();
        if let Some(retries) = &mut state.retries
            && retries.wanted.remove(&self.at.items).is_some()
        {
            let mut alone = batch(&self.shared, self.at.items, 1);
            alone.items.push(item);
            retries.found.insert(self.at.items, Ok(Arc::new(alone)));
        }
        drop(state);
        self.shared.lanes.notify_waiters();
        self.free = false;
        self.count(name);
    }

    /// Counts an item.
    fn count(&mut self, name: &[u8]) {
        self.at.items += 1;
        self.free &= self.at.items != self.skips; // of the next one, it is not known yet whether it is needed
        if !self.shared.is_named {
            return;
        }
        self.at.names = self.at.names.chain(Key::of([name]));
        let Some(begun) = self.begun.filter(|begun| self.at.items == begun.items) else { return };
        self.closed = begun;
        self.open.number = begun.items;
        if self.at.names != begun.names {
            let why = format!("the first {} items are not those of the earlier call", begun.items);
            self.break_off(why);
        }
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
        let batch = std::mem::replace(&mut self.open, batch(&self.shared, behind.items, BATCH_ITEMS));
        let names = (0..batch.items.len()).map(|index| &batch.locator(index)[PLACE..]);
        let partition = Partition {
            seq,
            key: Key::of(names),
            after: self.closed.cursor(),
            next: Some(behind.cursor()),
            payload: Arc::from(batch.number.to_le_bytes()),
            len: Some(batch.items.len() as u32),
        };
        self.closed = behind;
        (self.open_bytes, self.open_since, self.free) = (0, None, false);
        let mut state = self.shared.state();
        let payload = Arc::downgrade(&partition.payload);
        state.batches.insert(batch.number, Known::Waiting(Arc::new(batch), payload));
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
        self.shared.lanes.notify_waiters();
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
            let mut state = self.shared.state();
            let left = (std::mem::take(&mut state.batches), state.retries.take());
            drop(state);
            drop(left);
            drop(self.returned());
        }
    }
}

fn cost<I: Item>(item: &I) -> u64 {
    item.held() + ITEM_OVERHEAD
}

fn batch<I: Item>(shared: &Arc<Shared<I>>, number: u64, items: usize) -> Batch<I> {
    Batch {
        number,
        items: Vec::with_capacity(items),
        locators: Vec::new(),
        ends: Vec::with_capacity(items),
        home: Arc::downgrade(shared),
    }
}
