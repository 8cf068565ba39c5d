//! What becomes of a job: written, skipped, failed, held for another try, deferred or given back; and of a partition whose
//! jobs are all settled.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::super::doubles::Double;
use super::super::lane_partition::{LanePartition, failed};
use super::super::message::{Gone, Message};
use super::super::progress::{add, sub};
use super::{FILES_WAIT, LaneState};
use crate::error::{Class, Error, Kind, Result, Side};
use crate::hosts::{DESTINATION, Gate, HOLD_MAX, Verdict};
use crate::journal::{Settled, Withdrawn};
use crate::object::Fingerprint;
use crate::options::Pass;
use crate::report::Reason;
use crate::sink::Put;
use crate::source::{Counted, Job, Later, WHOLE_MAX, Was, Written};

impl LaneState {
    pub(super) fn settle(&self, job: &Job, outcome: impl FnOnce(&mut LanePartition)) {
        if self.take_sink_probe(job) {
            self.shared.destination.unprobed(DESTINATION); // it never came to the destination, or failed there for itself
        }
        self.places.borrow_mut().ends();
        sub(&self.counters().in_flight, 1);
        self.shared.budget.release(WHOLE_MAX as u64);
        if let Some(slot) = self.slots.open.borrow_mut()[job.slot as usize].as_mut() {
            slot.in_flight -= 1;
            outcome(slot);
        }
        self.close_if_settled(job.slot);
    }

    pub(super) fn close_if_settled(&self, number: u32) {
        let slot = {
            let mut slots = self.slots.open.borrow_mut();
            let settled = slots[number as usize].as_ref().is_some_and(LanePartition::is_settled);
            if !settled {
                return;
            }
            self.slots.take_no_more(number);
            slots[number as usize].take()
        };
        self.slots.free.borrow_mut().push(number);
        slot.iter().for_each(|slot| self.many.forget(slot, number));
        let writer = self.slots.writers.borrow_mut()[number as usize].take();
        let (Some(slot), Some(writer)) = (slot, writer) else { return };
        let sealed = match writer.seal() {
            Ok(sealed) => sealed,
            Err(error) => return self.shared.cancel.fail(error.of_sink()),
        };
        if let Some(complete) = slot.open.leave(slot.tally, sealed) {
            self.shared.queue.completed(&slot.open, complete.bytes);
            self.shared.tell_committer(Message::Complete(Box::new(complete)));
        }
        self.wakes.hungry.notify_one();
    }

    /// The sink took the object, or did not.
    pub(super) fn stored(&self, job: Job, result: Result<Put>, bytes: u64, unverified: bool) -> Option<Written> {
        let probe = self.take_probe(job.id());
        match result {
            Ok(put) => {
                self.shared.hosts.succeeded(job.entry().host, probe);
                self.shared.destination.succeeded(DESTINATION, self.take_sink_probe(&job));
                let is_gone = match self.double(&job, put) {
                    Ok(is_gone) => is_gone,
                    Err(error) => {
                        self.give_up(job, error, None);
                        return None;
                    }
                };
                let numbers = self.slots.numbers(&job);
                let settled = self.settle_written(&job, put, bytes, unverified);
                written(job, numbers, Was::Settled(Counted { settled, is_gone }))
            }
            Err(error) => {
                let is_of_sink = error.side() == Side::Sink;
                if probe && !is_of_sink {
                    self.shared.hosts.unprobed(job.entry().host);
                }
                self.fail(job, error, probe && is_of_sink);
                None
            }
        }
    }

    /// Remembers an object that counts because another one of its name had written its bytes, where that one may still be
    /// withdrawn.
    ///
    /// # Errors
    /// If it was: this one fails as well, for good. At once, it would find the same file again.
    pub(super) fn double(&self, job: &Job, put: Put) -> Result<Option<Arc<AtomicBool>>> {
        if put != Put::Duplicate || !self.shared.source.properties().is_network {
            return Ok(None);
        }
        let Some((partition, seq)) = self.slots.numbers(job) else { return Ok(None) };
        let error = Error::new(
            Kind::ShortBody,
            "its bytes are those of another object of this name, which turned out to be wrong after it was written: \
            `resume=\"failed\"` fetches both again",
        );
        let was = Settled::Skipped(Reason::Duplicate);
        let failed = failed(&job.entry(), &error, self.shared.writing, (1, Duration::ZERO), None);
        match self.shared.doubles.add(Gone { partition, withdrawn: Withdrawn { seq, was, failed }, wrote: None }) {
            Double::Counted(is_gone) => Ok(Some(is_gone)),
            Double::Withdrawn => Err(error),
        }
    }

