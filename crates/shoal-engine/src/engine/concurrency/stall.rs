//! A stall of a service: nothing comes any more since there are more in flight.
//!
//! The queue of a small server is full then. The kernel drops what asks for a connection, everything waits until it is sent
//! again, comes at once, and fills the queue anew. So a number that has not yet proved itself is given up when nothing comes
//! and connections are late. A service may also just have paused: without late connections the first stall of a number is
//! forgiven, and its second is not, because a kernel may also drop the first request on a connection that seems to be made.

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
    /// Settled objects and bytes so far.
    done: (u64, u64),
    /// When the last of them came, with the beats and the late connections until then.
    came: (Instant, u64, u64),
    silence: Silence,
    /// The last look.
    looked: Instant,
    /// Objects a second, lately.
    rate: f64,
    /// The largest number that has proved itself; 0: none.
    proved: usize,
    /// A larger one, and for how long it was in force.
    trial: (usize, Duration),
    /// The largest number whose first stall was forgiven.
    forgiven: usize,
}

/// Whether something arrives, and what follows if not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Silence {
    /// Something arrives.
    None,
    /// Nothing, while no connection is late: what follows is decided when something comes.
    Stalled,
    /// Nothing, and the number was given up. A smaller one can change nothing before something comes.
    GivenUp,
}

impl Stall {
    pub fn new(began: Instant) -> Stall {
        Stall {
            done: (0, 0),
            came: (began, 0, 0),
            silence: Silence::None,
            looked: began,
            rate: 0.0,
            proved: 0,
            trial: (0, Duration::ZERO),
            forgiven: 0,
        }
    }

    /// Nothing can come now, or nothing that tells.
    pub fn pause(&mut self, sample: &Sample) {
        (self.came, self.looked) = ((sample.now, sample.beats, sample.late), sample.now);
        self.silence = Silence::None;
    }

    /// This number needs no more connections than have proved themselves.
    pub fn trust(&mut self, number: usize) {
        self.proved = self.proved.max(number);
    }

    /// What a window has brought.
    pub fn measured(&mut self, window: &Window) {
        self.rate = (window.objects / window.seconds).max(self.rate * FADING);
    }

    /// Whether nothing comes, and that is not held against the number: a window of now measures nothing.
    pub fn spoils_windows(&self) -> bool {
        self.silence == Silence::Stalled
    }

    /// Looks while `number` is in force; the number to go back to, if it has stalled.
    pub fn look(&mut self, sample: &Sample, number: usize) -> Option<usize> {
        let passed = sample.now.saturating_duration_since(std::mem::replace(&mut self.looked, sample.now));
        let done = (sample.settled, sample.bytes);
        let comes = std::mem::replace(&mut self.done, done) != done || sample.in_flight == 0;
        let before = self.silence;
        if comes {
            (self.came, self.silence) = ((sample.now, sample.beats, sample.late), Silence::None);
        }
        if number <= self.proved.max(1) || before == Silence::GivenUp {
            return None;
        }
        if comes && before == Silence::Stalled {
            self.trial = (number, Duration::ZERO);
            let is_first = number > self.forgiven;
            self.forgiven = self.forgiven.max(number);
            return (!is_first).then(|| self.smaller(number));
        }
        // A distant server answers in waves, of as many as are in flight; the first after a change may be twice as late.
        let wave = Duration::try_from_secs_f64(3.0 * number as f64 / self.rate).unwrap_or(Duration::MAX);
        let (came, beats, late) = self.came;
        // Lanes that are blocked in the sink would not see what comes.
        let awake = sample.beats >= beats + BEATS;
        if awake && sample.now.saturating_duration_since(came) >= STALLED.max(wave) {
            let is_late = sample.late > late;
            self.silence = if is_late { Silence::GivenUp } else { Silence::Stalled };
            return is_late.then(|| self.smaller(number));
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

    /// The number to go back to from this one.
    fn smaller(&self, number: usize) -> usize {
        if self.proved > 0 { self.proved } else { number / 2 }
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
    fn a_number_that_stalls_with_late_connections_before_it_has_proved_itself_is_given_up() {
        let (mut stall, mut sample) = climbed();
        assert_eq!(look(&mut stall, &mut sample, 16, 50, 0), None);
        sample.late += 1;
        assert_eq!(look(&mut stall, &mut sample, 16, 100, 0), Some(4));
        sample.late += 10;
        assert_eq!(look(&mut stall, &mut sample, 8, 900, 0), None, "nothing can be said before something comes");
        assert_eq!(look(&mut stall, &mut sample, 8, 400, 25), None);
        sample.late += 1;
        assert_eq!(look(&mut stall, &mut sample, 8, 400, 0), None, "8 has proved itself: it has another cause");
        assert_eq!(look(&mut stall, &mut sample, 8, 10, 25), None);
        for _ in 0..40 {
            sample.now += Duration::from_millis(10);
            sample.late += 1;
            assert_eq!(stall.look(&sample, 16), None, "the lanes are blocked in the sink");
        }
    }

    #[test]
    fn the_first_stall_of_a_number_without_late_connections_is_forgiven() {
        let (mut stall, mut sample) = climbed();
        assert_eq!(look(&mut stall, &mut sample, 16, 500, 0), None);
        assert_eq!(look(&mut stall, &mut sample, 16, 200, 25), None);
        assert_eq!(look(&mut stall, &mut sample, 16, 500, 0), None);
        assert_eq!(look(&mut stall, &mut sample, 16, 10, 25), Some(4), "its second stall");
        assert_eq!(look(&mut stall, &mut sample, 32, 200, 0), None, "the first of 32");
        assert_eq!(look(&mut stall, &mut sample, 32, 400, 25), None);
        assert_eq!(look(&mut stall, &mut sample, 32, 500, 0), None, "32 has proved itself");
        assert_eq!(look(&mut stall, &mut sample, 32, 10, 25), None);
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
