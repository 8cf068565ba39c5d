//! What a lane fetches next: a retry that has come due, something given back, or the next entry of an open partition.
//! Entries that need not be fetched (duplicates, directories, excluded and unsafe names) are settled on the way.

use std::cmp::Reverse;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::super::lane_partition::LanePartition;
use super::super::progress::add;
use super::{FILES_WAIT, LaneState};
use crate::error::{Class, Error, HostId, Kind, Result, Side};
use crate::hosts::{DESTINATION, Gate, PROBE_MIN, Verdict};
use crate::key::ObjectKey;
use crate::report::Reason;
use crate::sink::Place;
use crate::source::{Entry, Job, Skip, Take, WHOLE_MAX};

/// What asks for an object.
pub(super) struct Asking<'a> {
    /// The host of the connection that asks, if one does. Others that had no room are looked at after the next tick.
    pub own: Option<HostId>,
    /// Whether the fetcher can request another object from a host now.
    pub has_room: &'a dyn Fn(HostId) -> bool,
}

impl LaneState {
    pub(super) fn take(&self, asking: &Asking<'_>) -> Take {
        if self.shared.cancel.is_raised() {
            return Take::Stop;
        }
        if self.ended.get() && self.is_idle() {
            return Take::Stop;
        }
        if self.is_full() || self.rate_holds() || !self.shared.budget.reserve(WHOLE_MAX as u64) {
            return Take::Wait;
        }
        let gate = self.sink_gate();
        let job = if gate == Gate::Closed { None } else { self.next_job(asking) };
        match job {
            Some(job) => {
                if gate == Gate::Probe {
                    self.sink_probe.set(Some((job.slot, job.index)));
                }
                self.asks(&job);
                self.many.taken();
                if self.slots.untaken() < self.low_water() {
                    self.wakes.hungry.notify_one();
                }
                Take::Job(job)
            }
            None => {
                if gate == Gate::Probe {
                    self.shared.destination.unprobed(DESTINATION);
                }
                self.shared.budget.release(WHOLE_MAX as u64);
                Take::Wait
            }
        }
    }

    fn rate_holds(&self) -> bool {
        match self.time.rate_until.get() {
            Some(until) if Instant::now() < until => true,
            _ => {
                self.time.rate_until.set(None);
                false
            }
        }
    }

    /// The next entry of the oldest open partition that has one.
    pub(super) fn fresh(&self, asking: &Asking<'_>) -> Option<Job> {
        if let Some(own) = asking.own {
            self.unpark_one(own);
        }
        let mut at = 0;
        loop {
            let number = *self.slots.order.borrow().get(at)?;
            if let Some(job) = self.next_of(number, asking) {
                return Some(job);
            }
            // It may have been closed on the way; then another has taken its place.
            at += usize::from(self.slots.order.borrow().get(at) == Some(&number));
        }
    }

    pub(super) fn due_retry(&self) -> Option<Job> {
        let mut retries = self.waiting.due.borrow_mut();
        let Reverse((at, number, index)) = *retries.peek()?;
        if at > Instant::now() {
            return None;
        }
        let gate = self.shared.hosts.gate(self.slots.host(number, index)?);
        if gate == Gate::Closed {
            return None;
        }
        retries.pop();
        drop(retries);
        self.job_of_waiting(number, index, gate)
    }

    pub(super) fn requeued_before(&self) -> Option<Job> {
        let (number, index) = *self.waiting.again.borrow().front()?;
        let gate = self.shared.hosts.gate(self.slots.host(number, index)?);
        if gate == Gate::Closed {
            return None;
        }
        self.waiting.again.borrow_mut().pop_front();
        self.job_of_waiting(number, index, gate)
    }

    /// Settles an object that is not requested as a failure.
    pub(super) fn fail_unasked(&self, slot: &mut LanePartition, index: u32, error: Error) {
        let error = error.within(slot.entries.within(index).as_deref());
        self.count_failed();
        self.shared.check_failures(&slot.entries.get(index), &error, 1);
        slot.failed(index, &error, None, None);
    }

    pub(super) fn job_of_waiting(&self, number: u32, index: u32, gate: Gate) -> Option<Job> {
        let mut slots = self.slots.open.borrow_mut();
        let slot = slots[number as usize].as_mut()?;
        let (name, directory) = match self.form(&slot.entries.get(index)) {
            Ok(form) => form,
            Err(error) => {
                self.shared.cancel.fail(error.into_kind(Kind::Internal).of_sink()); // it was admitted before
                return None;
            }
        };
        slot.waiting -= 1;
        slot.in_flight += u32::from(!directory);
        if directory {
            let host = slot.host(index);
            drop(slots);
            if gate == Gate::Probe {
                self.shared.hosts.unprobed(host); // nothing is asked of it
            }
            self.make_directory(number, index, &name);
            return None;
        }
        if gate == Gate::Probe {
            self.add_probe(number, index);
        }
        Some(job(slot, number, index, name))
    }

