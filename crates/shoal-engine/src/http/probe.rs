//! Whether a service that echoes ids gains by requests sent ahead: two are sent at once, and what counts is how long the
//! second answer takes after the first. A service that works on one request of a connection at a time takes as long again
//! and is better off with more connections. Only one connection at a time finds that out; the others go on one at a time.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Requests that are sent at once to find out.
pub(super) const AHEAD: usize = 2;
/// An answer that follows so soon costs a connection nothing, whatever the first one took.
const SOON: Duration = Duration::from_millis(1);

/// The turn of one connection; given back when dropped.
pub(super) struct Probe<'a> {
    probing: &'a AtomicBool,
    stage: Stage,
}

enum Stage {
    Unsent,
    /// So many requests went out then.
    Sent {
        at: Instant,
        requests: usize,
    },
    /// The first answer took so long, and came then.
    First {
        took: Duration,
        at: Instant,
    },
}

/// What a probe has found out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Gain,
    NoGain,
    /// There was only one request to send.
    Nothing,
}

impl<'a> Probe<'a> {
    /// `probing` is true until the probe is dropped.
    pub fn new(probing: &'a AtomicBool) -> Probe<'a> {
        Probe { probing, stage: Stage::Unsent }
    }

    /// Whether requests are still to be sent.
    pub fn is_unsent(&self) -> bool {
        matches!(self.stage, Stage::Unsent)
    }

    pub fn sent(&mut self, requests: usize) {
        if requests > 0 {
            self.stage = Stage::Sent { at: Instant::now(), requests };
        }
    }

    /// So many of the answers have been read by now.
    pub fn answered(&mut self, answers: usize) -> Option<Found> {
        match (&self.stage, answers) {
            (Stage::Unsent, _) | (_, 0) => None,
            (Stage::Sent { requests: 1, .. }, _) => Some(Found::Nothing),
            (Stage::Sent { at, .. }, 1) => {
                self.stage = Stage::First { took: at.elapsed(), at: Instant::now() };
                None
            }
            (Stage::Sent { .. }, _) => Some(Found::Gain),
            (Stage::First { .. }, 1) => None,
            (Stage::First { took, at }, _) => {
                let gain = at.elapsed() < SOON.max(*took / 2);
                Some(if gain { Found::Gain } else { Found::NoGain })
            }
        }
    }
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        self.probing.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[test]
    fn a_second_answer_that_takes_as_long_as_the_first_is_no_gain() {
        let probing = AtomicBool::new(true);
        let probe = || Probe::new(&probing);
        let mut serial = probe();
        serial.sent(2);
        assert_eq!(serial.answered(0), None);
        sleep(Duration::from_millis(5));
        assert_eq!(serial.answered(1), None);
        sleep(Duration::from_millis(8));
        assert_eq!(serial.answered(2), Some(Found::NoGain));

        let mut both = probe();
        both.sent(2);
        assert_eq!(both.answered(2), Some(Found::Gain), "in one reading");

        let mut ahead = probe();
        ahead.sent(2);
        sleep(Duration::from_millis(400)); // longer than a busy machine stops us in between
        assert_eq!(ahead.answered(1), None);
        assert_eq!(ahead.answered(2), Some(Found::Gain));

        let mut single = probe();
        single.sent(1);
        assert_eq!(single.answered(1), Some(Found::Nothing));
    }
}
