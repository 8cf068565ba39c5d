//! Samples: while answers without ids are trusted to come in order, now and then an object is also fetched alone. Here
//! is when that is due, and the error if the bytes differ. The first sample is due early, the next ones after ever more
//! objects. So a service that begins to answer out of order is detected within as many objects as came in order before,
//! and within 10,000.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::SystemTime;

use shoal_core::error::{Error, Kind};
use shoal_core::poison::ignore_poison;

/// Objects before the first sample, and between two samples in the long run: 1 in 10,000 adds 0.01 % to all requests.
const FIRST: usize = 100;
const BETWEEN: usize = 10_000;

/// The samples of one service.
#[derive(Debug)]
pub(crate) struct Samples {
    /// Pipelined objects since the last sample that was equal.
    since: AtomicUsize,
    /// The next sample is due after so many.
    due: AtomicUsize,
    /// Some connection is taking a sample.
    busy: AtomicBool,
    /// The time of the last sample, or check, that was equal.
    last_match: Mutex<Option<SystemTime>>,
}

impl Default for Samples {
    fn default() -> Self {
        let (since, due) = (AtomicUsize::new(0), AtomicUsize::new(FIRST));
        Samples { since, due, busy: AtomicBool::new(false), last_match: Mutex::new(None) }
    }
}

impl Samples {
    /// The check has passed.
    pub fn start(&self) {
        *self.last_match() = Some(SystemTime::now());
    }

    /// Counts further objects. True if a sample is due: the caller takes it.
    pub fn is_due(&self, objects: usize) -> bool {
        let since = self.since.fetch_add(objects, Relaxed) + objects;
        since >= self.due.load(Relaxed) && !self.busy.swap(true, Relaxed)
    }

    /// The sample could not be taken: another is due at once.
    pub fn missed(&self) {
        self.busy.store(false, Relaxed);
    }

    /// The sample is equal.
    pub fn matched(&self) {
        self.start();
        self.since.store(0, Relaxed);
        self.due.store((self.due.load(Relaxed) * 2).min(BETWEEN), Relaxed);
        self.busy.store(false, Relaxed);
    }

    /// The error of an object whose sample differs. No further sample is taken: pipelining ends.
    pub fn mismatch(&self) -> Error {
        self.out_of_order(
            "its bytes differ when it is requested alone, without pipelining: the service answers out of order, or the \
            object has changed",
        )
    }

    /// The error for all objects that may have the bytes of others. Retrying one of them would not correct the others.
    pub fn out_of_order(&self, why: &str) -> Error {
        let since =
            self.last_match().map_or_else(String::new, |time| format!(" since {}", httpdate::fmt_http_date(time)));
        let what = format!("objects written{since} may contain the bytes of other objects");
        let why = format!("{why}; {what}: fetch all of them again with `resume=\"restart\"` and `pipeline=\"off\"`");
        Error::new(Kind::OutOfOrder, why)
    }

    fn last_match(&self) -> std::sync::MutexGuard<'_, Option<SystemTime>> {
        ignore_poison(self.last_match.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_due_ever_later_and_one_at_a_time() {
        let samples = Samples::default();
        let mut wanted = FIRST;
        for _ in 0..20 {
            assert!(!samples.is_due(wanted - 1) && samples.is_due(1));
            assert!(!samples.is_due(100), "one is being taken");
            samples.missed();
            assert!(samples.is_due(0), "it was not, so it is still due");
            samples.matched();
            wanted = (wanted * 2).min(BETWEEN);
        }
        assert_eq!(wanted, BETWEEN);
        assert!(samples.mismatch().why().contains("`pipeline=\"off\"`"));
    }
}
