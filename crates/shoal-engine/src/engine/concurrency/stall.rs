//! A stall of a service: nothing comes any more since there are more in flight.
//!
//! The queue of a small server is full then. The kernel drops what asks for a connection, everything waits until it is sent
//! again, comes at once, and fills the queue anew. So a number that has not yet proved itself is given up at the first stall.

use std::time::{Duration, Instant};

use super::window::{Sample, Window};

/// Time without an object that is a stall: well below the 200 ms after which a kernel sends again.
const STALLED: Duration = Duration::from_millis(60);
/// Ticks of the lanes' clocks, every 20 ms, in which they have seen that nothing comes.
const BEATS: u64 = 2;
/// Time for which a number must be in force without a stall. A later stall has another cause.
const PROVED: Duration = Duration::from_millis(300);
/// What is left of the best rate with each window.
const FADING: f64 = 0.9;

pub(super) struct Stall {
    /// Settled objects and bytes so far, when the last of them came, and the beats until then.
    progress: ((u64, u64), Instant, u64),
    /// The last look.
    looked: Instant,
    /// Objects a second, lately.
    rate: f64,
    /// The largest number that has proved itself; 0: none.
    proved: usize,
    /// A larger one, and for how long it was in force.
    trial: (usize, Duration),
}

impl Stall {
    pub fn new(began: Instant) -> Stall {
        Stall { progress: ((0, 0), began, 0), looked: began, rate: 0.0, proved: 0, trial: (0, Duration::ZERO) }
    }

    /// Nothing can come now, or nothing that tells.
    pub fn pause(&mut self, now: Instant) {
        (self.progress.1, self.looked) = (now, now);
    }

    /// This number needs no more connections than have proved themselves.
    pub fn trust(&mut self, number: usize) {
        self.proved = self.proved.max(number);
    }

    /// What a window has brought.
    pub fn measured(&mut self, window: &Window) {
        self.rate = (window.objects / window.seconds).max(self.rate * FADING);
    }

    /// Looks while `number` is in force; the number to go back to, if it has stalled.
    pub fn look(&mut self, sample: &Sample, number: usize) -> Option<usize> {
        let passed = sample.now.saturating_duration_since(std::mem::replace(&mut self.looked, sample.now));
        let done = (sample.settled, sample.bytes);
        if done != self.progress.0 || sample.in_flight == 0 {
            self.progress = (done, sample.now, sample.beats);
        }
        if number <= self.proved.max(1) {
            return None;
        }
        // A distant server answers in waves, of as many as are in flight; the first after a change may be twice as late.
        let wave = Duration::try_from_secs_f64(3.0 * number as f64 / self.rate).unwrap_or(Duration::MAX);
        // Lanes that are blocked in the sink would not see what comes.
        let awake = sample.beats >= self.progress.2 + BEATS;
        if awake && sample.now.saturating_duration_since(self.progress.1) >= STALLED.max(wave) {
            self.pause(sample.now);
            return Some(if self.proved > 0 { self.proved } else { number / 2 });
        }
        if self.trial.0 != number {
            self.trial = (number, Duration::ZERO);
        }
        self.trial.1 += passed;
        if self.trial.1 >= PROVED.max(wave) && self.rate > 0.0 {
            self.proved = number;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 10 ms for so long; the number to go back to, if there was a stall.
    fn look(stall: &mut Stall, sample: &mut Sample, number: usize, millis: u64, objects: u64) -> Option<usize> {
        (0..millis / 10).find_map(|_| {
            sample.now += Duration::from_millis(10);
            sample.settled += objects;
            sample.beats += 1;
            sample.in_flight = number;
            stall.look(sample, number)
        })
    }

    #[test]
    fn a_number_that_stalls_before_it_has_proved_itself_is_given_up() {
        let mut sample = Sample::at(Instant::now());
        let mut stall = Stall::new(sample.now);
        assert_eq!(
            look(&mut stall, &mut sample, 4, 500, 0),
            None,
            "nothing is known yet: the first answer may be slow"
        );
        stall.measured(&Window { objects: 100.0, bytes: 0.0, seconds: 0.04, filled: 1.0, cores: 0.0 });
        assert_eq!(look(&mut stall, &mut sample, 4, 400, 25), None);
        assert_eq!(look(&mut stall, &mut sample, 8, 50, 25), None);
        assert_eq!(look(&mut stall, &mut sample, 16, 100, 0), Some(4), "8 had no time to prove itself");
        assert_eq!(look(&mut stall, &mut sample, 8, 400, 25), None);
        assert_eq!(look(&mut stall, &mut sample, 8, 400, 0), None, "a later stall has another cause");
        assert_eq!(look(&mut stall, &mut sample, 8, 10, 25), None);
        for _ in 0..40 {
            sample.now += Duration::from_millis(10);
            assert_eq!(stall.look(&sample, 16), None, "the lanes are blocked in the sink");
        }
    }

    #[test]
    fn a_distant_service_may_answer_in_waves() {
        let mut sample = Sample::at(Instant::now());
        let mut stall = Stall::new(sample.now);
        stall.measured(&Window { objects: 8.0, bytes: 0.0, seconds: 0.3, filled: 1.0, cores: 0.0 });
        for _ in 0..10 {
            assert_eq!(look(&mut stall, &mut sample, 16, 290, 0), None);
            assert_eq!(look(&mut stall, &mut sample, 16, 10, 16), None);
        }
    }
}