    /// Counts an object that is written, or was there.
    pub(super) fn settle_written(&self, job: &Job, put: Put, bytes: u64, unverified: bool) -> Settled {
        let skipped = match put {
            Put::Duplicate => Some(Reason::Duplicate),
            Put::Kept if self.shared.pass == Pass::Update => Some(Reason::Unchanged),
            _ => None,
        };
        if let Some(reason) = skipped {
            self.skip(job, reason);
            return Settled::Skipped(reason);
        }
        let (counters, kept) = (self.counters(), put == Put::Kept);
        add(&counters.kept, u64::from(kept));
        add(&counters.written, 1);
        add(&counters.bytes, bytes);
        add(&counters.unverified, u64::from(unverified));
        self.settle(job, |slot| slot.written(job.index, bytes, kept));
        Settled::Written { bytes, kept }
    }

    /// What was written is a failure after all, and so is what had the same bytes. The committer counts them so, once what
    /// they were written with is committed.
    pub(super) fn withdraw(&self, written: Written, wrote: Fingerprint, error: Error) {
        let Written { partition, counted, entries, index, was } = written;
        let was = match was {
            Was::Settled(was) => was,
            Was::Later(later) => {
                let was = std::mem::replace(&mut *later.borrow_mut(), Later::Failed);
                match was {
                    Later::Failed => return,
                    Later::Settled(was) => was,
                    Later::Pending | Later::Withdrawn(..) => {
                        *later.borrow_mut() = Later::Withdrawn(wrote, error);
                        return;
                    }
                }
            }
        };
        if was.is_gone.as_ref().is_some_and(|is_gone| is_gone.swap(true, Relaxed)) {
            return; // with the object of which it had the bytes
        }
        let (was, is_double) = (was.settled, was.settled == Settled::Skipped(Reason::Duplicate));
        let error = error.within(entries.within(index).as_deref());
        let failed = failed(&entries.get(index), &error, self.shared.writing, (1, Duration::ZERO), None);
        // The file of a double is another object's.
        let (others, are_all) = match is_double {
            true => (Vec::new(), false),
            false => self.shared.doubles.take(&failed.name),
        };
        let withdrawn = Withdrawn { seq: counted, was, failed };
        let mut gone = vec![Gone { partition, withdrawn, wrote: are_all.then_some(wrote) }];
        gone.extend(others);
        gone.iter().for_each(|gone| self.uncount(gone.withdrawn.was));
        self.shared.tell_committer(Message::Withdrawn(gone));
        self.shared.stop_at_failures(&error);
    }

    /// An object that was counted so has failed.
    fn uncount(&self, was: Settled) {
        let counters = self.counters();
        match was {
            Settled::Written { bytes, kept } => {
                sub(&counters.kept, u64::from(kept));
                sub(&counters.written, 1);
                sub(&counters.bytes, bytes);
            }
            Settled::Skipped(reason) => {
                sub(&counters.skipped, 1);
                sub(&counters.duplicates, u64::from(reason == Reason::Duplicate));
                sub(&counters.unchanged, u64::from(reason == Reason::Unchanged));
            }
        }
        self.count_failed();
    }

    pub(super) fn fail(&self, job: Job, error: Error, mut probe: bool) {
        if probe && error.side() == Side::Sink {
            self.shared.hosts.succeeded(job.entry().host, true); // the source has answered
            probe = false;
        }
        match error.class() {
            Class::Run => {
                self.shared.cancel.fail(error);
                self.settle(&job, |slot| slot.waiting += 1); // stays unfinished
            }
            Class::Object => {
                if probe {
                    // A definite answer about this object: the host is back.
                    self.shared.hosts.succeeded(job.entry().host, true);
                }
                if error.kind() == Kind::Vanished && error.side() == Side::Source && self.shared.options.ignore_vanished
                {
                    self.skip(&job, Reason::Vanished);
                } else {
                    self.give_up(job, error, None);
                }
            }
            Class::Retry => self.retry(job, error, probe),
        }
    }

