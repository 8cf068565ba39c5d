//! The stop flag of a run and why it was raised. Raised once; the first reason stays.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Kind, Side};
use crate::poison::ignore_poison;

/// Shared by all threads of one run.
#[derive(Default)]
pub(crate) struct Cancel {
    raised: AtomicBool,
    reason: Mutex<Option<Error>>,
}

impl Cancel {
    /// Whether all threads should stop taking work.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Stops the run because of `error`; a later reason is dropped.
    pub fn fail(&self, error: Error) {
        let mut reason = ignore_poison(self.reason.lock());
        reason.get_or_insert(error);
        self.raised.store(true, Ordering::Release);
    }

    /// Stops the run because the caller wants it.
    pub fn interrupt(&self) {
        self.fail(Error::new(Kind::Interrupted, "interrupted; run the same command again to resume"));
    }

    /// Whether the destination may still be written to: neither it nor shoal itself is what failed.
    pub fn spares_sink(&self) -> bool {
        let reason = ignore_poison(self.reason.lock());
        reason.as_ref().is_none_or(|error| error.side() == Side::Source && error.kind() != Kind::Internal)
    }

    /// The reason, once the run has ended.
    pub fn take_reason(&self) -> Option<Error> {
        ignore_poison(self.reason.lock()).take()
    }
}
