//! The bounded, ordered hand-out of partitions to lanes.
//!
//! Three bounds, so that memory stays flat and a kill costs about one batch (more bytes where objects are large, since
//! what lanes have begun is committed by partition):
//! - partitions listed and waiting (`AHEAD`, and with many hosts `AHEAD_OF_MANY`): the listing waits
//! - partitions listed and not behind the frontier (`WINDOW_MAX`): the listing waits
//! - objects handed out and not committed (the sink's window): lanes wait, the committer hurries
//!
//! Nothing is handed out above the journal's high-water mark: on resume, what lies below it may have left files behind.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;

use super::in_flight_partition::{InFlightPartition, Origin};
use super::ready::Ready;
use crate::error::HostId;
use crate::poison::ignore_poison;
use crate::sink::SinkProperties;

/// How far the listing may be ahead of the lanes.
#[derive(Clone, Copy)]
struct Ahead {
    /// Partitions that wait for a lane.
    partitions: usize,
    /// Bytes of their names.
    bytes: usize,
    /// Partitions of objects to try again.
    again: usize,
    /// How many of these objects are read at once.
    again_objects: usize,
}

/// 2.5 s of work at 40,000 objects a second.
const AHEAD: Ahead = Ahead { partitions: 1024, bytes: 16 << 20, again: 4, again_objects: 100 };
/// With many hosts, the partitions of slow and paused ones wait here: 1.6 million objects that the others may overtake. More
/// of those to try again are read at once, so that few partitions have those of one host.
const AHEAD_OF_MANY: Ahead = Ahead { partitions: 16_384, bytes: 128 << 20, again: 256, again_objects: 5_000 };
/// Partitions to try again that are looked at, to find one of a host that takes a request.
const AGAIN_LOOKS: usize = 64;
/// Partitions between the frontier and the end of what is listed: 6.5 million objects may overtake a slow one.
const WINDOW_MAX: usize = 65_536;
/// The mark is asked to move when the listing comes this close to it …
const MARK_SLACK: u64 = 256;
/// … and moves this far ahead: one durable write per 100,000 objects.
const MARK_STEP: u64 = 1024;

struct State {
    ready: Ready,
    /// Objects tried again go first: they have waited longest.
    again: VecDeque<Arc<InFlightPartition>>,
    /// Handed out and not complete, by their number.
    open: BTreeMap<u64, Arc<InFlightPartition>>,
    /// Objects and bytes handed out and not committed.
    out_objects: u64,
    out_bytes: u64,
    /// Of these, from the listing (objects tried again are counted as deferred by the journal).
    out_listed: u64,
    mark: u64,
    mark_asked: u64,
    listed_all: bool,
    finished: bool,
    /// A lane waits although partitions are ready: the batch should close now.
    starving: bool,
    /// Some lane was told to wait since lanes were last woken.
    waiting: bool,
    window: usize,
    /// Partitions handed out and not committed: one without objects is work as well.
    out: usize,
}

impl State {
    fn take_up(&mut self, open: &InFlightPartition) {
        if open.set_aside(false) {
            self.out_objects += open.len();
        }
    }
}

/// Shared by the listing, the lanes and the committer.
pub(crate) struct Queue {
    state: Mutex<State>,
    writing: SinkProperties,
    ahead: Ahead,
    /// The listing waits here.
    room: Condvar,
    /// The committer waits here while complete partitions gather.
    quiet: Condvar,
    /// Lanes wait here, one each.
    lanes: Vec<Notify>,
}

/// The lane that asks for a partition.
pub(crate) struct Taker<'a> {
    /// It has nothing at all to do, so that it may pass the batch's bound in bytes.
    pub is_idle: bool,
    /// It may take a share of a partition in work.
    pub shares: bool,
    /// Whether it cannot request anything from this host now.
    pub passes_over: &'a dyn Fn(HostId) -> bool,
    /// Whether it works on this partition.
    pub has: &'a dyn Fn(&Arc<InFlightPartition>) -> bool,
}

/// What a lane gets.
pub(crate) enum Dequeued {
    Partition(Arc<InFlightPartition>),
    /// Nothing now; a wake-up comes.
    Wait,
    /// Nothing any more.
    Finished,
}

impl Queue {
    pub fn new(lanes: usize, mark: u64, writing: SinkProperties, many_hosts: bool) -> Queue {
        let state = State {
            ready: Ready::default(),
            again: VecDeque::new(),
            open: BTreeMap::new(),
            out_objects: 0,
            out: 0,
            out_bytes: 0,
            out_listed: 0,
            mark,
            mark_asked: mark,
            listed_all: false,
            finished: false,
            starving: false,
            waiting: false,
            window: 0,
        };
        Queue {
            state: Mutex::new(state),
            writing,
            ahead: if many_hosts { AHEAD_OF_MANY } else { AHEAD },
            room: Condvar::new(),
            quiet: Condvar::new(),
            lanes: (0..lanes).map(|_| Notify::new()).collect(),
        }
    }