    pub(super) fn retry(&self, job: Job, error: Error, probe: bool) {
        if error.kind() == Kind::OutOfFiles {
            self.shared.counters.out_of_files.fetch_add(1, Relaxed);
        }
        let error = match error.side() {
            Side::Source => error.host(job.entry().host),
            Side::Sink => error.host(DESTINATION),
        };
        let probe = probe || error.side() == Side::Sink && self.take_sink_probe(&job);
        // The pause that this very failure may start must not count the try.
        let tried = self.count_try(&job, &error, probe);
        match self.shared.hosts_of(error.side()).failed(&error, tried.0, tried.1, probe) {
            Verdict::Uncharged => {
                self.uncount_try(&job, error.side());
                if error.kind() == Kind::OutOfFiles {
                    self.hold(job, FILES_WAIT);
                } else if probe && self.shared.hosts.look(error.host_id()) == Gate::Away {
                    // Given back, it might be the next probe, and the next, and never fail.
                    self.give_up(job, self.shared.hosts.away(error.host_id()), None);
                } else if !probe || !self.defer_hung(&job, &error) {
                    self.requeue(job);
                }
            }
            Verdict::GiveUp => self.give_up(job, error, Some(tried)),
            Verdict::Again(wait) => {
                add(&self.counters().retries, 1);
                let held = matches!(self.slots.origin_is_listed(&job), Some(true)) && wait <= HOLD_MAX;
                if held {
                    self.hold(job, wait);
                } else {
                    self.slots.skip_in_sink(job.slot, job.index);
                    // The wait counts as time of trying. The journal keeps whole milliseconds: with one more, no time is left
                    // after the last try.
                    let (tries, trying) = (tried.0, tried.1 + wait + Duration::from_millis(1));
                    self.settle(&job, |slot| slot.failed(job.index, &error, Some((tries, trying)), Some(wait)));
                }
            }
        }
    }

    pub(super) fn hold(&self, job: Job, wait: Duration) {
        self.waiting.due.borrow_mut().push(Reverse((Instant::now() + wait, job.slot, job.index)));
        self.settle(&job, |slot| slot.waiting += 1);
    }

    pub(super) fn uncount_try(&self, job: &Job, side: Side) {
        if let Some(slot) = self.slots.open.borrow_mut()[job.slot as usize].as_mut() {
            slot.uncount_try(job.index, side);
        }
    }

    pub(super) fn count_try(&self, job: &Job, error: &Error, probe: bool) -> (u32, Duration) {
        let (hosts, host) = (self.shared.hosts_of(error.side()), error.host_id());
        let paused = hosts.paused(host);
        let waited = if probe { hosts.waited(host) } else { Duration::ZERO };
        let mut slots = self.slots.open.borrow_mut();
        slots[job.slot as usize].as_mut().map_or((1, Duration::ZERO), |slot| {
            let tried = slot.count_try(job.index, error.side(), paused, waited);
            (tried.count, tried.time(paused))
        })
    }

    pub(super) fn give_up(&self, job: Job, error: Error, tried: Option<(u32, Duration)>) {
        let error = error.within(job.entries.within(job.index).as_deref());
        self.shared.repeated(&error);
        self.count_failed();
        self.slots.skip_in_sink(job.slot, job.index);
        self.settle(&job, |slot| slot.failed(job.index, &error, tried, None));
        self.shared.check_failures(&job.entry(), &error, tried.map_or(1, |tried| tried.0));
    }

    pub(super) fn requeue(&self, job: Job) {
        self.settle(&job, |slot| slot.waiting += 1);
        self.wait_again(job.slot, job.index);
    }

    /// Whether this object was fetched to ask a destination that is paused.
    pub(super) fn take_sink_probe(&self, job: &Job) -> bool {
        let is_probe = self.sink_probe.get() == Some((job.slot, job.index));
        if is_probe {
            self.sink_probe.set(None);
        }
        is_probe
    }

    pub(super) fn spend(&self, bytes: u64) {
        add(&self.counters().moved, bytes);
        if self.shared.rate.is_limited() {
            let wait = self.shared.rate.spend(bytes);
            if !wait.is_zero() {
                self.time.rate_until.set(Some(Instant::now() + wait));
            }
        }
    }

    pub(super) fn skip(&self, job: &Job, reason: Reason) {
        self.count_skipped(reason);
        self.slots.skip_in_sink(job.slot, job.index);
        self.settle(job, |slot| slot.skipped(job.index, reason));
    }

    pub(super) fn count_skipped(&self, reason: Reason) {
        add(&self.counters().skipped, 1);
        add(&self.counters().duplicates, u64::from(reason == Reason::Duplicate));
        add(&self.counters().unchanged, u64::from(reason == Reason::Unchanged));
    }

    pub(super) fn count_failed(&self) {
        add(&self.counters().failed, 1);
    }
}

/// What a fetcher may withdraw later.
pub(super) fn written(job: Job, numbers: Option<(u64, u64)>, was: Was) -> Option<Written> {
    let Job { entries, index, .. } = job;
    numbers.map(|(partition, counted)| Written { partition, counted, entries, index, was })
}
