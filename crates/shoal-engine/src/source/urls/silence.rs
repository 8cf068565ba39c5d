//! Requests of which nothing has arrived for so long that others continue without them. Not here: what follows from that
//! (`Lane::hangs`).

use std::cell::Cell;
use std::time::Duration;

use crate::source::{Job, JobId};

/// How often it is looked for such requests.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// How long a request may be without an answer: to a host that has never answered …
pub(super) const FIRST_PATIENCE: Duration = Duration::from_secs(1);
/// … and to one that has, but answers no other request either: it may be slow.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The request of one connection that waits for its answer, or for more of it.
#[derive(Default)]
pub(super) struct Asked {
    job: Cell<Option<JobId>>,
    /// Grows with each request, and with each part of an answer.
    count: Cell<u64>,
    /// The same at the last look that found it grown, and when that was.
    seen: Cell<(u64, Duration)>,
    is_told: Cell<bool>,
}

impl Asked {
    /// A request is sent, or its object is waited for again.
    pub fn asks(&self, job: &Job) {
        self.job.set(Some(job.id()));
        self.is_told.set(false);
        self.count.set(self.count.get() + 1);
    }

    /// The answer is complete, or is not waited for now.
    pub fn answered(&self) {
        self.job.set(None);
    }

    /// A part of the answer has arrived. Returns the job if it was told that it hangs.
    pub fn arrives(&self) -> Option<JobId> {
        self.count.set(self.count.get() + 1);
        self.job.get().filter(|_| self.is_told.replace(false))
    }

    /// For how long nothing has arrived; `None` if nothing is waited for.
    pub fn silent_for(&self, now: Duration) -> Option<Duration> {
        self.job.get()?;
        let (count, since) = self.seen.get();
        if count != self.count.get() {
            self.seen.set((self.count.get(), now));
            return Some(Duration::ZERO);
        }
        Some(now.saturating_sub(since))
    }

    /// The job, unless it was told before.
    pub fn tell(&self) -> Option<JobId> {
        self.job.get().filter(|_| !self.is_told.replace(true))
    }
}
