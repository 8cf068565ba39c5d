//! One lane: a thread that takes partitions, fetches their objects and writes them, run to completion on that thread.
//!
//! Three futures share the thread: the fetcher (`Fetcher::run`, which asks `take` for jobs and answers them), the feeder
//! (opens the next partitions before the last one is empty, so that its tail never idles the lane) and a clock
//! (retries that have come due, changed limits, the stop flag).

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::Shared;
use super::commit::Message;
use super::open::Open;
use super::progress::{LaneCounters, add, sub};
use super::queue::Handout;
use super::retry::{Gate, HOLD_MAX, Verdict};
use super::slot::Slot;
use crate::error::{Class, Error, HostId, Kind, Result};
use crate::name::Name;
use crate::object::{ObjectMeta, Payload};
use crate::sink::{Put, Writer};
use crate::source::{Body, BodyClock, Fetcher, Job, Lane, Limits, LocalFuture, Take, WHOLE_MAX};

/// How often a lane looks at its clock: well below the 100 ms in which a stop must be noticed.
const TICK: Duration = Duration::from_millis(20);
/// Longest sleep for `limit_rate` in one go, so that a stop is noticed meanwhile.
const RATE_SLEEP: Duration = Duration::from_millis(100);
/// Wait for a file descriptor: some other object in flight has given one back by then.
const FILES_WAIT: Duration = Duration::from_millis(100);
/// Tries to open a partition before the run gives up.
const OPEN_TRIES: u32 = 5;

/// The state of a lane. Lives on one thread; `RefCell` borrows never last over a call to source or sink code that could
/// come back here.
pub(crate) struct LaneState {
    shared: Arc<Shared>,
    index: usize,
    writer: RefCell<Box<dyn Writer>>,
    slots: RefCell<Vec<Option<Slot>>>,
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
}

/// Runs lane `index` to its end. Errors stop the whole run.
pub(crate) fn run(shared: &Arc<Shared>, index: usize) {
    let body = std::panic::AssertUnwindSafe(|| LaneState::run(shared, index));
    match std::panic::catch_unwind(body) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => shared.cancel.fail(error),
        Err(panic) => shared.cancel.fail(super::panicked("a lane", panic.as_ref())),
    }
}

