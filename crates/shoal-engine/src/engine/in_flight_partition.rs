//! A partition that has been handed out: shared by the lanes that work on parts of it, complete when all are done.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

use crate::error::HostId;
use crate::journal::{Done, Due, Failed, Retried};
use crate::part::Seen;
use crate::partition::Partition;
use crate::poison::ignore_poison;
use crate::report::{Skipped, Skips};
use crate::sink::{Mode, Sealed};
use crate::source::Entries;

/// Where a partition came from, and so where its outcome goes.
pub(crate) enum Origin {
    /// The listing.
    Listed,
    /// Deferred or failed objects that are tried again, in the order of the partition's entries.
    Retried(Vec<Due>),
}

/// What one lane did with its part of a partition.
#[derive(Default)]
pub(crate) struct Tally {
    pub written: u64,
    pub skips: Skips,
    pub bytes: u64,
    pub failures: Vec<Failed>,
    /// What was left out without being asked for.
    pub left_out: Vec<Skipped>,
    /// Only for `Origin::Retried`: outcomes by name, since the journal holds these one by one.
    pub retried: Vec<Retried>,
    /// The same: those that were not begun, and wait as before.
    pub returned: Vec<Box<[u8]>>,
}

/// A partition all of whose objects are settled, ready for the barrier.
pub(crate) struct Complete {
    /// Number under which the sink knows it: `Partition::seq`, or one from the far end for retried ones.
    pub seq: u64,
    /// `None` for retried ones.
    pub done: Option<Done>,
    pub retried: Vec<Retried>,
    pub returned: Vec<Box<[u8]>>,
    pub sealed: Vec<Sealed>,
    pub objects: u64,
    pub bytes: u64,
}

impl Complete {
    /// How many of its objects are deferred.
    pub fn deferred(&self) -> u64 {
        let failed = self.done.iter().flat_map(|done| &done.failures);
        let again = self.retried.iter().filter_map(|retried| retried.outcome.as_ref().err());
        failed.chain(again).filter(|failed| failed.due_ms.is_some()).count() as u64
    }

    /// Whether it settles retries, or defers objects.
    pub fn has_retries(&self) -> bool {
        self.done.is_none() || self.deferred() > 0
    }
}

struct State {
    /// Lanes working on it.
    parts: u32,
    closed: bool,
    tally: Tally,
    sealed: Vec<Sealed>,
    seen: Seen,
}

/// A partition in the queue or in work.
pub(crate) struct InFlightPartition {
    pub partition: Partition,
    pub mode: Mode,
    pub origin: Origin,
    /// All of it is fetched from this host.
    pub host: Option<HostId>,
    /// One lane fetches all of it.
    pub is_in_turn: bool,
    next: AtomicU32,
    len: AtomicU32,
    /// The first of the lanes that have taken something of it.
    first_taker: AtomicUsize,
    /// It waits for its host, and does not count as handed out.
    set_aside: AtomicBool,
    state: Mutex<State>,
}

/// `len` of a partition that no lane has opened yet, where the listing did not say.
const UNKNOWN: u32 = u32::MAX;

