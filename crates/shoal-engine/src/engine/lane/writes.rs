//! Writes that do not end in the call of the sink: those that it has under way (`Put::Later`), and those that failed and are
//! retried with the bytes that were fetched. All of them count as in flight, so they are bounded, and so is what they
//! hold of the memory budget.
//!
//! A destination that fails has its own retries and pauses. While it is paused nothing is fetched for it, and a write that
//! waits asks it. The source is not charged. Not here: objects written in pieces, which must be fetched again (`settle.rs`).

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::super::progress::add;
use super::LaneState;
use super::settle::written;
use crate::error::{Class, Error, Kind, Side};
use crate::hosts::{DESTINATION, Gate, PROBE_MIN, Verdict};
use crate::object::{ObjectMeta, Payload};
use crate::sink::{Completed, Put};
use crate::source::{Counted, Job, Later, Was, Written};

/// A write that has not ended.
struct Write {
    job: Job,
    meta: ObjectMeta,
    bytes: u64,
    /// What was fetched, while it waits for another try.
    payload: Option<Vec<u8>>,
    /// It asks a destination that is paused.
    probe: bool,
    /// It has failed before.
    retried: bool,
    was: Rc<RefCell<Later>>,
}

/// The writes of a lane that have not ended, by slot and entry.
#[derive(Default)]
pub(super) struct Writes {
    open: RefCell<HashMap<(u32, u32), Write>>,
    /// Those of them that wait for another try.
    waiting: RefCell<BinaryHeap<Reverse<(Instant, u32, u32)>>>,
    /// Whether the sink has any.
    any: Cell<bool>,
}

/// Whether a failed write is tried again with the same bytes. Without a file descriptor, fewer objects must be in flight
/// first.
pub(super) fn is_retried(error: &Error) -> bool {
    error.side() == Side::Sink && error.class() == Class::Retry && error.kind() != Kind::OutOfFiles
}

impl LaneState {
    /// The sink has taken an object and tells later what became of it.
    pub(super) fn write_later(&self, job: Job, meta: &ObjectMeta, bytes: u64) -> Option<Written> {
        let (probe, asks) = (self.take_probe(job.id()), self.take_sink_probe(&job));
        self.shared.hosts.succeeded(job.entry().host, probe);
        let write =
            Write { bytes, meta: meta.clone(), payload: None, probe: asks, retried: false, was: pending(), job };
        self.writes.any.set(true);
        let written = self.written_later(&write);
        self.keep(write);
        written
    }

    /// The sink has failed to write an object; its bytes are tried again.
    pub(super) fn write_again(&self, job: Job, meta: &ObjectMeta, payload: Vec<u8>, error: Error) -> Option<Written> {
        let (probe, asks) = (self.take_probe(job.id()), self.take_sink_probe(&job));
        self.shared.hosts.succeeded(job.entry().host, probe);
        let bytes = payload.len() as u64;
        let (was, payload) = (pending(), Some(payload));
        let write = Write { bytes, meta: meta.clone(), payload, probe: asks, retried: false, was, job };
        let written = self.written_later(&write);
        self.failed_write(write, error);
        written
    }

    /// What the source may withdraw.
    fn written_later(&self, write: &Write) -> Option<Written> {
        let (partition, counted) = self.slots.numbers(&write.job)?;
        let (entries, index, was) = (write.job.entries.clone(), write.job.index, Was::Later(write.was.clone()));
        Some(Written { partition, counted, entries, index, was })
    }

    fn keep(&self, write: Write) {
        self.writes.open.borrow_mut().insert((write.job.slot, write.job.index), write);
    }

    /// Takes the writes that have ended; whether there were any.
    pub(super) fn collect_writes(&self) -> bool {
        if !self.writes.any.get() {
            return false;
        }
        let before = self.places.borrow().in_flight();
        let slots = self.slots.writers.borrow().len() as u32;
        for slot in 0..slots {
            loop {
                let completed = match self.slots.writers.borrow_mut().get_mut(slot as usize) {
                    Some(Some(writer)) => writer.completed(),
                    _ => None,
                };
                let Some(completed) = completed else { break };
                self.completed(slot, completed);
            }
        }
        self.writes.any.set(!self.writes.open.borrow().is_empty());
        self.places.borrow().in_flight() < before
    }

    fn completed(&self, slot: u32, completed: Completed) {
        let Completed { index, result, bytes: payload } = completed;
        let write = self.writes.open.borrow_mut().remove(&(slot, index));
        let Some(write) = write else {
            let why = "the sink has handed back a write that it did not have";
            return self.shared.cancel.fail(Error::new(Kind::Internal, why).of_sink());
        };
        match result.map_err(Error::of_sink) {
            Ok(Put::Later) => {
                let why = "the sink has handed back a write that has not ended";
                self.shared.cancel.fail(Error::new(Kind::Internal, why).of_sink());
                self.keep(write);
            }
            Ok(put) => self.wrote(write, put),
            // Other bytes than it was given are not the object: it is fetched again.
            Err(error)
                if is_retried(&error) && payload.as_ref().is_some_and(|kept| kept.len() as u64 == write.bytes) =>
            {
                self.failed_write(Write { payload, ..write }, error);
            }
            Err(error) => self.lost(write, error),
        }
    }