    /// The next object of a slot that has to be fetched. Those that need not be are settled on the way.
    fn next_of(&self, number: u32, asking: &Asking<'_>) -> Option<Job> {
        loop {
            match self.before_fresh(number, asking).unwrap_or_else(|| self.take_fresh(number, asking)) {
                Next::Job(job) => return Some(job),
                Next::More => {}
                Next::Nothing => return None,
            }
        }
    }

    /// Whether a slot has to wait, or something that was given back comes first.
    fn before_fresh(&self, number: u32, asking: &Asking<'_>) -> Option<Next> {
        let mut slots = self.slots.open.borrow_mut();
        let Some(Some(slot)) = slots.get_mut(number as usize) else { return Some(Next::Nothing) };
        if let Some(index) = slot.open.peek() {
            let place = Place { seq: slot.open.partition.seq, index };
            let is_closed = || self.waits_in_place(slot) && self.shared.hosts.look(slot.host(index)) == Gate::Closed;
            if !self.writer.borrow_mut().has_room(place) || is_closed() {
                return Some(Next::Nothing);
            }
        }
        let host = slot.open.host?;
        let has_fresh = slot.open.untaken() > 0;
        if (has_fresh || !slot.given_back.is_empty()) && self.is_blocked(host, asking) {
            drop(slots);
            self.park(number, host);
            return Some(Next::Nothing);
        }
        if has_fresh && self.look(host) != Gate::Open {
            return None; // a probe with an object that has not failed yet tells most about its host
        }
        let index = slot.given_back.pop_front()?;
        drop(slots);
        if self.look(host) == Gate::Away {
            self.fail_waiting(number, index, host);
            return Some(Next::More);
        }
        Some(self.again_of(number, index, host).map_or(Next::Nothing, Next::Job))
    }

    /// Whether no object of this host can be requested now, and none fails.
    fn is_blocked(&self, host: HostId, asking: &Asking<'_>) -> bool {
        match self.look(host) {
            Gate::Open | Gate::Probe => !(asking.has_room)(host) || self.is_held_up(host),
            Gate::Closed => true,
            Gate::Away => false,
        }
    }

    /// Takes an entry of a partition that is cut, to settle it without fetching it. False if none is left.
    pub(super) fn settles_fresh(&self, number: u32) -> bool {
        let asking = Asking { own: None, has_room: &|_| false }; // it requests nothing
        !self.shared.cancel.is_raised() && matches!(self.take_fresh(number, &asking), Next::More)
    }

    /// Takes an entry that no lane has taken.
    fn take_fresh(&self, number: u32, asking: &Asking<'_>) -> Next {
        let mut slots = self.slots.open.borrow_mut();
        let Some(Some(slot)) = slots.get_mut(number as usize) else { return Next::Nothing };
        let Some(index) = slot.open.take(self.index) else {
            if !slot.given_back.is_empty() {
                return Next::More; // another lane has taken the last one meanwhile
            }
            drop(slots);
            self.close_if_settled(number);
            self.slots.take_no_more(number);
            return Next::Nothing;
        };
        let entry = slot.entries.get(index);
        match self.admit(&entry) {
            Admit::Fetch(_) if slot.is_cut => {
                drop(slots);
                self.postpone(number, index);
                self.close_if_settled(number);
                return Next::More;
            }
            Admit::Fetch(name) if !self.shared.options.dry_run => {
                drop(slots);
                return self.fetch(number, index, name, asking);
            }
            Admit::Fetch(_) if entry.unlisted.is_some() => {
                let why = "it represents names that could not be listed";
                self.count_failed();
                slot.failed(index, &Error::new(Kind::ReadFailed, why), None, None);
            }
            Admit::Fetch(_) => {
                slot.written(index, 0, false);
                add(&self.counters().written, 1);
            }
            Admit::Make(name) => {
                drop(slots);
                self.make_directory(number, index, &name);
                return if self.shared.cancel.is_raised() { Next::Nothing } else { Next::More };
            }
            Admit::Skip(reason) => {
                slot.skipped(index, reason);
                self.count_skipped(reason);
                self.slots.skip_in_sink(number, index);
            }
            Admit::Refuse(error) if error.class() == Class::Run => {
                self.shared.cancel.fail(error.of_sink());
                slot.waiting += 1; // stays unfinished
                return Next::Nothing;
            }
            Admit::Refuse(error) => {
                self.fail_unasked(slot, index, error);
                self.slots.skip_in_sink(number, index);
            }
        }
        drop(slots);
        self.close_if_settled(number);
        Next::More
    }