impl InFlightPartition {
    pub fn new(partition: Partition, mode: Mode, origin: Origin, host: Option<HostId>) -> InFlightPartition {
        let len = AtomicU32::new(partition.len.unwrap_or(UNKNOWN));
        let state =
            State { parts: 0, closed: false, tally: Tally::default(), sealed: Vec::new(), seen: Seen::default() };
        let first_taker = AtomicUsize::new(usize::MAX);
        InFlightPartition {
            partition,
            mode,
            origin,
            host,
            is_in_turn: false,
            next: AtomicU32::new(0),
            len,
            first_taker,
            set_aside: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// The same, for one lane.
    pub fn in_turn(self, is_in_turn: bool) -> InFlightPartition {
        InFlightPartition { is_in_turn, ..self }
    }

    /// A lane wants a part; false when nothing is left to take.
    pub fn join(&self) -> bool {
        let mut state = self.state();
        if state.closed || self.next.load(Relaxed) >= self.len.load(Relaxed) {
            // An empty partition still needs one lane that closes it.
            let empty = !state.closed && state.parts == 0 && self.len.load(Relaxed) == 0;
            if !empty {
                return false;
            }
        }
        state.parts += 1;
        true
    }

    /// Whether one of the first `lanes` lanes takes from it. That one has room for what comes next.
    pub fn is_taken_by_first(&self, lanes: usize) -> bool {
        self.first_taker.load(Relaxed) < lanes
    }

    /// What a lane found on opening. True for the first to say the number of objects where the listing had not.
    pub fn opened(&self, entries: &dyn Entries) -> bool {
        let is_first = self.len.swap(entries.len(), Relaxed) == UNKNOWN;
        if is_first {
            self.state().seen = entries.seen(); // the listing of a part never says the number
        }
        is_first
    }

    /// The next entry that no lane has taken, for lane `lane`.
    pub fn take(&self, lane: usize) -> Option<u32> {
        if self.first_taker.load(Relaxed) > lane {
            self.first_taker.fetch_min(lane, Relaxed);
        }
        let len = self.len.load(Relaxed);
        if self.next.load(Relaxed) >= len {
            return None;
        }
        let index = self.next.fetch_add(1, Relaxed);
        (index < len).then_some(index)
    }

    /// The entry that `take` would probably give, to look at before taking it.
    pub fn peek(&self) -> Option<u32> {
        let index = self.next.load(Relaxed);
        (index < self.len.load(Relaxed)).then_some(index)
    }

    /// Entries that no lane has taken.
    pub fn untaken(&self) -> u32 {
        match self.len.load(Relaxed) {
            UNKNOWN => 1,
            len => len.saturating_sub(self.next.load(Relaxed)),
        }
    }

    /// Whether it waits for its host.
    pub fn is_set_aside(&self) -> bool {
        self.set_aside.load(Relaxed)
    }

    /// Says whether it waits for its host. Returns what was said before.
    pub fn set_aside(&self, aside: bool) -> bool {
        self.set_aside.swap(aside, Relaxed)
    }

    /// Objects in it; 1 where that is not known yet.
    pub fn len(&self) -> u64 {
        self.known_len().unwrap_or(1)
    }

    /// Objects in it, where that is known.
    pub fn known_len(&self) -> Option<u64> {
        match self.len.load(Relaxed) {
            UNKNOWN => None,
            len => Some(u64::from(len)),
        }
    }

    /// A lane has settled its part. The last one gets the whole.
    pub fn leave(&self, tally: Tally, sealed: Sealed) -> Option<Complete> {
        let mut state = self.state();
        let sum = &mut state.tally;
        sum.written += tally.written;
        sum.skips.join(&tally.skips);
        sum.bytes += tally.bytes;
        sum.failures.extend(tally.failures);
        sum.left_out.extend(tally.left_out);
        sum.retried.extend(tally.retried);
        sum.returned.extend(tally.returned);
        state.sealed.push(sealed);
        state.parts -= 1;
        if state.parts > 0 || self.untaken() > 0 {
            return None;
        }
        state.closed = true;
        let tally = std::mem::take(&mut state.tally);
        let sealed = std::mem::take(&mut state.sealed);
        Some(self.complete(tally, sealed, state.seen))
    }

    fn complete(&self, tally: Tally, sealed: Vec<Sealed>, seen: Seen) -> Complete {
        let objects = self.len();
        let bytes = sealed.iter().map(|part| part.bytes).sum();
        let done = matches!(self.origin, Origin::Listed).then(|| Done {
            seq: self.partition.seq,
            key: self.partition.key,
            listed: objects,
            written: tally.written,
            skips: tally.skips,
            bytes: tally.bytes,
            failures: tally.failures,
            left_out: tally.left_out,
            seen,
        });
        Complete {
            seq: self.partition.seq,
            done,
            retried: tally.retried,
            returned: tally.returned,
            sealed,
            objects,
            bytes,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        ignore_poison(self.state.lock())
    }
}