    fn wrote(&self, write: Write, mut put: Put) {
        if put == Put::Duplicate && write.retried {
            put = Put::Written; // the attempt before wrote it, but its answer was lost
        }
        let is_gone = match self.double(&write.job, put) {
            Ok(is_gone) => is_gone,
            Err(error) => {
                self.shared.destination.succeeded(DESTINATION, write.probe);
                return self.lost_for_good(write, error, None);
            }
        };
        let Write { job, meta, bytes, probe, was, .. } = write;
        self.shared.destination.succeeded(DESTINATION, probe);
        let numbers = self.slots.numbers(&job);
        let settled = self.settle_written(&job, put, bytes, meta.unverified);
        let counted = Counted { settled, is_gone };
        if let Later::Withdrawn(wrote, error) = was.replace(Later::Failed) {
            if let Some(written) = written(job, numbers, Was::Settled(counted)) {
                self.withdraw(written, wrote, error);
            }
        } else {
            was.replace(Later::Settled(counted));
        }
    }

    /// A write has failed; its bytes are there.
    fn failed_write(&self, write: Write, error: Error) {
        let error = error.host(DESTINATION);
        let tried = self.count_try(&write.job, &error, false);
        let wait = match self.shared.destination.failed(&error, tried.0, tried.1, write.probe) {
            Verdict::GiveUp => return self.lost_for_good(write, error, Some(tried)),
            Verdict::Again(wait) => {
                add(&self.counters().retries, 1);
                wait
            }
            Verdict::Uncharged => {
                self.uncount_try(&write.job, Side::Sink);
                PROBE_MIN
            }
        };
        let (slot, index) = (write.job.slot, write.job.index);
        self.writes.waiting.borrow_mut().push(Reverse((Instant::now() + wait, slot, index)));
        self.shared.counters.writes_waiting.fetch_add(1, Relaxed);
        self.keep(Write { probe: false, retried: true, ..write });
    }

    /// A write has failed, and its bytes are gone.
    fn lost(&self, write: Write, error: Error) {
        match error.class() {
            _ if !write.probe => {}
            Class::Object => self.shared.destination.succeeded(DESTINATION, true), // it has answered
            Class::Retry | Class::Run => self.shared.destination.unprobed(DESTINATION),
        }
        if error.class() == Class::Run {
            return self.fail(write.job, error, false);
        }
        if matches!(&*write.was.borrow(), Later::Pending) && error.class() != Class::Object {
            // Fetched again. What is withdrawn is not.
            *write.was.borrow_mut() = Later::Failed;
            return self.fail(write.job, error, false);
        }
        self.lost_for_good(write, error, None);
    }

    fn lost_for_good(&self, write: Write, error: Error, tried: Option<(u32, std::time::Duration)>) {
        let before = std::mem::replace(&mut *write.was.borrow_mut(), Later::Failed);
        let error = match before {
            Later::Withdrawn(_, withdrawn) => withdrawn,
            _ => error,
        };
        self.give_up(write.job, error, tried);
    }

    /// Whether an object may be fetched for the destination. While that is paused, none is; but if no write waits, one object
    /// is fetched to ask it.
    pub(super) fn sink_gate(&self) -> Gate {
        let retry = &self.shared.destination;
        if self.shared.counters.writes_waiting.load(Relaxed) == 0 {
            return retry.gate(DESTINATION);
        }
        match retry.look(DESTINATION) {
            Gate::Open => Gate::Open,
            _ => Gate::Closed,
        }
    }

    /// Retries the writes that are due. Returns whether any has ended.
    pub(super) fn write_due(&self) -> bool {
        let before = self.places.borrow().in_flight();
        self.write_all_due();
        self.places.borrow().in_flight() < before
    }

    fn write_all_due(&self) {
        loop {
            let now = Instant::now();
            let due = self.writes.waiting.borrow().peek().is_some_and(|Reverse((at, ..))| *at <= now);
            if !due || self.shared.cancel.is_raised() {
                return;
            }
            let gate = self.shared.destination.gate(DESTINATION);
            if gate == Gate::Closed {
                return;
            }
            let Some(Reverse((_, slot, index))) = self.writes.waiting.borrow_mut().pop() else { return };
            self.shared.counters.writes_waiting.fetch_sub(1, Relaxed);
            let write = self.writes.open.borrow_mut().remove(&(slot, index));
            let Some((mut write, bytes)) = write.and_then(|mut write| write.payload.take().map(|bytes| (write, bytes)))
            else {
                let why = "a write that waits for a retry has no bytes";
                return self.shared.cancel.fail(Error::new(Kind::Internal, why));
            };
            write.probe = gate == Gate::Probe;
            let mut payload = Payload::Owned(bytes);
            let put = self.timed(slot, |writer| writer.put(index, &write.job.name, &write.meta, &mut payload));
            match put {
                Ok(Put::Later) => {
                    self.writes.any.set(true);
                    self.keep(write);
                }
                Ok(put) => self.wrote(write, put),
                Err(error) if is_retried(&error) && payload.size() == write.bytes => {
                    self.failed_write(Write { payload: payload.take().ok(), ..write }, error);
                }
                Err(error) => self.lost(write, error),
            }
        }
    }
}

fn pending() -> Rc<RefCell<Later>> {
    Rc::new(RefCell::new(Later::Pending))
}
