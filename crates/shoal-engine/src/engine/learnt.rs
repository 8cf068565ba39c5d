//! What this session has learnt about the number of objects in flight, on its way to the journal, where the next session
//! finds it (`Standing::learnt`).
//!
//! The thread that watches the run notes it, the committer reads it: it is stored with each commit and at the end, so that
//! a kill loses little. Not here: how the number is found (`concurrency/`).

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Objects after which a session has learnt something: a second or less with a fast source.
const OBJECTS: u64 = 2_000;
/// … or time, with a slow one or with large objects: some ten looks at the throughput.
const TIME: Duration = Duration::from_secs(3);

/// What was learnt; 0 = nothing yet.
#[derive(Debug, Default)]
pub(crate) struct Learnt(AtomicU32);

impl Learnt {
    /// Notes what was found. A session that had next to nothing to do has only seen where the search starts: that must not
    /// replace what one that worked has found.
    pub fn note(&self, found: Option<u32>, objects: u64, elapsed: Duration) {
        let has_worked = objects >= OBJECTS || objects > 0 && elapsed >= TIME;
        if let Some(found) = found.filter(|_| has_worked) {
            self.0.store(found, Relaxed);
        }
    }

    /// What the journal should have; `None`: what it has stays.
    pub fn get(&self) -> Option<u32> {
        Some(self.0.load(Relaxed)).filter(|&found| found > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_that_worked_has_learnt_something() {
        for (found, objects, elapsed, learnt) in [
            (Some(32), 0, TIME * 9, None),
            (Some(32), OBJECTS - 1, TIME / 2, None),
            (Some(32), OBJECTS, TIME / 2, Some(32)),
            (Some(32), 1, TIME, Some(32)),
            (None, OBJECTS, TIME, None),
        ] {
            let this = Learnt::default();
            this.note(found, objects, elapsed);
            assert_eq!(this.get(), learnt, "{found:?} {objects} {elapsed:?}");
        }
    }

    #[test]
    fn the_last_number_counts_and_none_changes_nothing() {
        let this = Learnt::default();
        for found in [Some(32), Some(64), None] {
            this.note(found, OBJECTS, TIME);
        }
        assert_eq!(this.get(), Some(64));
    }
}