    /// Waits until the listing may go on, at most `wait`; true when there is room.
    pub fn wait_for_room(&self, wait: Duration) -> bool {
        let state = self.state();
        let full = |state: &mut State| {
            !state.finished
                && (state.ready.len() >= self.ahead.partitions
                    || state.ready.bytes() >= self.ahead.bytes
                    || state.window >= WINDOW_MAX)
        };
        let (mut state, _) = ignore_poison(self.room.wait_timeout_while(state, wait, full));
        !full(&mut state)
    }

    /// Adds a listed partition; the mark that should be written soon, if the old one comes close.
    pub fn push(&self, open: InFlightPartition) -> Option<u64> {
        let mut state = self.state();
        let seq = open.partition.seq;
        state.ready.push(Arc::new(open));
        let mark = (seq + MARK_SLACK >= state.mark_asked).then_some(seq + MARK_STEP);
        state.mark_asked = mark.unwrap_or(state.mark_asked);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        if waiting {
            self.wake_lanes();
        }
        mark
    }

    /// Adds objects to try again.
    pub fn push_again(&self, open: InFlightPartition) {
        self.state().again.push_back(Arc::new(open));
        self.wake_lanes();
    }

    /// How many objects to try again it takes now; `None`: enough wait for a lane.
    pub fn takes_again(&self) -> Option<usize> {
        (self.state().again.len() < self.ahead.again).then_some(self.ahead.again_objects)
    }

    /// The journal holds this mark now.
    pub fn set_mark(&self, mark: u64) {
        let mut state = self.state();
        state.mark = state.mark.max(mark);
        drop(state);
        self.wake_lanes();
    }

    /// A partition for a lane: one tried again, the next listed one, or a share of one in work.
    pub fn take(&self, lane: &Taker<'_>) -> Dequeued {
        let mut state = self.state();
        let handout = self.take_from(&mut state, lane);
        state.waiting |= matches!(handout, Dequeued::Wait);
        handout
    }

    fn take_from(&self, state: &mut State, lane: &Taker<'_>) -> Dequeued {
        if state.finished {
            return Dequeued::Finished;
        }
        let can_ask = |open: &Arc<InFlightPartition>| lane.can_ask(open);
        if let Some(at) = state.again.iter().take(AGAIN_LOOKS).position(can_ask)
            && let Some(open) = state.again.remove(at)
        {
            return Self::hand_out(state, open);
        }
        // Those that wait for their host have other turns.
        let passed = state.again.len().min(AGAIN_LOOKS);
        state.again.rotate_left(passed);
        if let Some(next) = state.ready.first(lane.passes_over).cloned() {
            let SinkProperties { window_objects, window_bytes, .. } = self.writing;
            let batch_full = state.out_objects > 0
                && (state.out_objects + next.len() > window_objects
                    || state.out_bytes >= window_bytes && !lane.is_idle);
            if next.partition.seq >= state.mark {
                return self.share(state, lane);
            }
            if batch_full {
                state.starving = true;
                return self.share(state, lane);
            }
            if let Some(open) = state.ready.take(&next) {
                if state.ready.len() <= self.ahead.partitions / 2 {
                    // Not for each one: the listing would run in turn with the lanes, a partition at a time.
                    self.room.notify_all();
                }
                return Self::hand_out(state, open);
            }
        }
        // The listing waits too: nothing comes before something is committed.
        state.starving |= state.ready.is_empty() && state.window >= WINDOW_MAX;
        self.share(state, lane)
    }

    fn hand_out(state: &mut State, open: Arc<InFlightPartition>) -> Dequeued {
        if !open.join() {
            return Dequeued::Wait; // cannot happen: no other lane knows it yet
        }
        state.out_objects += open.len();
        state.out += 1;
        if matches!(open.origin, Origin::Listed) {
            state.out_listed += open.len();
        }
        state.open.insert(open.partition.seq, open.clone());
        Dequeued::Partition(open)
    }

    fn share(&self, state: &State, lane: &Taker<'_>) -> Dequeued {
        if !lane.shares || !self.writing.shares {
            return Dequeued::Wait;
        }
        let is_free = |open: &&Arc<InFlightPartition>| !open.is_in_turn && !open.is_set_aside() && open.untaken() > 0;
        let others = state.open.values().filter(is_free).filter(|open| lane.can_ask(open) && !(lane.has)(open));
        match others.max_by_key(|open| open.untaken()) {
            Some(open) if open.join() => Dequeued::Partition(open.clone()),
            _ => Dequeued::Wait,
        }
    }

