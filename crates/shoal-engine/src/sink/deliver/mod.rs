//! `DeliverSink`: delivers objects to a consumer in this process, many at a time, and throttles the lanes while it is
//! slow.
//!
//! Each lane fills its own chunk. The consumer receives full chunks, and takes a half-filled one when there are no
//! others. So lanes share nothing for each object, and no object waits for later ones. Read-ahead is bounded in bytes
//! (`Deliver::memory`); chunks that the consumer has taken do not count.
//!
//! Here: the sink and the consumer's end of it. `chunk.rs`: the memory. `writer.rs`: a lane's writer. `order.rs`:
//! objects in the order of the listing. Not here: Python, Arrow.

mod chunk;
mod order;
mod writer;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::{Flush, Flushed, Place, Sealed, Sink, SinkProperties, SinkState, Start, Started, Wake, Writer};
use crate::error::{Error, Kind, Result};
use crate::key::ObjectKey;
use crate::name::Name;
use crate::poison::ignore_poison;

pub use chunk::{Buffer, Chunk};
use chunk::{Builder, Pool};
use order::Order;
use writer::DeliverWriter;

/// What lanes may run ahead at first, and how many chunks at least. 2,000 files of 1 MB, one by one, against a plain loop:
/// 1.0 × with 32 MiB, 1.3 × with 8 MiB.
const AHEAD: u64 = 8 << 20;
const AHEAD_CHUNKS: u64 = 4;
const WAKE_AT: u64 = 1 << 20;
/// How long the consumer waits for a full chunk before it takes a half-filled one: some hundred small objects' time, so that
/// a fast consumer does not take them one by one.
const PATIENCE: Duration = Duration::from_millis(1);
/// How long it waits at the most before it looks again.
const PATIENCE_MAX: Duration = Duration::from_millis(16);

/// After so long without anything to take, objects out of turn are admitted although the memory is used up: the one that
/// is awaited may stand behind them (a lane without a file descriptor tries it again later). Never a hang.
const STARVED: Duration = Duration::from_secs(1);

/// How objects are delivered.
#[derive(Clone, Debug)]
pub struct Deliver {
    /// Most bytes that wait for the consumer. A single object must not be larger.
    pub memory: u64,
    /// Most objects in a chunk.
    pub rows: usize,
    /// Most bytes in a chunk, unless it holds a single object.
    pub bytes: usize,
    /// Objects that arrive in pieces each get their own chunk, so that keeping one keeps nothing else in memory.
    pub apart: bool,
    /// Names that are not UTF-8 are failures.
    pub utf8_names: bool,
    /// Names may be any bytes; else only safe paths.
    pub any_name: bool,
    /// Deliver objects in the order of the listing.
    pub ordered: bool,
    /// Deliver longer objects in pieces of this many bytes, one after the other.
    pub piece: Option<u64>,
}

/// What the consumer receives.
pub enum Next {
    /// Objects, at least one.
    Chunk(Chunk),
    /// Nothing yet.
    Nothing,
    /// The run has ended and everything was delivered.
    End,
}

/// Delivers objects to a consumer. Clones share one sink; the consumer's end is a [`Delivery`].
#[derive(Clone)]
pub struct DeliverSink(Arc<Shared>);

/// The consumer's end of a [`DeliverSink`]. Dropped, it stops the run.
pub struct Delivery(Arc<Shared>);

struct Shared {
    options: Deliver,
    pool: Arc<Pool>,
    /// Bytes in chunks that the consumer has not taken.
    held: AtomicU64,
    /// Bytes that the lanes may run ahead for now: few enough that buffers come back while they are warm; doubled, up to
    /// `Deliver::memory`, whenever the consumer had to wait although lanes had been held back.
    ahead: AtomicU64,
    /// Bytes that wait before a waiting consumer is woken; it looks for fewer after [`PATIENCE`].
    wake_at: u64,
    /// Partitions that some lane has open.
    open: AtomicU64,
    /// The consumer waits.
    starved: AtomicBool,
    /// A lane was refused room since the consumer last took something.
    refused: AtomicBool,
    /// The consumer is gone.
    closed: AtomicBool,
    state: Mutex<State>,
    /// The consumer waits here.
    ready: Condvar,
    /// Lanes that write an object piece by piece wait here.
    room: Condvar,
    /// One for each lane.
    wakes: Mutex<Vec<Wake>>,
}

