//! What becomes of a job: written, skipped, failed, held for another try, deferred or given back; and of a partition whose
//! jobs are all settled.

use std::cmp::Reverse;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::super::commit::Message;
use super::super::open::Origin;
use super::super::progress::{add, sub};
use super::super::retry::{HOLD_MAX, Verdict};
use super::super::slot::{Slot, failed};
use super::{FILES_WAIT, LaneState};
use crate::error::{Class, Error, HostId, Kind, Result};
use crate::journal::{Settled, Withdrawn};
use crate::options::Pass;
use crate::report::Reason;
use crate::sink::Put;
use crate::source::{Job, WHOLE_MAX, Written};

impl LaneState {
    pub(super) fn settle(&self, job: &Job, outcome: impl FnOnce(&mut Slot)) {
        self.in_flight.set(self.in_flight.get() - 1);
        sub(&self.counters().in_flight, 1);
        self.shared.budget.release(WHOLE_MAX as u64);
        if let Some(slot) = self.slots.borrow_mut()[job.slot as usize].as_mut() {
            slot.in_flight -= 1;
            outcome(slot);
        }
        self.close_if_settled(job.slot);
    }

    fn leave_out(&self, job: &Job) {
        self.writer.borrow_mut().left_out(job.slot, job.index);
    }

    pub(super) fn close_if_settled(&self, number: u32) {
        let slot = {
            let mut slots = self.slots.borrow_mut();
            let settled = slots[number as usize].as_ref().is_some_and(Slot::is_settled);
            if !settled {
                return;
            }
            self.order.borrow_mut().retain(|other| *other != number);
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
    pub(super) fn stored(&self, job: Job, result: Result<Put>, bytes: u64, unverified: bool) -> Option<Written> {
        let probe = self.take_probe(&job);
        match result {
            Ok(Put::Duplicate) => {
                self.shared.retry.succeeded(job.entry().host, probe);
                self.skip(&job, Reason::Duplicate);
                None
            }
            Ok(Put::Kept) if self.shared.pass == Pass::Update => {
                self.shared.retry.succeeded(job.entry().host, probe);
                let numbers = self.numbers(&job);
                self.skip(&job, Reason::Unchanged);
                written(job, numbers, Settled::Skipped(Reason::Unchanged))
            }
            Ok(put) => {
                self.shared.retry.succeeded(job.entry().host, probe);
                let (counters, kept) = (self.counters(), put == Put::Kept);
                add(&counters.kept, u64::from(kept));
                add(&counters.written, 1);
                add(&counters.bytes, bytes);
                add(&counters.unverified, u64::from(unverified));
                let numbers = self.numbers(&job);
                self.settle(&job, |slot| slot.written(job.index, bytes, kept));
                written(job, numbers, Settled::Written { bytes, kept })
            }
            Err(error) => {
                if probe {
                    self.shared.retry.unprobed(job.entry().host);
                }
                self.fail(job, error, false);
                None
            }
        }
    }

    /// What was written is a failure after all. The committer counts it so, once what it was written with is committed.
    pub(super) fn withdraw(&self, written: Written, error: Error) {
        let Written { partition, counted, entries, index, was } = written;
        let (counters, entry) = (self.counters(), entries.get(index));
        match was {
            Settled::Written { bytes, kept } => {
                sub(&counters.kept, u64::from(kept));
                sub(&counters.written, 1);
                sub(&counters.bytes, bytes);
            }
            Settled::Skipped(reason) => {
                sub(&counters.skipped, 1);
                sub(&counters.unchanged, u64::from(reason == Reason::Unchanged));
            }
        }
        self.count_failed();
        let error = error.within(entries.within(index));
        let failed = failed(&entry, &error, 1, Duration::ZERO, None);
        let withdrawn = Withdrawn { seq: counted, was, failed };
        self.shared.tell_committer(Message::Withdrawn { partition, withdrawn: Box::new(withdrawn) });
        self.shared.stop_at_failures(&error);
    }

    pub(super) fn fail(&self, job: Job, error: Error, probe: bool) {
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
                    self.leave_out(&job);
                    self.settle(&job, |slot| slot.failed(job.index, &error, Some(tried), Some(wait)));
                }
            }
        }
    }

    pub(super) fn origin_is_listed(&self, job: &Job) -> Option<bool> {
        let slots = self.slots.borrow();
        let slot = slots.get(job.slot as usize)?.as_ref()?;
        Some(matches!(slot.open.origin, Origin::Listed))
    }

    /// The partition that an object is written with, and the one that it is counted in.
    fn numbers(&self, job: &Job) -> Option<(u64, u64)> {
        self.slots.borrow()[job.slot as usize].as_ref().map(|slot| slot.numbers(job.index))
    }

    pub(super) fn hold(&self, job: Job, wait: Duration) {
        self.retries.borrow_mut().push(Reverse((Instant::now() + wait, job.slot, job.index)));
        self.settle(&job, |slot| slot.waiting += 1);
    }

    pub(super) fn uncount_try(&self, job: &Job) {
        if let Some(slot) = self.slots.borrow_mut()[job.slot as usize].as_mut() {
            slot.uncount_try(job.index);
        }
    }

    pub(super) fn count_try(&self, job: &Job, host: HostId) -> (u32, Duration) {
        let paused = self.shared.retry.paused(host);
        let mut slots = self.slots.borrow_mut();
        slots[job.slot as usize].as_mut().map_or((1, Duration::ZERO), |slot| {
            let tried = slot.count_try(job.index, paused);
            (tried.count, tried.time(paused))
        })
    }

    pub(super) fn give_up(&self, job: Job, error: Error, tried: Option<(u32, Duration)>) {
        let error = error.within(job.entries.within(job.index));
        if error.kind() == Kind::Repeated {
            self.shared.repeated(&error);
        }
        self.count_failed();
        self.leave_out(&job);
        self.settle(&job, |slot| slot.failed(job.index, &error, tried, None));
        self.shared.check_failures(&job.entry(), &error, tried.map_or(1, |tried| tried.0));
    }

    pub(super) fn give_back(&self, job: Job) {
        self.again.borrow_mut().push_back((job.slot, job.index));
        self.settle(&job, |slot| slot.waiting += 1);
    }

    pub(super) fn take_probe(&self, job: &Job) -> bool {
        let is_probe = self.probe.get() == Some((job.slot, job.index));
        if is_probe {
            self.probe.set(None);
        }
        is_probe
    }

    pub(super) fn spend(&self, bytes: u64) {
        add(&self.counters().moved, bytes);
        if self.shared.rate.is_limited() {
            let wait = self.shared.rate.spend(bytes);
            if !wait.is_zero() {
                self.rate_until.set(Some(Instant::now() + wait));
            }
        }
    }

    fn skip(&self, job: &Job, reason: Reason) {
        self.count_skipped(reason);
        self.leave_out(job);
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
fn written(job: Job, numbers: Option<(u64, u64)>, was: Settled) -> Option<Written> {
    let Job { entries, index, .. } = job;
    numbers.map(|(partition, counted)| Written { partition, counted, entries, index, was })
}
