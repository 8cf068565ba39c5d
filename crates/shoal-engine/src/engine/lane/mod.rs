//! One lane: a thread that takes partitions, fetches their objects and writes them, run to completion on that thread.
//!
//! Three futures share the thread: the fetcher (`Fetcher::run`, which asks `take` for jobs and answers them), the feeder
//! (opens the next partitions before the last one is empty, so that its tail never idles the lane) and a clock
//! (retries that have come due, changed limits, the stop flag).

mod cut;
mod many;
mod probes;
mod settle;
mod slots;
mod take;
mod waiting;
mod writes;

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use self::many::ManyHosts;
use self::probes::Asked;
use self::slots::Slots;
use self::take::Asking;
use self::writes::Writes;
use super::coarse_clock::coarse_now;
use super::in_flight_partition::InFlightPartition;
use super::lane_partition::LanePartition;
use super::panicked::panicked;
use super::progress::{LaneCounters, add};
use super::queue::Dequeued;
use super::shared::Shared;
use crate::error::{Class, Error, HostId, Kind, Result};
use crate::hosts::{HOLD_MAX, Places};
use crate::object::{Fingerprint, ObjectKind, ObjectMeta, Payload};
use crate::options::Pass;
use crate::report::Reason;
use crate::sink::{Left, PartitionWriter, Put, Writer};
use crate::source::{Body, BodyClock, Fetcher, Hangs, Job, JobId, Lane, Limits, LocalFuture, Take, Written};

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
    slots: Slots,
    writer: RefCell<Box<dyn Writer>>,
    waiting: Waiting,
    places: Asked,
    many: ManyHosts,
    /// The object that asks a destination which is paused.
    sink_probe: Cell<Option<(u32, u32)>>,
    last_limit: Cell<usize>,
    time: Time,
    ended: Cell<bool>,
    wakes: Wakes,
    /// Writes that the sink has under way, or that wait for another try.
    writes: Writes,
}

/// Objects that are taken again later, each by its slot and its place there.
#[derive(Default)]
struct Waiting {
    /// Given back: to be fetched as soon as their host is open.
    again: RefCell<VecDeque<(u32, u32)>>,
    /// Retries, by when they are due.
    due: RefCell<BinaryHeap<Reverse<(Instant, u32, u32)>>>,
}

/// What a lane waits for.
#[derive(Default)]
struct Wakes {
    /// There may be another job.
    jobs: Notify,
    /// There may be another partition.
    hungry: Notify,
    /// The sink may have room for an object.
    room: Notify,
}

/// Time that is not the network's.
#[derive(Default)]
struct Time {
    /// Until when `limit_rate` holds the lane.
    rate_until: Cell<Option<Instant>>,
    /// How long it has been busy writing.
    stalled: Cell<Duration>,
}