    /// A partition of unknown length turned out to hold `len` objects (it was counted as one).
    pub fn opened(&self, len: u32) {
        let mut state = self.state();
        state.out_objects = state.out_objects + u64::from(len) - 1;
        state.out_listed = state.out_listed + u64::from(len) - 1;
    }

    /// A partition waits for its host, perhaps for long: others are handed out meanwhile, as if it were not.
    pub fn set_aside(&self, open: &InFlightPartition) {
        let mut state = self.state();
        if !open.set_aside(true) {
            state.out_objects -= open.len();
        }
    }

    /// It does not wait any more.
    pub fn take_up(&self, open: &InFlightPartition) {
        self.state().take_up(open);
    }

    /// A partition is complete and on its way to the committer.
    pub fn completed(&self, open: &Arc<InFlightPartition>, bytes: u64) {
        let mut state = self.state();
        state.take_up(open);
        state.open.remove(&open.partition.seq);
        state.out_bytes += bytes;
        if wants_commit(&state) {
            self.quiet.notify_one();
        }
    }

    /// Waits while complete partitions gather, at most this long; not when nothing else will come.
    pub fn gather(&self, wait: Duration) {
        let state = self.state();
        let _ = self.quiet.wait_timeout_while(state, wait, |state| !wants_commit(state));
    }

    /// Partitions were committed.
    pub fn committed(&self, partitions: usize, objects: u64, listed: u64, bytes: u64, window: usize) {
        let mut state = self.state();
        state.out = state.out.saturating_sub(partitions);
        state.out_listed = state.out_listed.saturating_sub(listed);
        state.out_objects = state.out_objects.saturating_sub(objects);
        state.out_bytes = state.out_bytes.saturating_sub(bytes);
        state.starving = false;
        state.window = window;
        drop(state);
        self.room.notify_all();
        self.wake_lanes();
    }

    /// The listing has ended.
    pub fn listed_all(&self) {
        self.state().listed_all = true;
    }

    /// Whether the listing has ended.
    pub fn is_listed_all(&self) -> bool {
        self.state().listed_all
    }

    /// Whether the listing has ended and nothing waits for a lane.
    pub fn is_empty(&self) -> bool {
        let state = self.state();
        state.listed_all && state.ready.is_empty() && state.again.is_empty()
    }

    /// Whether the listing has ended and everything handed out is committed, but for `held` partitions that the sink holds.
    pub fn is_drained_but(&self, held: usize) -> bool {
        let state = self.state();
        state.listed_all
            && state.ready.is_empty()
            && state.again.is_empty()
            && state.out == held
            && state.open.is_empty()
    }

    /// Whether the batch should close although it is small: nothing else can be handed out, or nothing else is there.
    pub fn wants_commit(&self) -> bool {
        wants_commit(&self.state())
    }

    /// Whether nothing can be handed out before something is committed.
    pub fn is_starving(&self) -> bool {
        self.state().starving
    }

    /// Nothing will come any more: lanes end, the listing stops waiting.
    pub fn finish(&self) {
        self.state().finished = true;
        self.room.notify_all();
        self.wake_lanes();
    }

    /// Whether nothing will come any more.
    pub fn is_finished(&self) -> bool {
        self.state().finished
    }

    /// Resolves when `take` may answer otherwise. Made before `take` is asked, so that no wake-up is missed.
    pub fn changed(&self, lane: usize) -> tokio::sync::futures::Notified<'_> {
        self.lanes[lane].notified()
    }

    /// Wakes every lane.
    pub fn wake_lanes(&self) {
        for lane in &self.lanes {
            lane.notify_one();
        }
    }

    /// Objects listed and not committed, counted anew from what is there: the other side of the balance. A partition that
    /// no lane has opened has none yet, where the listing did not say how many objects it has.
    pub fn uncommitted(&self) -> u64 {
        let state = self.state();
        let counted_as_one =
            |open: &&Arc<InFlightPartition>| matches!(open.origin, Origin::Listed) && open.known_len().is_none();
        let unknown = state.open.values().filter(counted_as_one).count() as u64;
        state.out_listed - unknown + state.ready.objects()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        ignore_poison(self.state.lock())
    }
}

impl Taker<'_> {
    fn can_ask(&self, open: &InFlightPartition) -> bool {
        open.host.is_none_or(|host| !(self.passes_over)(host))
    }
}

fn wants_commit(state: &State) -> bool {
    state.starving || state.listed_all && state.ready.is_empty() && state.again.is_empty() && state.open.is_empty()
}
