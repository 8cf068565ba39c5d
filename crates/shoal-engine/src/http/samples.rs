//! While answers without ids are trusted to come in order: when one of them is asked for again alone, and what is said when
//! the two are not the same. The first sample is due soon, the next ones ever later: a service that begins to answer out of
//! order is found within as many objects as came in order before it, and within 10,000.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::SystemTime;

use crate::error::{Error, Kind};

/// Objects before the first sample, and between two in the long run: at 10,000, they are 0.01 % of all requests.
const FIRST: usize = 100;
const BETWEEN: usize = 10_000;

/// The samples of one service.
#[derive(Debug)]
pub(super) struct Samples {
    /// Objects that came pipelined since the last sample that was the same.
    since: AtomicUsize,
    /// At so many, the next one is due.
    due: AtomicUsize,
    /// Some connection is taking one.
    busy: AtomicBool,
    /// When the last one was asked for that was the same.
    good: Mutex<Option<SystemTime>>,
}

impl Default for Samples {
    fn default() -> Self {
        let (since, due) = (AtomicUsize::new(0), AtomicUsize::new(FIRST));
        Samples { since, due, busy: AtomicBool::new(false), good: Mutex::new(None) }
    }
}

impl Samples {
    /// The comparison found nothing wrong.
    pub fn begin(&self) {
        *self.good() = Some(SystemTime::now());
    }

    /// So many more have come; `true` to the one who takes the sample that is due now.
    pub fn came(&self, objects: usize) -> bool {
        let since = self.since.fetch_add(objects, Relaxed) + objects;
        since >= self.due.load(Relaxed) && !self.busy.swap(true, Relaxed)
    }

    /// It could not be taken: another is due at once.
    pub fn missed(&self) {
        self.busy.store(false, Relaxed);
    }

    /// It was taken, and is the same.
    pub fn same(&self) {
        self.begin();
        self.since.store(0, Relaxed);
        self.due.store((self.due.load(Relaxed) * 2).min(BETWEEN), Relaxed);
        self.busy.store(false, Relaxed);
    }

    /// It is not the same: the failure of the object. No other is taken; nothing is sent ahead any more.
    pub fn differs(&self) -> Error {
        self.disorder(
            "its bytes differ when it is requested alone, without pipelining: the service answers out of \
        order, or the object has changed",
        )
    }

    /// The failure that stands for all objects that may be others. Trying it alone again mends none of them.
    pub fn disorder(&self, why: &str) -> Error {
        let since = self.good().map_or_else(String::new, |time| format!(" since {}", httpdate::fmt_http_date(time)));
        let what = format!("objects written{since} may contain the bytes of other objects");
        let why = format!("{why}; {what}: fetch all of them again with `resume=\"restart\"` and `pipeline=\"off\"`");
        Error::new(Kind::OutOfOrder, why)
    }

    fn good(&self) -> std::sync::MutexGuard<'_, Option<SystemTime>> {
        self.good.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
            assert!(!samples.came(wanted - 1) && samples.came(1));
            assert!(!samples.came(100), "one is being taken");
            samples.missed();
            assert!(samples.came(0), "it was not, so it is still due");
            samples.same();
            wanted = (wanted * 2).min(BETWEEN);
        }
        assert_eq!(wanted, BETWEEN);
        assert!(samples.differs().why().contains("`pipeline=\"off\"`"));
    }
}