/// Runs lane `index` to its end. Errors stop the whole run.
pub(crate) fn run(shared: &Arc<Shared>, index: usize) {
    let body = std::panic::AssertUnwindSafe(|| LaneState::run(shared, index));
    match std::panic::catch_unwind(body) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => shared.cancel.fail(error),
        Err(panic) => shared.cancel.fail(panicked("a worker thread", panic.as_ref())),
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
            slots: Slots::default(),
            writer: RefCell::new(shared.sink.writer(index, shared.wake(index)).map_err(Error::of_sink)?),
            writes: Writes::default(),
            waiting: Waiting::default(),
            places: RefCell::new(Places::new(shared.parallel.hanging_max)),
            many: ManyHosts::default(),
            sink_probe: Cell::new(None),
            last_limit: Cell::new(0),
            time: Time::default(),
            ended: Cell::new(false),
            wakes: Wakes::default(),
        });
        let mut fetcher = shared.source.fetcher(index)?;
        fetcher.report_to(&shared.findings);
        let local = tokio::task::LocalSet::new();
        let result = local.block_on(&runtime, async {
            tokio::select! {
                result = fetcher.run(Rc::new(Handle(state.clone()))) => result,
                error = state.feed(&*fetcher) => Err(error),
                () = state.clock() => Ok(()),
            }
        });
        drop(local); // tasks of the fetcher, and with them their bodies, end before their slots are discarded
        state.slots.discard();
        // Not dropped: that would wait for a name that is being looked up, for as long as its server takes.
        runtime.shutdown_background();
        result
    }

    async fn feed(&self, fetcher: &dyn Fetcher) -> Error {
        loop {
            let changed = self.shared.queue.changed(self.index);
            if self.slots.untaken() < self.low_water() || self.shared.queue.is_finished() {
                match self.next_partition() {
                    Dequeued::Partition(open) => match self.open(fetcher, open).await {
                        Ok(()) => continue,
                        Err(error) => return error,
                    },
                    Dequeued::Wait => {}
                    Dequeued::Finished => {
                        self.ended.set(true);
                        self.wakes.jobs.notify_waiters();
                        std::future::pending::<()>().await;
                    }
                }
            }
            tokio::select! {
                () = changed => {}
                () = self.wakes.hungry.notified() => {}
                () = self.shared.room[self.index].notified() => {
                    self.collect_writes();
                    self.wakes.room.notify_waiters();
                    self.wakes.jobs.notify_waiters();
                }
            }
        }
    }

    async fn open(&self, fetcher: &dyn Fetcher, open: Arc<InFlightPartition>) -> Result<()> {
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
        if open.opened(&*entries) {
            self.shared.queue.opened(entries.len());
            self.shared.counters.listed.fetch_add(u64::from(entries.len()), Relaxed);
        }
        let directories = entries.clone();
        let modes = Box::new(move |directory: &[u8]| directories.directory_mode(directory));
        let writer = self.writer.borrow_mut().open(&open.partition, open.mode, modes).map_err(Error::of_sink)?;
        let number = self.slots.add(LanePartition::new(open.clone(), entries, self.shared.writing), writer);
        self.close_if_settled(number);
        self.wakes.jobs.notify_waiters();
        Ok(())
    }

    async fn clock(&self) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.shared.cancel.is_raised() {
            tick.tick().await;
            add(&self.counters().beats, 1);
            self.many.tick();
            self.cut_old();
            let has_more = self.unpark_some();
            let due = self.waiting.due.borrow().peek().is_some_and(|Reverse((at, ..))| *at <= Instant::now());
            let limit = self.limit();
            if due
                || has_more
                || !self.waiting.again.borrow().is_empty()
                || self.time.rate_until.get().is_some()
                || self.shared.hosts.any_gated()
                || self.shared.destination.any_gated()
                || self.last_limit.replace(limit) != limit
                || self.in_flight() == 0
            {
                self.wakes.jobs.notify_waiters();
            }
            if self.write_due() | self.collect_writes() {
                self.wakes.room.notify_waiters();
                self.wakes.jobs.notify_waiters();
            }
            if self.is_idle() || self.slots.untaken() < self.low_water() {
                self.wakes.hungry.notify_one();
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.places.borrow().in_flight()
    }

    fn is_idle(&self) -> bool {
        self.in_flight() == 0 && self.slots.open.borrow().iter().all(Option::is_none)
    }

    /// Below this many objects to take, the next partition is opened.
    fn low_water(&self) -> u32 {
        self.share() as u32 * 2
    }

    /// Objects this lane may have in flight. A lane that is no longer needed finishes what it has open, one at a time,
    /// unless a lane that is needed does.
    fn limit(&self) -> usize {
        match self.share() {
            0 => usize::from(self.slots.open.borrow().iter().flatten().any(|slot| self.is_left_to_this_lane(slot))),
            share => share,
        }
    }

    fn is_left_to_this_lane(&self, slot: &LanePartition) -> bool {
        // In a stream, the lane that is furthest finishes first.
        slot.waiting > 0
            || slot.open.untaken() == 0
            || slot.entries.is_stream()
            || !slot.open.is_taken_by_first(self.needed())
    }

    /// Lanes that share what is in flight.
    fn needed(&self) -> usize {
        self.shared.busy_lanes(self.shared.parallel.target.load(Relaxed))
    }

    /// This lane's part of what is in flight; 0 while fewer lanes do.
    fn share(&self) -> usize {
        let target = self.shared.parallel.target.load(Relaxed);
        let busy = self.shared.busy_lanes(target);
        if self.index >= busy {
            return 0;
        }
        (target / busy + usize::from(self.index < target % busy)).max(1)
    }

    fn counters(&self) -> &LaneCounters {
        &self.shared.counters.lanes[self.index]
    }

    /// The same, for what may take time: network deadlines do not count it.
    fn timed<T>(&self, slot: u32, call: impl FnOnce(&mut dyn PartitionWriter) -> Result<T>) -> Result<T> {
        let before = coarse_now();
        let result = self.slots.write(slot, call);
        self.time.stalled.set(self.time.stalled.get() + coarse_now().saturating_sub(before));
        result
    }
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
        self.time.stalled.set(self.time.stalled.get() + time + slept.elapsed());
    }
}

/// What the fetcher holds.
struct Handle(Rc<LaneState>);

impl Lane for Handle {
    fn take(&self) -> Take {
        self.0.take(&Asking { own: None, has_room: &|_| true })
    }

    fn take_if(&self, own: Option<HostId>, has_room: &dyn Fn(HostId) -> bool) -> Take {
        self.0.take(&Asking { own, has_room })
    }

