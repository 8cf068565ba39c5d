//! One lane: a thread that takes partitions, fetches their objects and writes them, run to completion on that thread.
//!
//! Three futures share the thread: the fetcher (`Fetcher::run`, which asks `take` for jobs and answers them), the feeder
//! (opens the next partitions before the last one is empty, so that its tail never idles the lane) and a clock
//! (retries that have come due, changed limits, the stop flag).

mod settle;
mod take;

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::Shared;
use super::open::Open;
use super::progress::{LaneCounters, add};
use super::queue::Handout;
use super::retry::HOLD_MAX;
use super::slot::Slot;
use crate::error::{Class, Error, Kind, Result};
use crate::object::{ObjectMeta, Payload};
use crate::options::Pass;
use crate::sink::Writer;
use crate::source::{Body, BodyClock, Fetcher, Job, Lane, Limits, LocalFuture, Take, Written};

/// How often a lane looks at its clock: well below the 100 ms in which a stop must be noticed.
const TICK: Duration = Duration::from_millis(20);
/// Longest sleep for `limit_rate` in one go, so that a stop is noticed meanwhile.
const RATE_SLEEP: Duration = Duration::from_millis(100);
/// Wait for a file descriptor: some other object in flight has given one back by then.
const FILES_WAIT: Duration = Duration::from_millis(100);
/// Connections over which a lane spreads what it has in flight, at least: while one is written from, another is filled.
const CONNECTIONS_MIN: usize = 2;
/// Tries to open a partition before the run gives up.
const OPEN_TRIES: u32 = 5;

/// The state of a lane. Lives on one thread; `RefCell` borrows never last over a call to source or sink code that could
/// come back here.
pub(crate) struct LaneState {
    shared: Arc<Shared>,
    index: usize,
    writer: RefCell<Box<dyn Writer>>,
    slots: RefCell<Vec<Option<Slot>>>,
    /// Numbers of the slots in use, oldest first: objects are taken from the oldest, so that partitions are complete in
    /// about the order in which they were handed out and the frontier moves.
    order: RefCell<Vec<u32>>,
    /// Given back: to be fetched as soon as their host is open.
    again: RefCell<VecDeque<(u32, u32)>>,
    retries: RefCell<BinaryHeap<Reverse<(Instant, u32, u32)>>>,
    probe: Cell<Option<(u32, u32)>>,
    in_flight: Cell<usize>,
    last_limit: Cell<usize>,
    rate_until: Cell<Option<Instant>>,
    stalled: Cell<Duration>,
    ended: Cell<bool>,
    jobs: Notify,
    hungry: Notify,
    /// Objects that wait for the sink to have room wait here.
    room: Notify,
}

/// Runs lane `index` to its end. Errors stop the whole run.
pub(crate) fn run(shared: &Arc<Shared>, index: usize) {
    let body = std::panic::AssertUnwindSafe(|| LaneState::run(shared, index));
    match std::panic::catch_unwind(body) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => shared.cancel.fail(error),
        Err(panic) => shared.cancel.fail(super::panicked("a worker thread", panic.as_ref())),
    }
}

