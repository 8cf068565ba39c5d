//! Measures whether pipelining helps, for a service that echoes ids. Two requests are sent at once; what counts is how
//! long after the first answer the second arrives. A service that handles the requests of a connection one after the
//! other takes as long again: more connections are better. Only one connection at a time probes.
//!
//! If the service pauses before its first answer, the second seems to come soon after it, whatever the service does. So the
//! first answer counts as no later than the earliest first answer on any connection, and a gain must be seen twice in a row.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Requests that are sent at once.
pub(crate) const REQUESTS: usize = 2;
/// Gains in a row that prove it.
const GAINS: u32 = 2;
/// A second answer within this time costs the connection nothing, however long the first one took.
const SOON: Duration = Duration::from_millis(1);

/// The probe of one connection. No other connection probes until it is dropped.
pub(crate) struct Probe<'a> {
    probing: &'a AtomicBool,
    /// The shortest time of a first answer on any connection.
    pub(crate) shortest: Duration,
    stage: Stage,
    /// Gains so far, and the answers until the last of them.
    gains: (u32, usize),
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
pub(crate) enum ProbeResult {
    Gain,
    NoGain,
    /// A gain was not seen again.
    Unclear,
    /// There was only one request to send.
    Nothing,
}

impl<'a> Probe<'a> {
    /// `probing` is true until the probe is dropped.
    pub fn new(probing: &'a AtomicBool, shortest: Duration) -> Probe<'a> {
        Probe { probing, shortest, stage: Stage::Unsent, gains: (0, 0) }
    }

    /// Whether requests are to be sent.
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
        match (&self.stage, answers - self.gains.1) {
            (Stage::Unsent, _) | (_, 0) => None,
            (Stage::Sent(_, 1), _) => Some(ProbeResult::Nothing),
            (Stage::Sent(at, _), 1) => {
                self.stage = Stage::First(at.elapsed(), Instant::now());
                None
            }
            (Stage::Sent(..), _) => self.gain(answers),
            (Stage::First(..), 1) => None,
            (Stage::First(took, at), _) => {
                if at.elapsed() < SOON.max((*took).min(self.shortest) / 2) {
                    return self.gain(answers);
                }
                Some(if self.gains.0 == 0 { ProbeResult::NoGain } else { ProbeResult::Unclear })
            }
        }
    }

    fn gain(&mut self, answers: usize) -> Option<ProbeResult> {
        self.gains = (self.gains.0 + 1, answers);
        self.stage = Stage::Unsent;
        (self.gains.0 == GAINS).then_some(ProbeResult::Gain)
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

    const SHORTEST: Duration = Duration::from_millis(5);

    fn sent(probing: &AtomicBool, shortest: Duration, requests: usize) -> Probe<'_> {
        let mut probe = Probe::new(probing, shortest);
        probe.sent(requests);
        probe
    }

    #[test]
    fn a_second_answer_that_takes_as_long_as_the_first_is_no_gain() {
        let probing = AtomicBool::new(true);
        let mut serial = sent(&probing, SHORTEST, 2);
        assert_eq!(serial.answered(0), None);
        sleep(SHORTEST);
        assert_eq!(serial.answered(1), None);
        sleep(SHORTEST);
        assert_eq!(serial.answered(2), Some(ProbeResult::NoGain));
        assert_eq!(sent(&probing, SHORTEST, 1).answered(1), Some(ProbeResult::Nothing), "there was no second one");
    }

    #[test]
    fn a_pause_before_the_first_answer_is_no_gain() {
        let probing = AtomicBool::new(true);
        let mut paused = sent(&probing, SHORTEST, 2);
        sleep(SHORTEST * 20);
        assert_eq!(paused.answered(1), None);
        sleep(SHORTEST);
        assert_eq!(paused.answered(2), Some(ProbeResult::NoGain));
    }

    #[test]
    fn a_gain_that_is_seen_twice_in_a_row_is_one() {
        let probing = AtomicBool::new(true);
        let mut together = sent(&probing, SHORTEST, 2);
        assert_eq!((together.answered(2), together.is_unsent()), (None, true), "in one reading");
        together.sent(2);
        assert_eq!(together.answered(2), None, "those of before");
        assert_eq!(together.answered(4), Some(ProbeResult::Gain));

        let mut once = sent(&probing, SHORTEST, 2);
        assert_eq!(once.answered(2), None);
        once.sent(2);
        assert_eq!(once.answered(3), None);
        sleep(SHORTEST);
        assert_eq!(once.answered(4), Some(ProbeResult::Unclear));

        let mut soon = sent(&probing, Duration::from_secs(1), 2);
        sleep(Duration::from_millis(400)); // longer than a busy machine stops us between the next two
        assert_eq!((soon.answered(1), soon.answered(2), soon.is_unsent()), (None, None, true));
    }
}
