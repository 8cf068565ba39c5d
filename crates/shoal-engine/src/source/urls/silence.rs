//! Which requests have been without an answer for so long that others continue without them. Not here: what follows from
//! that (`Lane::hangs`).

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::source::{Job, JobId};

/// How often it is looked for such requests.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// How long a request may be without an answer: to a host that has never answered …
pub(super) const FIRST_PATIENCE: Duration = Duration::from_secs(1);
/// … and to one that has, but answers no other request either: it may be slow.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The request of one connection that waits for its answer.
#[derive(Default)]
pub(super) struct Asked {
    /// The last one, until an answer comes.
    job: Cell<Option<JobId>>,
    /// Requests so far.
    count: Cell<u64>,
    /// The same at the last look that found a new one, and when that was.
    seen: Cell<(u64, Option<Instant>)>,
    is_told: Cell<bool>,
}

impl Asked {
    /// A request is sent.
    pub fn asks(&self, job: &Job) {
        self.job.set(Some(job.id()));
        self.count.set(self.count.get() + 1);
    }

    /// Something came.
    pub fn answered(&self) {
        self.job.set(None);
    }

    /// For how long it has been without an answer; `None` if nothing is asked.
    pub fn silent_for(&self, now: Instant) -> Option<Duration> {
        self.job.get()?;
        let count = self.count.get();
        match self.seen.get() {
            (seen, Some(since)) if seen == count => Some(now.duration_since(since)),
            _ => {
                self.seen.set((count, Some(now)));
                self.is_told.set(false);
                Some(Duration::ZERO)
            }
        }
    }

    /// The request, unless it was asked for before.
    pub fn tell(&self) -> Option<JobId> {
        self.job.get().filter(|_| !self.is_told.replace(true))
    }
}