impl LaneState {
    fn run(shared: &Arc<Shared>, index: usize) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| {
            Error::new(Kind::Internal, format!("cannot start an event loop: {e}")).errno(e.raw_os_error())
        })?;
        let state = Rc::new(LaneState {
            shared: shared.clone(),
            index,
            writer: RefCell::new(shared.sink.writer(index)?),
            slots: RefCell::default(),
            order: RefCell::default(),
            again: RefCell::default(),
            retries: RefCell::default(),
            probe: Cell::new(None),
            in_flight: Cell::new(0),
            last_limit: Cell::new(0),
            rate_until: Cell::new(None),
            stalled: Cell::new(Duration::ZERO),
            ended: Cell::new(false),
            jobs: Notify::new(),
            hungry: Notify::new(),
            room: Notify::new(),
        });
        let fetcher = shared.source.fetcher(index)?;
        let local = tokio::task::LocalSet::new();
        let result = local.block_on(&runtime, async {
            tokio::select! {
                result = fetcher.run(Rc::new(Handle(state.clone()))) => result,
                error = state.feed(&*fetcher) => Err(error),
                () = state.clock() => Ok(()),
            }
        });
        drop(local); // tasks of the fetcher, and with them their bodies, end before their slots are discarded
        state.discard();
        // Not dropped: that would wait for a name that is being looked up, for as long as its server takes.
        runtime.shutdown_background();
        result
    }

    async fn feed(&self, fetcher: &dyn Fetcher) -> Error {
        loop {
            let changed = self.shared.queue.changed(self.index);
            if self.untaken() < self.low_water() || self.shared.queue.is_finished() {
                match self.shared.queue.take(self.is_idle()) {
                    Handout::Partition(open) => match self.open(fetcher, open).await {
                        Ok(()) => continue,
                        Err(error) => return error,
                    },
                    Handout::Wait => {}
                    Handout::Finished => {
                        self.ended.set(true);
                        self.jobs.notify_waiters();
                        std::future::pending::<()>().await;
                    }
                }
            }
            tokio::select! {
                () = changed => {}
                () = self.hungry.notified() => {}
                () = self.shared.room[self.index].notified() => {
                    self.room.notify_waiters();
                    self.jobs.notify_waiters();
                }
            }
        }
    }

    async fn open(&self, fetcher: &dyn Fetcher, open: Arc<Open>) -> Result<()> {
        let mut tries = 0;
        let entries = loop {
            match fetcher.open(&open.partition).await {
                Ok(entries) => break entries,
                Err(error) if error.class() == Class::Retry && tries < OPEN_TRIES => {
                    tries += 1;
                    tokio::time::sleep(HOLD_MAX).await;
                }
                Err(error) => return Err(error),
            }
        };
        if open.opened(entries.len()) {
            self.shared.queue.opened(entries.len());
            self.shared.counters.listed.fetch_add(u64::from(entries.len()), Relaxed);
        }
        let directories = Box::new(entries.clone());
        let number = self.add_slot(Slot::new(open.clone(), entries));
        self.writer.borrow_mut().open(number, &open.partition, open.mode, directories)?;
        self.close_if_settled(number);
        self.jobs.notify_waiters();
        Ok(())
    }

    fn add_slot(&self, slot: Slot) -> u32 {
        let mut slots = self.slots.borrow_mut();
        let free = slots.iter().position(Option::is_none).unwrap_or_else(|| {
            slots.push(None);
            slots.len() - 1
        });
        slots[free] = Some(slot);
        self.order.borrow_mut().push(free as u32);
        free as u32
    }

    async fn clock(&self) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.shared.cancel.is_raised() {
            tick.tick().await;
            add(&self.counters().beats, 1);
            let due = self.retries.borrow().peek().is_some_and(|Reverse((at, ..))| *at <= Instant::now());
            let limit = self.limit();
            if due
                || !self.again.borrow().is_empty()
                || self.rate_until.get().is_some()
                || self.shared.retry.is_gated()
                || self.last_limit.replace(limit) != limit
                || self.in_flight.get() == 0
            {
                self.jobs.notify_waiters();
            }
            if self.is_idle() {
                self.hungry.notify_one();
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.in_flight.get() == 0 && self.slots.borrow().iter().all(Option::is_none)
    }

    fn untaken(&self) -> u32 {
        self.slots.borrow().iter().flatten().map(|slot| slot.open.untaken()).sum()
    }

    /// Below this many objects to take, the next partition is opened.
    fn low_water(&self) -> u32 {
        self.share() as u32 * 2
    }

    /// Objects this lane may have in flight. A lane that is no longer needed finishes what it has open, one at a time,
    /// unless a lane that is needed does.
    fn limit(&self) -> usize {
        match self.share() {
            0 => usize::from(self.slots.borrow().iter().flatten().any(|slot| self.is_left_to_this_lane(slot))),
            share => share,
        }
    }

    fn is_left_to_this_lane(&self, slot: &Slot) -> bool {
        // In a stream, the lane that is furthest finishes first.
        slot.waiting > 0
            || slot.open.untaken() == 0
            || slot.entries.is_stream()
            || !slot.open.is_taken_by_first(self.needed())
    }

    /// Lanes that share what is in flight.
    fn needed(&self) -> usize {
        self.shared.busy_lanes(self.shared.target.load(Relaxed))
    }

    /// This lane's part of what is in flight; 0 while fewer lanes do.
    fn share(&self) -> usize {
        let target = self.shared.target.load(Relaxed);
        let busy = self.shared.busy_lanes(target);
        if self.index >= busy {
            return 0;
        }
        (target / busy + usize::from(self.index < target % busy)).max(1)
    }

    fn counters(&self) -> &LaneCounters {
        &self.shared.counters.lanes[self.index]
    }

    fn discard(&self) {
        let slots = std::mem::take(&mut *self.slots.borrow_mut());
        for (number, _) in slots.iter().enumerate().filter(|(_, slot)| slot.is_some()) {
            self.writer.borrow_mut().discard(number as u32);
        }
    }

    fn timed<T>(&self, write: impl FnOnce(&mut Box<dyn Writer>) -> T) -> T {
        let before = coarse_now();
        let result = write(&mut self.writer.borrow_mut());
        self.stalled.set(self.stalled.get() + coarse_now().saturating_sub(before));
        result
    }
}

/// The time at the last tick of the kernel (1 to 10 ms): precise enough for deadlines of seconds, for each of a million
/// objects a second, and on average right.
fn coarse_now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

