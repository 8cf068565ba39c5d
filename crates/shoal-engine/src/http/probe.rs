//! Measures whether pipelining helps, for a service that echoes ids. Two requests are sent at once; what counts is how
//! long after the first answer the second arrives. A service that handles the requests of a connection one after the
//! other takes as long again: more connections are better. Only one connection at a time probes.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Requests that are sent at once.
pub(super) const REQUESTS: usize = 2;
/// A second answer within this time costs the connection nothing, however long the first one took.
const SOON: Duration = Duration::from_millis(1);

/// The probe of one connection. No other connection probes until it is dropped.
pub(super) struct Probe<'a> {
    probing: &'a AtomicBool,
    stage: Stage,
}

enum Stage {
    Unsent,
    /// So many requests were sent at this time.
    Sent(Instant, usize),
    /// The first answer took so long, and arrived at this time.
    First(Duration, Instant),
}

/// The result of a probe.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProbeResult {
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

    /// Whether the requests are still to be sent.
    pub fn is_unsent(&self) -> bool {
        matches!(self.stage, Stage::Unsent)
    }

    /// So many requests were sent.
    pub fn sent(&mut self, requests: usize) {
        if requests > 0 {
            self.stage = Stage::Sent(Instant::now(), requests);
        }
    }

    /// So many answers have been read in all. Returns the result once it is known.
    pub fn answered(&mut self, answers: usize) -> Option<ProbeResult> {
        match (&self.stage, answers) {
            (Stage::Unsent, _) | (_, 0) => None,
            (Stage::Sent(_, 1), _) => Some(ProbeResult::Nothing),
            (Stage::Sent(at, _), 1) => {
                self.stage = Stage::First(at.elapsed(), Instant::now());
                None
            }
            (Stage::Sent(..), _) => Some(ProbeResult::Gain),
            (Stage::First(..), 1) => None,
            (Stage::First(took, at), _) => {
                let gain = at.elapsed() < SOON.max(*took / 2);
                Some(if gain { ProbeResult::Gain } else { ProbeResult::NoGain })
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
        sleep(Duration::from_millis(400)); // not much shorter than the first wait, also on a busy machine
        assert_eq!(serial.answered(2), Some(ProbeResult::NoGain));

        let mut both = probe();
        both.sent(2);
        assert_eq!(both.answered(2), Some(ProbeResult::Gain), "in one reading");

        let mut ahead = probe();
        ahead.sent(2);
        sleep(Duration::from_millis(400)); // longer than a busy machine stops us in between
        assert_eq!(ahead.answered(1), None);
        assert_eq!(ahead.answered(2), Some(ProbeResult::Gain));

        let mut single = probe();
        single.sent(1);
        assert_eq!(single.answered(1), Some(ProbeResult::Nothing));
    }
}