#[derive(Default)]
struct State {
    chunks: VecDeque<Chunk>,
    /// What each lane is filling.
    lanes: Vec<Arc<Filling>>,
    order: Order,
    /// Bytes that came since the consumer was last woken.
    since_woken: u64,
    /// Since when the consumer waits for something to take.
    hungry: Option<Instant>,
    ended: bool,
}

/// The chunk that a lane is filling, when it is not at it.
type Filling = Mutex<Option<Builder>>;

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        ignore_poison(self.state.lock())
    }

    fn send(&self, chunk: Chunk) {
        let bytes = chunk.bytes();
        let mut state = self.state();
        state.chunks.push_back(chunk);
        state.since_woken += bytes;
        // A consumer that is faster than the lanes takes several at once, rather than being woken for each.
        let enough = state.since_woken >= self.wake_at || self.open.load(Relaxed) == 0;
        if enough {
            state.since_woken = 0;
        }
        drop(state);
        if enough {
            self.ready.notify_one();
        }
    }

    fn check_open(&self) -> Result<()> {
        match self.closed.load(Relaxed) {
            true => Err(Error::new(Kind::Interrupted, "the consumer of the objects is gone")),
            false => Ok(()),
        }
    }

    /// Whether `bytes` more may be held; then they are. One object is always admitted.
    fn reserve(&self, place: Place, bytes: u64) -> bool {
        let limit = self.ahead.load(Relaxed);
        let take = |held: u64| (held == 0 || held + bytes <= limit).then_some(held + bytes);
        if self.held.fetch_update(Relaxed, Relaxed, take).is_ok() {
            return true;
        }
        self.refused.store(true, Relaxed);
        // The consumer may have taken something between the two.
        if self.held.fetch_update(Relaxed, Relaxed, take).is_ok() {
            return true;
        }
        let admitted = self.is_awaited(place);
        if admitted {
            self.hold(bytes);
        }
        admitted
    }

    /// Whether the consumer, who wants them in order, has nothing to take before this object.
    fn is_awaited(&self, place: Place) -> bool {
        self.options.ordered && {
            let state = self.state();
            let starves = || state.hungry.is_some_and(|since| since.elapsed() > STARVED);
            state.chunks.is_empty() && (state.order.awaits(place) || starves())
        }
    }

    fn hold(&self, bytes: u64) {
        self.held.fetch_add(bytes, Relaxed);
    }

    fn release(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Relaxed);
        self.wake_refused();
    }

    /// The consumer found nothing to take: whoever was held back was so too early.
    fn run_further_ahead(&self) {
        if self.refused.load(Relaxed) {
            let ahead = self.ahead.load(Relaxed);
            self.ahead.store((ahead * 2).min(self.options.memory), Relaxed);
            self.wake_refused();
        }
    }

    fn wake_refused(&self) {
        if self.refused.swap(false, Relaxed) {
            self.room.notify_all();
            self.wake_lanes();
        }
    }

    fn wake_lanes(&self) {
        ignore_poison(self.wakes.lock()).iter().for_each(|wake| wake());
    }

    /// Whether a lane may fetch an object.
    fn has_room(&self, place: Place) -> bool {
        let fits = || self.held.load(Relaxed) < self.ahead.load(Relaxed);
        if fits() || self.closed.load(Relaxed) {
            return true; // closed: to be told so by what it brings
        }
        self.refused.store(true, Relaxed);
        fits() || self.is_awaited(place)
    }

    /// Waits, as for a slow disk, until `bytes` more may be held.
    fn reserve_waiting(&self, place: Place, bytes: u64) -> Result<()> {
        while !self.reserve(place, bytes) {
            self.check_open()?;
            let state = self.state();
            // A wake-up between the two is made good by the time-out.
            let _ = self.room.wait_timeout(state, PATIENCE_MAX);
        }
        self.check_open()
    }
}

impl DeliverSink {
    /// Returns a sink and the consumer's end of it.
    pub fn new(options: Deliver) -> (DeliverSink, Delivery) {
        let shared = Arc::new(Shared {
            pool: Pool::new(options.memory),
            ahead: AtomicU64::new(options.memory.min(AHEAD.max(AHEAD_CHUNKS * options.bytes as u64))),
            wake_at: WAKE_AT.min(options.memory / 4),
            held: AtomicU64::new(0),
            open: AtomicU64::new(0),
            starved: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            state: Mutex::default(),
            ready: Condvar::new(),
            room: Condvar::new(),
            wakes: Mutex::default(),
            options,
        });
        (DeliverSink(shared.clone()), Delivery(shared))
    }