impl BodyClock for LaneState {
    fn wrote(&self, bytes: usize, time: Duration) {
        add(&self.counters().moved, bytes as u64);
        let mut wait =
            if self.shared.rate.is_limited() { self.shared.rate.spend(bytes as u64) } else { Duration::ZERO };
        let slept = Instant::now();
        while !wait.is_zero() && !self.shared.cancel.is_raised() {
            let nap = wait.min(RATE_SLEEP);
            std::thread::sleep(nap);
            wait -= nap;
        }
        self.stalled.set(self.stalled.get() + time + slept.elapsed());
    }
}

/// What the fetcher holds.
struct Handle(Rc<LaneState>);

impl Lane for Handle {
    fn take(&self) -> Take {
        self.0.take()
    }

    fn wake(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.0.jobs.notified())
    }

    fn limits(&self) -> Limits {
        // One waits even where none may be in flight, to learn of the end.
        let in_flight = self.0.limit().max(1);
        let is_ending = (self.0.untaken() as usize) < in_flight && self.0.shared.queue.is_empty();
        Limits { in_flight, depth: (in_flight / CONNECTIONS_MIN).max(1), is_ending }
    }

    fn whole_in_place(&self, job: Job, read: &mut dyn FnMut(&Job, &mut Vec<u8>) -> bool) -> Option<Job> {
        // Not timed: the time is the reading's.
        let result = self.0.writer.borrow_mut().put_in_place(job.slot, &job.name, &mut |space| read(&job, space));
        let (bytes, result) = match result {
            Ok(None) => return Some(job),
            Ok(Some(bytes)) => (bytes, Ok(crate::sink::Put::Written)),
            Err(error) => (0, Err(error)),
        };
        self.0.spend(bytes);
        self.0.stored(job, result, bytes, false);
        None
    }

    fn is_there(&self, job: Job, meta: &mut dyn FnMut(&Job) -> Option<ObjectMeta>) -> Option<Job> {
        if self.0.shared.pass == Pass::Restart {
            return Some(job);
        }
        let there = self.0.timed(|writer| writer.has(job.slot, &job.name, &mut || meta(&job)));
        match there {
            Ok(None) => return Some(job),
            Ok(Some(size)) => self.0.stored(job, Ok(crate::sink::Put::Kept), size, false),
            Err(error) => self.0.stored(job, Err(error), 0, false),
        };
        None
    }

    fn keeps_times(&self) -> bool {
        self.0.shared.options.keep_times == Some(true)
    }

    fn kept(&self, job: &Job) -> Option<ObjectMeta> {
        if self.0.shared.pass != Pass::Update || !self.keeps_times() {
            return None;
        }
        // Without an answer it is fetched, and what is wrong there is found when it is written.
        self.0.timed(|writer| writer.kept(job.slot, &job.name)).ok().flatten()
    }

    fn whole(&self, job: Job, meta: &ObjectMeta, payload: Payload<'_>) -> Option<Written> {
        let bytes = payload.size();
        let result = self.0.timed(|writer| {
            writer.expect(job.slot, job.index, Some(bytes))?;
            writer.put(job.slot, &job.name, meta, payload)
        });
        self.0.spend(bytes);
        self.0.stored(job, result, bytes, meta.unverified)
    }

    fn begin<'a>(&'a self, job: &'a Job, meta: &'a ObjectMeta) -> LocalFuture<'a, Result<Body>> {
        Box::pin(async move {
            loop {
                let room = self.0.room.notified(); // made before the sink is asked, so that no wake-up is missed
                let begun = self.0.timed(|writer| match writer.expect(job.slot, job.index, meta.size)? {
                    true => writer.begin(job.slot, &job.name, meta).map(Some),
                    false => Ok(None),
                });
                match begun? {
                    Some(writer) => return Ok(Body::new(writer, self.0.clone(), meta.clone())),
                    None => room.await,
                }
            }
        })
    }

    fn finished(&self, job: Job, body: Body, result: Result<()>) -> Option<Written> {
        let (writer, meta, bytes) = body.into_parts();
        match result {
            Ok(()) => {
                let before = Instant::now();
                let put = writer.finish();
                self.0.stalled.set(self.0.stalled.get() + before.elapsed());
                self.0.stored(job, put, bytes, meta.unverified)
            }
            Err(error) => {
                drop(writer);
                let probe = self.0.take_probe(&job);
                self.0.fail(job, error, probe);
                None
            }
        }
    }

    fn withdraw(&self, written: Written, error: Error) {
        self.0.withdraw(written, error);
    }

    fn failed(&self, job: Job, error: Error) {
        let probe = self.0.take_probe(&job);
        self.0.fail(job, error, probe);
    }

    fn given_back(&self, job: Job) {
        if self.0.take_probe(&job) {
            self.0.shared.retry.unprobed(job.entry().host);
        }
        self.0.give_back(job);
    }

    fn stalled(&self) -> Duration {
        self.0.stalled.get()
    }

    fn wasted(&self, bytes: u64) {
        super::progress::add(&self.0.counters().wasted, bytes);
    }

    fn note(&self, text: &str) {
        self.0.shared.note(text);
    }
}
