//! A stall: nothing comes any more.
//!
//! There may be more in flight than the queue of a small server takes. The kernel drops what asks for a connection, everything
//! waits until it is sent again, comes at once, and fills the queue anew. So a number that has not yet proved itself is given
//! up when nothing comes while connections take long to be made.
//!
//! Where all connections are made, the service has paused, whatever the number is. A window with such a pause measures
//! nothing, and is dropped. If a number causes it all the same, it does so again, and the windows tell.

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
/// Windows are dropped at most so often, and never two in a row: the search must not stand still.
const SPOILS_EVERY: Duration = Duration::from_secs(2);

pub(super) struct Stall {
    /// Settled objects and bytes so far.
    done: (u64, u64),
    /// When the last of them came, and the beats until then.
    came: (Instant, u64),
    silence: Silence,
    /// The last look.
    looked: Instant,
    /// Objects a second, lately.
    rate: f64,
    /// The largest number that has proved itself; 0: none.
    proved: usize,
    /// A larger one, and for how long it was in force.
    trial: (usize, Duration),
    /// When windows were dropped last, and whether one was measured since then.
    spoiled: Option<Instant>,
    has_measured: bool,
}

/// Whether something arrives, and what follows if not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silence {
    /// Something arrives.
    None,
    /// Nothing, and no window that this is part of counts.
    Spoils,
    /// Nothing, and the number was given up. A smaller one can change nothing before something comes.
    GivenUp,
}

impl Stall {
    pub fn new(began: Instant) -> Stall {
        Stall {
            done: (0, 0),
            came: (began, 0),
            silence: Silence::None,
            looked: began,
            rate: 0.0,
            proved: 0,
            trial: (0, Duration::ZERO),
            spoiled: None,
            has_measured: false,
        }
    }

    /// Nothing can come now, or nothing that tells.
    pub fn pause(&mut self, sample: &Sample) {
        (self.came, self.looked) = ((sample.now, sample.beats), sample.now);
        self.silence = Silence::None;
    }

    /// This number needs no more connections than have proved themselves.
    pub fn trust(&mut self, number: usize) {
        self.proved = self.proved.max(number);
    }

    /// What a window has brought.
    pub fn measured(&mut self, window: &Window) {
        self.rate = (window.objects / window.seconds).max(self.rate * FADING);
        self.has_measured = true;
    }

    /// Whether a window of now measures nothing.
    pub fn spoils_windows(&self) -> bool {
        self.silence == Silence::Spoils
    }

    /// Looks while `number` is in force. `largest` is the larger number of a comparison: the connections that take long may
    /// have been asked for under it. Returns the number to go back to, if `largest` is too much.
    pub fn look(&mut self, sample: &Sample, number: usize, largest: usize) -> Option<usize> {
        let passed = sample.now.saturating_duration_since(std::mem::replace(&mut self.looked, sample.now));
        let done = (sample.settled, sample.bytes);
        if std::mem::replace(&mut self.done, done) != done || sample.in_flight == 0 {
            (self.came, self.silence) = ((sample.now, sample.beats), Silence::None);
        }
        if self.silence == Silence::GivenUp {
            return None;
        }
        // A distant server answers in waves, of as many as are in flight; the first after a change may be twice as late.
        let wave = Duration::try_from_secs_f64(3.0 * number as f64 / self.rate).unwrap_or(Duration::MAX);
        let (came, beats) = self.came;
        // Lanes that are blocked in the sink would not see what comes.
        let awake = sample.beats >= beats + BEATS;
        let proved = self.proved.max(1);
        if awake && sample.now.saturating_duration_since(came) >= STALLED.max(wave) {
            self.trial = (number, Duration::ZERO);
            if sample.slow > 0 && largest > proved {
                self.silence = Silence::GivenUp;
                return Some(if self.proved > 0 { self.proved } else { largest / 2 });
            }
            if self.has_measured && self.spoiled.is_none_or(|spoiled| sample.now - spoiled >= SPOILS_EVERY) {
                (self.silence, self.spoiled, self.has_measured) = (Silence::Spoils, Some(sample.now), false);
                self.rate /= 2.0; // or the service answers more slowly now: the next windows tell
            }
            return None;
        }
        if number <= proved {
            return None;
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
            stall.look(sample, number, number)
        })
    }

    /// 4 in flight have proved themselves, 8 have had no time to.
    fn climbed() -> (Stall, Sample) {
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
        (stall, sample)
    }

    #[test]
    fn a_number_that_stalls_while_connections_take_long_is_given_up_unless_it_has_proved_itself() {
        let (mut stall, mut sample) = climbed();
        assert_eq!(look(&mut stall, &mut sample, 16, 50, 0), None);
        sample.slow = 3;
        assert_eq!(look(&mut stall, &mut sample, 16, 100, 0), Some(4));
        assert_eq!(look(&mut stall, &mut sample, 8, 900, 0), None, "nothing can be said before something comes");
        assert_eq!(look(&mut stall, &mut sample, 8, 400, 25), None);
        assert_eq!(look(&mut stall, &mut sample, 8, 400, 0), None, "8 has proved itself: it has another cause");
        assert_eq!(look(&mut stall, &mut sample, 8, 10, 25), None);
        for _ in 0..40 {
            sample.now += Duration::from_millis(10);
            assert_eq!(stall.look(&sample, 16, 16), None, "the lanes are blocked in the sink");
        }
        sample.beats += 40;
        assert_eq!(stall.look(&sample, 8, 32), Some(16), "the connections are those of 32");
    }

    #[test]
    fn a_pause_drops_a_window_and_leaves_the_number() {
        let (mut stall, mut sample) = climbed();
        for number in [16, 16, 4] {
            assert_eq!(look(&mut stall, &mut sample, number, 50, 0), None);
            assert!(!stall.spoils_windows());
            assert_eq!(look(&mut stall, &mut sample, number, 2000, 0), None);
            assert!(stall.spoils_windows(), "{number}");
            assert_eq!(look(&mut stall, &mut sample, number, 100, 25), None);
            assert!(!stall.spoils_windows(), "{number}");
            stall.measured(&Window { objects: 100.0, bytes: 0.0, seconds: 0.04, filled: 1.0, cores: 0.0 });
        }
    }

    #[test]
    fn pauses_that_come_again_and_again_are_measured() {
        let (mut stall, mut sample) = climbed();
        let window = Window { objects: 100.0, bytes: 0.0, seconds: 0.04, filled: 1.0, cores: 0.0 };
        let mut spoiled = 0;
        for _ in 0..100 {
            assert_eq!(look(&mut stall, &mut sample, 16, 100, 0), None);
            spoiled += u32::from(stall.spoils_windows());
            assert_eq!(look(&mut stall, &mut sample, 16, 100, 25), None);
            stall.measured(&window);
        }
        assert_eq!(spoiled, 10, "once in two seconds, in twenty");
    }

    #[test]
    fn a_window_is_measured_between_two_that_are_dropped() {
        let (mut stall, mut sample) = climbed();
        let mut spoiled = 0;
        for _ in 0..100 {
            assert_eq!(look(&mut stall, &mut sample, 1, 190, 0), None);
            spoiled += u32::from(stall.spoils_windows());
            assert_eq!(look(&mut stall, &mut sample, 1, 10, 1), None);
        }
        assert_eq!(spoiled, 1, "one object in flight, and each takes longer than before");
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