    /// Tells the consumer that the run is over. The caller of the run must call this, however the run ended.
    pub fn end(&self) {
        self.0.state().ended = true;
        self.0.ready.notify_all();
        self.0.pool.end();
    }
}

impl Delivery {
    /// Returns the next objects; waits for them at most this long.
    pub fn next(&self, wait: Duration) -> Next {
        let until = Instant::now() + wait;
        let mut patience = PATIENCE;
        let mut state = self.0.state();
        loop {
            if let Some(chunk) = state.chunks.pop_front() {
                return self.take(state, chunk);
            }
            if state.ended {
                drop(state);
                return self.rest();
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Next::Nothing;
            }
            state.hungry.get_or_insert_with(Instant::now);
            if self.0.open.load(Relaxed) == 0
                && let Some(chunk) = half_filled(&state)
            {
                // No lane is filling anything: waiting would bring no more.
                return self.take(state, chunk);
            }
            self.0.run_further_ahead();
            self.0.starved.store(true, Relaxed);
            let (after, waited) = ignore_poison(self.0.ready.wait_timeout(state, patience.min(left)));
            self.0.starved.store(false, Relaxed);
            state = after;
            if waited.timed_out() {
                if let Some(chunk) = half_filled(&state) {
                    return self.take(state, chunk);
                }
                patience = (patience * 2).min(PATIENCE_MAX);
            }
        }
    }

    fn take(&self, mut state: MutexGuard<'_, State>, chunk: Chunk) -> Next {
        state.hungry = None;
        drop(state);
        self.0.release(chunk.bytes());
        Next::Chunk(chunk)
    }

    /// What is left when the run has ended: lanes send what they filled on their way out, so nothing, unless the run failed.
    fn rest(&self) -> Next {
        match half_filled(&self.0.state()) {
            Some(chunk) => Next::Chunk(chunk),
            None => Next::End,
        }
    }

    /// Returns how many bytes wait for the consumer.
    pub fn held(&self) -> u64 {
        self.0.held.load(Relaxed)
    }

    /// Stops the run: it refuses the next object of a lane and drops the waiting ones.
    pub fn close(&self) {
        self.0.closed.store(true, Relaxed);
        let dropped = {
            let mut state = self.0.state();
            self.0.room.notify_all();
            std::mem::take(&mut state.chunks)
        };
        self.0.release(dropped.iter().map(Chunk::bytes).sum());
        self.0.wake_lanes();
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.close();
    }
}

fn half_filled(state: &State) -> Option<Chunk> {
    let take = |filling: &Arc<Filling>| ignore_poison(filling.lock()).take();
    state.lanes.iter().find_map(take).map(Builder::finish)
}

impl Sink for DeliverSink {
    fn identity(&self) -> String {
        "the caller".into()
    }

    fn journal_dir(&self) -> Option<PathBuf> {
        None
    }

    fn admit(&self, raw: &[u8]) -> Result<ObjectKey> {
        if self.0.options.any_name { ObjectKey::of_bytes(raw) } else { Name::parse(raw).map(ObjectKey::from) }
    }

    fn start(&self, _start: &Start, _state: &dyn SinkState) -> Result<Started> {
        Ok(Started {
            durability: "none: handed to the caller".into(),
            publish: "handed to the caller".into(),
            ..Started::default()
        })
    }

    fn properties(&self) -> SinkProperties {
        SinkProperties { blocks: false, ..SinkProperties::default() }
    }

    fn writer(&self, _lane: usize, wake: Wake) -> Result<Box<dyn Writer>> {
        ignore_poison(self.0.wakes.lock()).push(wake);
        Ok(Box::new(DeliverWriter::new(self.0.clone())))
    }

    fn flush(&self, sealed: Vec<Sealed>, _reason: Flush) -> Result<Flushed> {
        let flushed = Flushed::all(&sealed);
        if self.0.options.ordered {
            let mut state = self.0.state();
            let State { order, chunks, .. } = &mut *state;
            flushed.durable.iter().for_each(|&seq| order.complete(seq, chunks));
            self.0.ready.notify_one();
        }
        Ok(flushed)
    }
}