impl LaneState {
    fn run(shared: &Arc<Shared>, index: usize) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| {
            Error::new(Kind::Internal, format!("no event loop for a lane: {e}")).errno(e.raw_os_error())
        })?;
        let state = Rc::new(LaneState {
            shared: shared.clone(),
            index,
            writer: RefCell::new(shared.sink.writer(index)?),
            slots: RefCell::default(),
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
        result
    }

    // ---- the feeder and the clock

    async fn feed(&self, fetcher: &dyn Fetcher) -> Error {
        loop {
            let changed = self.shared.queue.changed(self.index);
            if self.untaken() < self.low_water() {
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
            tokio::select! { () = changed => {}, () = self.hungry.notified() => {} }
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
        let number = self.add_slot(Slot::new(open.clone(), entries));
        self.writer.borrow_mut().open(number, &open.partition, open.mode)?;
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
        free as u32
    }

    async fn clock(&self) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.shared.cancel.is_raised() {
            tick.tick().await;
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
        self.limit() as u32 * 2
    }

    fn limit(&self) -> usize {
        let target = self.shared.target.load(Relaxed);
        // Lane 0 gets what does not divide evenly; every lane may have one in flight.
        let share = target / self.shared.lanes + usize::from(self.index < target % self.shared.lanes);
        share.max(1)
    }

    // ---- taking

    fn take(&self) -> Take {
        if self.shared.cancel.is_raised() {
            return Take::Stop;
        }
        if self.in_flight.get() >= self.limit() || self.rate_holds() || !self.shared.budget.reserve(WHOLE_MAX as u64) {
            return Take::Wait;
        }
        match self.next_job() {
            Some(job) => {
                self.in_flight.set(self.in_flight.get() + 1);
                add(&self.counters().in_flight, 1);
                if self.untaken() < self.low_water() {
                    self.hungry.notify_one();
                }
                Take::Job(job)
            }
            None => {
                self.shared.budget.release(WHOLE_MAX as u64);
                let over = self.ended.get() && self.is_idle();
                if over { Take::Stop } else { Take::Wait }
            }
        }
    }

    fn rate_holds(&self) -> bool {
        match self.rate_until.get() {
            Some(until) if Instant::now() < until => true,
            _ => {
                self.rate_until.set(None);
                false
            }
        }
    }

    fn next_job(&self) -> Option<Job> {
        if let Some(job) = self.due_retry().or_else(|| self.given_back_before()) {
            return Some(job);
        }
        let count = self.slots.borrow().len() as u32;
        (0..count).find_map(|number| self.next_of(number))
    }

    fn due_retry(&self) -> Option<Job> {
        let now = Instant::now();
        let mut retries = self.retries.borrow_mut();
        let Reverse((at, number, index)) = *retries.peek()?;
        if at > now {
            return None;
        }
        let gate = self.shared.retry.gate(self.host(number, index)?, now);
        if gate == Gate::Closed {
            return None;
        }
        retries.pop();
        drop(retries);
        self.job_of_waiting(number, index, gate)
    }

    fn given_back_before(&self) -> Option<Job> {
        let (number, index) = *self.again.borrow().front()?;
        let gate = self.shared.retry.gate(self.host(number, index)?, Instant::now());
        if gate == Gate::Closed {
            return None;
        }
        self.again.borrow_mut().pop_front();
        self.job_of_waiting(number, index, gate)
    }

    fn job_of_waiting(&self, number: u32, index: u32, gate: Gate) -> Option<Job> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots[number as usize].as_mut()?;
        slot.waiting -= 1;
        slot.in_flight += 1;
        let name = Name::parse(slot.entries.get(index).name).ok()?; // parsed well before it became a job
        if gate == Gate::Probe {
            self.probe.set(Some((number, index)));
        }
        Some(Job { slot: number, index, entries: slot.entries.clone(), name })
    }

    /// The next object of a slot that has to be fetched. Those that need not be are settled on the way.
    fn next_of(&self, number: u32) -> Option<Job> {
        loop {
            let mut slots = self.slots.borrow_mut();
            let slot = slots.get_mut(number as usize)?.as_mut()?;
            let gated = self.shared.retry.is_gated();
            if gated && slot.open.peek().is_some_and(|index| self.shared.retry.is_closed(slot.host(index))) {
                return None;
            }
            let Some(index) = slot.open.take() else {
                drop(slots);
                self.close_if_settled(number);
                return None;
            };
            let entry = slot.entries.get(index);
            match self.admit(entry.name, entry.duplicate) {
                Admit::Fetch(name) => {
                    let gate = if gated { self.shared.retry.gate(entry.host, Instant::now()) } else { Gate::Open };
                    if gate == Gate::Closed {
                        slot.waiting += 1;
                        self.again.borrow_mut().push_back((number, index));
                        return None;
                    }
                    if gate == Gate::Probe {
                        self.probe.set(Some((number, index)));
                    }
                    slot.in_flight += 1;
                    return Some(Job { slot: number, index, entries: slot.entries.clone(), name });
                }
                Admit::Skip { duplicate } => {
                    slot.skipped(index);
                    self.count_skipped(duplicate);
                }
                Admit::Refuse(error) => {
                    slot.failed(index, &error, None, None);
                    self.count_failed();
                    self.shared.check_failures(&error);
                }
            }
            let settled = slot.is_settled();
            drop(slots);
            if settled {
                self.close_if_settled(number);
                return None;
            }
        }
    }

    fn admit(&self, raw: &[u8], duplicate: bool) -> Admit {
        if duplicate || !self.shared.filter.admits(raw) {
            return Admit::Skip { duplicate };
        }
        match Name::parse(raw) {
            Ok(name) => Admit::Fetch(name),
            Err(error) => Admit::Refuse(error),
        }
    }

    fn host(&self, number: u32, index: u32) -> Option<HostId> {
        Some(self.slots.borrow().get(number as usize)?.as_ref()?.host(index))
    }

    // ---- settling

    fn settle(&self, job: &Job, outcome: impl FnOnce(&mut Slot)) {
        self.in_flight.set(self.in_flight.get() - 1);
        sub(&self.counters().in_flight, 1);
        self.shared.budget.release(WHOLE_MAX as u64);
        if let Some(slot) = self.slots.borrow_mut()[job.slot as usize].as_mut() {
            slot.in_flight -= 1;
            outcome(slot);
        }
        self.close_if_settled(job.slot);
    }

    fn close_if_settled(&self, number: u32) {
        let slot = {
            let mut slots = self.slots.borrow_mut();
            let settled = slots[number as usize].as_ref().is_some_and(Slot::is_settled);
            if !settled {
                return;
            }
            slots[number as usize].take()
        };
        let Some(slot) = slot else { return };
        let sealed = match self.writer.borrow_mut().seal(number) {
            Ok(sealed) => sealed,
            Err(error) => return self.shared.cancel.fail(error),
        };
        if let Some(complete) = slot.open.leave(slot.tally, sealed) {
            self.shared.queue.completed(&slot.open, complete.bytes);
            self.shared.tell_committer(Message::Complete(Box::new(complete)));
        }
        self.hungry.notify_one();
    }

    /// The sink took the object, or did not.
    fn stored(&self, job: Job, result: Result<Put>, bytes: u64, unverified: bool) {
        let probe = self.take_probe(&job);
        match result {
            Ok(put) => {
                self.shared.retry.succeeded(job.entry().host, probe);
                let counters = self.counters();
                if put == Put::Written {
                    add(&counters.written, 1);
                    add(&counters.bytes, bytes);
                    add(&counters.unverified, u64::from(unverified));
                    self.settle(&job, |slot| slot.written(job.index, bytes));
                } else {
                    self.count_skipped(true);
                    self.settle(&job, |slot| slot.skipped(job.index));
                }
            }
            Err(error) => {
                if probe {
                    self.shared.retry.unprobed(job.entry().host);
                }
                self.fail(job, error, false);
            }
        }
    }

    fn fail(&self, job: Job, error: Error, probe: bool) {
        match error.class() {
            Class::Run => {
                self.shared.cancel.fail(error);
                self.settle(&job, |slot| slot.waiting += 1); // stays unfinished
            }
            Class::Object => {
                if probe {
                    // A definite answer about this object: the host is back.
                    self.shared.retry.succeeded(error.host_id(), true);
                }
                if error.kind() == Kind::Vanished && self.shared.options.ignore_vanished {
                    self.count_skipped(false);
                    self.settle(&job, |slot| slot.skipped(job.index));
                } else {
                    self.give_up(job, error, None);
                }
            }
            Class::Retry => self.retry(job, error, probe),
        }
    }

    fn retry(&self, job: Job, error: Error, probe: bool) {
        if error.kind() == Kind::OutOfFiles {
            self.shared.out_of_files.fetch_add(1, Relaxed);
        }
        let error = error.host(job.entry().host);
        let (host, retry) = (error.host_id(), &self.shared.retry);
        // The pause that this very failure may start must not count the try.
        let tried = self.count_try(&job, host);
        match retry.failed(&error, tried.0, tried.1, probe) {
            Verdict::Uncharged => {
                self.uncount_try(&job);
                if error.kind() == Kind::OutOfFiles {
                    self.hold(job, FILES_WAIT);
                } else {
                    self.give_back(job);
                }
            }
            Verdict::GiveUp => self.give_up(job, error, Some(tried)),
            Verdict::Again(wait) => {
                add(&self.counters().retries, 1);
                let held = matches!(self.origin_is_listed(&job), Some(true)) && wait <= HOLD_MAX;
                if held {
                    self.hold(job, wait);
                } else {
                    self.settle(&job, |slot| slot.failed(job.index, &error, Some(tried), Some(wait)));
                }
            }
        }
    }

    fn origin_is_listed(&self, job: &Job) -> Option<bool> {
        let slots = self.slots.borrow();
        let slot = slots.get(job.slot as usize)?.as_ref()?;
        Some(matches!(slot.open.origin, super::open::Origin::Listed))
    }

    fn hold(&self, job: Job, wait: Duration) {
        self.retries.borrow_mut().push(Reverse((Instant::now() + wait, job.slot, job.index)));
        self.settle(&job, |slot| slot.waiting += 1);
    }

    fn uncount_try(&self, job: &Job) {
        if let Some(slot) = self.slots.borrow_mut()[job.slot as usize].as_mut() {
            slot.uncount_try(job.index);
        }
    }

    fn count_try(&self, job: &Job, host: HostId) -> (u32, Duration) {
        let paused = self.shared.retry.paused(host);
        let mut slots = self.slots.borrow_mut();
        slots[job.slot as usize].as_mut().map_or((1, Duration::ZERO), |slot| {
            let tried = slot.count_try(job.index, paused);
            (tried.count, tried.time(paused))
        })
    }

    fn give_up(&self, job: Job, error: Error, tried: Option<(u32, Duration)>) {
        self.count_failed();
        self.settle(&job, |slot| slot.failed(job.index, &error, tried, None));
        self.shared.check_failures(&error);
    }

    fn give_back(&self, job: Job) {
        self.again.borrow_mut().push_back((job.slot, job.index));
        self.settle(&job, |slot| slot.waiting += 1);
    }

    fn take_probe(&self, job: &Job) -> bool {
        let is_probe = self.probe.get() == Some((job.slot, job.index));
        if is_probe {
            self.probe.set(None);
        }
        is_probe
    }

    fn spend(&self, bytes: u64) {
        if self.shared.rate.is_limited() {
            let wait = self.shared.rate.spend(bytes);
            if !wait.is_zero() {
                self.rate_until.set(Some(Instant::now() + wait));
            }
        }
    }

    fn count_skipped(&self, duplicate: bool) {
        add(&self.counters().skipped, 1);
        add(&self.counters().duplicates, u64::from(duplicate));
    }

    fn count_failed(&self) {
        add(&self.counters().failed, 1);
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
        let before = Instant::now();
        let result = write(&mut self.writer.borrow_mut());
        self.stalled.set(self.stalled.get() + before.elapsed());
        result
    }
}

enum Admit {
    Fetch(Name),
    Skip { duplicate: bool },
    Refuse(Error),
}

impl BodyClock for LaneState {
    fn wrote(&self, bytes: usize, time: Duration) {
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
        Limits { in_flight: self.0.limit(), depth: 1 }
    }

    fn whole(&self, job: Job, meta: &ObjectMeta, payload: Payload<'_>) {
        let bytes = payload.as_slice().len() as u64;
        let result = self.0.timed(|writer| writer.put(job.slot, &job.name, meta, payload));
        self.0.spend(bytes);
        self.0.stored(job, result, bytes, meta.unverified);
    }

    fn begin(&self, job: &Job, meta: &ObjectMeta) -> Result<Body> {
        let writer = self.0.timed(|writer| writer.begin(job.slot, &job.name, meta))?;
        Ok(Body::new(writer, self.0.clone(), meta.clone()))
    }

    fn finished(&self, job: Job, body: Body, result: Result<()>) {
        let (writer, meta, bytes) = body.into_parts();
        match result {
            Ok(()) => {
                let before = Instant::now();
                let put = writer.finish();
                self.0.stalled.set(self.0.stalled.get() + before.elapsed());
                self.0.stored(job, put, bytes, meta.unverified);
            }
            Err(error) => {
                drop(writer);
                let probe = self.0.take_probe(&job);
                self.0.fail(job, error, probe);
            }
        }
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
}