    fn wake(&self) -> LocalFuture<'_, ()> {
        Box::pin(self.0.wakes.jobs.notified())
    }

    fn limits(&self) -> Limits {
        // One waits even where none may be in flight, to learn of the end.
        let in_flight = self.0.limit().max(1);
        let is_ending = (self.0.slots.untaken() as usize) < in_flight && self.0.shared.queue.is_empty();
        let is_crowded = self.0.in_flight() * 2 >= in_flight;
        Limits { in_flight, depth: (in_flight / CONNECTIONS_MIN).max(1), is_crowded, is_ending }
    }

    fn whole_in_place(&self, job: Job, read: &mut dyn FnMut(&Job, &mut Vec<u8>) -> bool) -> Option<Job> {
        // Not timed: the time is the reading's.
        let result = self
            .0
            .slots
            .write(job.slot, |writer| writer.put_in_place(job.index, &job.name, &mut |space| read(&job, space)));
        let (bytes, result) = match result {
            Ok(None) => return Some(job),
            Ok(Some(bytes)) => (bytes, Ok(Put::Written)),
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
        let there = self.0.timed(job.slot, |writer| writer.has(&job.name, &mut || meta(&job)));
        match there {
            Ok(None) => return Some(job),
            Ok(Some(Left::Whole(size))) => self.0.stored(job, Ok(Put::Kept), size, false),
            Ok(Some(Left::Edited)) => {
                let probe = self.0.take_probe(job.id());
                self.0.shared.hosts.succeeded(job.entry().host, probe);
                self.0.skip(&job, Reason::Edited);
                None
            }
            Err(error) => self.0.stored(job, Err(error), 0, false),
        };
        None
    }

    fn keeps_times(&self) -> bool {
        self.0.shared.keeps_times
    }

    fn keeps_metadata(&self) -> bool {
        self.0.shared.writing.metadata
    }

    fn kept(&self, job: &Job) -> Option<ObjectMeta> {
        if self.0.shared.pass != Pass::Update || !self.keeps_times() {
            return None;
        }
        // Without an answer it is fetched, and what is wrong there is found when it is written.
        self.0.timed(job.slot, |writer| writer.kept(&job.name)).ok().flatten()
    }

    fn linked(&self, job: Job, to: &[u8], meta: &ObjectMeta) -> Option<Job> {
        let Ok(to) = self.0.shared.sink.admit(to) else { return Some(job) };
        match self.0.timed(job.slot, |writer| writer.link(job.index, &job.name, &to, meta)) {
            Ok(None) => return Some(job),
            Ok(Some(put)) => self.0.stored(job, Ok(put), 0, false),
            Err(error) => self.0.stored(job, Err(error), 0, false),
        };
        None
    }

    fn whole(&self, job: Job, meta: &ObjectMeta, mut payload: Payload<'_>) -> Option<Written> {
        if meta.kind == ObjectKind::Link && !self.0.shared.writing.takes.links {
            let probe = self.0.take_probe(job.id());
            self.0.shared.hosts.succeeded(job.entry().host, probe);
            self.0.skip(&job, Reason::Link); // its text is no contents
            return None;
        }
        let bytes = payload.size();
        let result = self.0.timed(job.slot, |writer| writer.put(job.index, &job.name, meta, &mut payload));
        self.0.spend(bytes);
        match result {
            Ok(Put::Later) => self.0.write_later(job, meta, bytes),
            Err(error) if writes::is_retried(&error) => match payload.take() {
                Ok(kept) if kept.len() as u64 == bytes => self.0.write_again(job, meta, kept, error),
                _ => self.0.stored(job, Err(error), bytes, meta.unverified),
            },
            result => self.0.stored(job, result, bytes, meta.unverified),
        }
    }

    fn begin<'a>(&'a self, job: &'a Job, meta: &'a ObjectMeta) -> LocalFuture<'a, Result<Body>> {
        Box::pin(async move {
            loop {
                let room = self.0.wakes.room.notified(); // made before the sink is asked, so that no wake-up is missed
                match self.0.timed(job.slot, |writer| writer.begin(job.index, &job.name, meta))? {
                    Some(writer) => {
                        self.0.arrives(job.id());
                        return Ok(Body::new(writer, self.0.clone(), meta.clone()));
                    }
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
                let put = writer.finish().map_err(Error::of_sink);
                self.0.time.stalled.set(self.0.time.stalled.get() + before.elapsed());
                match put {
                    Ok(Put::Later) => self.0.write_later(job, &meta, bytes),
                    put => self.0.stored(job, put, bytes, meta.unverified),
                }
            }
            Err(error) => {
                drop(writer);
                let probe = self.0.take_probe(job.id());
                self.0.fail(job, error, probe);
                None
            }
        }
    }

    fn withdraw(&self, written: Written, wrote: Fingerprint, error: Error) {
        self.0.withdraw(written, wrote, error);
    }

    fn failed(&self, job: Job, error: Error) {
        let probe = self.0.take_probe(job.id());
        self.0.fail(job, error, probe);
    }

    fn hangs(&self, job: JobId, why: Hangs) {
        self.0.hangs(job, why);
    }

    fn arrives(&self, job: JobId) {
        self.0.arrives(job);
    }

    fn has_answered(&self, host: HostId) -> bool {
        self.0.shared.hosts.has_answered(host)
    }

    fn hears(&self, host: HostId) {
        self.0.shared.hosts.hears(host);
    }

    fn requeued(&self, job: Job) {
        if self.0.take_probe(job.id()) {
            self.0.shared.hosts.unprobed(job.entry().host);
        }
        self.0.requeue(job);
    }

    fn stalled(&self) -> Duration {
        self.0.time.stalled.get()
    }

    fn wasted(&self, bytes: u64) {
        super::progress::add(&self.0.counters().wasted, bytes);
    }

    fn note(&self, text: &str) {
        self.0.shared.note(text);
    }
}