    /// Requests an entry that was taken, if its host takes a request.
    fn fetch(&self, number: u32, index: u32, name: ObjectKey, asking: &Asking<'_>) -> Next {
        let (hosts, Some(host)) = (&self.shared.hosts, self.slots.host(number, index)) else { return Next::Nothing };
        let mut slots = self.slots.open.borrow_mut();
        let Some(Some(slot)) = slots.get_mut(number as usize) else { return Next::Nothing };
        if self.steps_aside(slot) && self.is_blocked(host, asking) {
            drop(slots);
            if !self.defer_unasked(asking, number, index, false) {
                self.slots.open.borrow_mut()[number as usize].iter_mut().for_each(|slot| slot.waiting += 1);
                self.waiting.again.borrow_mut().push_back((number, index));
            }
            self.close_if_settled(number);
            return Next::More;
        }
        match hosts.gate(host) {
            Gate::Away => {
                self.fail_unasked(slot, index, hosts.away(host));
                drop(slots);
                self.slots.skip_in_sink(number, index);
                self.close_if_settled(number);
                Next::More
            }
            Gate::Closed => {
                slot.waiting += 1;
                drop(slots);
                self.wait_again(number, index);
                Next::Nothing
            }
            gate => {
                if gate == Gate::Probe {
                    self.add_probe(number, index);
                }
                slot.in_flight += 1;
                Next::Job(job(slot, number, index, name))
            }
        }
    }

    /// Has the sink make a directory that nothing else would bring along, and settles the entry that stands for it.
    fn make_directory(&self, number: u32, index: u32, name: &ObjectKey) {
        let made = self.timed(number, |writer| writer.directory(name));
        let mut slots = self.slots.open.borrow_mut();
        let Some(slot) = slots[number as usize].as_mut() else { return };
        match made {
            Ok(()) => {
                slot.skipped(index, Reason::Directory);
                self.count_skipped(Reason::Directory);
            }
            Err(error) => match error.class() {
                Class::Object => {
                    let error = error.within(slot.entries.within(index).as_deref());
                    self.count_failed();
                    slot.failed(index, &error, None, None);
                    self.shared.check_failures(&slot.entries.get(index), &error, 1);
                }
                Class::Run => {
                    self.shared.cancel.fail(error);
                    slot.waiting += 1; // stays unfinished
                    return;
                }
                Class::Retry if error.kind() == Kind::OutOfFiles => {
                    slot.waiting += 1;
                    self.shared.counters.out_of_files.fetch_add(1, Relaxed);
                    self.waiting.due.borrow_mut().push(Reverse((Instant::now() + FILES_WAIT, number, index)));
                    return;
                }
                Class::Retry => {
                    let (error, retry) = (error.host(DESTINATION), &self.shared.destination);
                    let paused = retry.paused(DESTINATION);
                    let tried = slot.count_try(index, Side::Sink, paused, Duration::ZERO);
                    let (count, time) = (tried.count, tried.time(paused));
                    let wait = match retry.failed(&error, count, time, false) {
                        Verdict::Again(wait) => Some(wait),
                        Verdict::Uncharged => {
                            slot.uncount_try(index, Side::Sink);
                            Some(PROBE_MIN)
                        }
                        Verdict::GiveUp => None,
                    };
                    if let Some(wait) = wait {
                        slot.waiting += 1;
                        self.waiting.due.borrow_mut().push(Reverse((Instant::now() + wait, number, index)));
                        return;
                    }
                    let error = error.within(slot.entries.within(index).as_deref());
                    self.count_failed();
                    slot.failed(index, &error, Some((count, time)), None);
                    self.shared.check_failures(&slot.entries.get(index), &error, count);
                }
            },
        }
        drop(slots);
        self.slots.skip_in_sink(number, index);
        self.close_if_settled(number);
    }

    fn admit(&self, entry: &Entry<'_>) -> Admit {
        let lists_directory = matches!(entry.skip, Some(Skip::Directory { .. }));
        let admits = match entry.unlisted {
            None => self.shared.filter.admits(entry.name, lists_directory),
            Some(unlisted) => self.shared.filter.may_admit(unlisted, entry.name),
        };
        match entry.skip {
            // Whatever it is: that it is left out was asked for.
            _ if !admits => return Admit::Skip(Reason::Filtered),
            None | Some(Skip::Marker | Skip::Directory { make: true }) => {}
            Some(skip) => return Admit::Skip(skip.reason()),
        }
        match self.form(entry) {
            Ok((name, true)) => Admit::Make(name),
            Ok((name, false)) => Admit::Fetch(name),
            Err(error) => Admit::Refuse(error),
        }
    }

    /// What the sink calls an entry, and whether it is a directory there.
    fn form(&self, entry: &Entry<'_>) -> Result<(ObjectKey, bool)> {
        let sink = &self.shared.sink;
        match sink.admit(entry.name) {
            Err(_) if entry.skip == Some(Skip::Marker) && entry.name.ends_with(b"/") => {
                Ok((sink.admit(&entry.name[..entry.name.len() - 1])?, true))
            }
            name => Ok((name?, matches!(entry.skip, Some(Skip::Directory { .. })))),
        }
    }
}

fn job(slot: &LanePartition, number: u32, index: u32, name: ObjectKey) -> Job {
    Job {
        slot: number,
        index,
        entries: slot.entries.clone(),
        tried: slot.is_tried(index),
        doubted: slot.is_doubted(index),
        again: slot.is_again(),
        name,
    }
}

/// What comes of a look at a slot.
enum Next {
    Job(Job),
    /// Something was settled; look again.
    More,
    /// Nothing can be taken from it now.
    Nothing,
}

enum Admit {
    Fetch(ObjectKey),
    Make(ObjectKey),
    Skip(Reason),
    Refuse(Error),
}
