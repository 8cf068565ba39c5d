//! The requests of one connection, and for how long nothing of their answers has arrived. Not here: when they hang
//! (`hosts/silence.rs`), what follows (`Lane::hangs`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use crate::source::{Job, JobId};

/// The requests that wait for their answers, or for the rest of these.
#[derive(Default)]
pub(super) struct Asked {
    /// The oldest first.
    jobs: RefCell<VecDeque<JobId>>,
    /// How many of these were told, from the first.
    told: Cell<usize>,
    /// Grows with each part of an answer, and when a request is sent that is the only one.
    count: Cell<u64>,
    /// The same at the last look that found it grown, and when that was.
    seen: Cell<(u64, Duration)>,
    /// The sink has no room for what arrives.
    is_held_up: Cell<bool>,
    /// The host has redirected the request.
    is_redirected: Cell<bool>,
}

impl Asked {
    /// A request is sent.
    pub fn asks(&self, job: &Job) {
        let mut jobs = self.jobs.borrow_mut();
        if jobs.is_empty() {
            self.is_redirected.set(false);
            self.grow();
        }
        jobs.push_back(job.id());
    }

    /// A job is answered.
    pub fn answered(&self, job: &Job) {
        let mut jobs = self.jobs.borrow_mut();
        let Some(at) = jobs.iter().position(|asked| *asked == job.id()) else { return };
        jobs.remove(at);
        self.told.set(self.told.get() - usize::from(at < self.told.get()));
        self.grow();
    }

    /// Something has arrived. Returns the jobs of which it was told that they hang.
    pub fn arrives(&self) -> Vec<JobId> {
        self.grow();
        match self.told.replace(0) {
            0 => Vec::new(),
            told => self.jobs.borrow().iter().take(told).copied().collect(),
        }
    }

    /// The answer is a redirect, which is followed. Such a request is alone.
    pub fn redirected(&self) -> Option<JobId> {
        self.is_redirected.set(true);
        self.jobs.borrow().front().copied()
    }

    pub fn is_redirected(&self) -> bool {
        self.is_redirected.get()
    }

    /// Whether the sink has no room for the answer.
    pub fn set_held_up(&self, is_held_up: bool) {
        self.is_held_up.set(is_held_up);
        self.grow();
    }

    /// For how long nothing has arrived; `None` if nothing is waited for.
    pub fn silent_for(&self, now: Duration) -> Option<Duration> {
        if self.jobs.borrow().is_empty() || self.is_held_up.get() {
            return None;
        }
        let (count, since) = self.seen.get();
        if count != self.count.get() {
            self.seen.set((self.count.get(), now));
            return Some(Duration::ZERO);
        }
        Some(now.saturating_sub(since))
    }

    /// The jobs that were not told before.
    pub fn tell(&self) -> Vec<JobId> {
        let jobs = self.jobs.borrow();
        let told = self.told.replace(jobs.len());
        jobs.iter().skip(told).copied().collect()
    }

    fn grow(&self) {
        self.count.set(self.count.get() + 1);
    }
}
