//! Signs that too many objects are in flight: answers that ask to slow down (429, 503), connections that are late, refused or
//! reset, requests without an answer.
//!
//! Each reduces the number at once, to half of what was too much. That number is not tried again for a while, longer each
//! time. One bad answer in a hundred is normal: only clearly more than that counts. Bad answers that are as frequent with one
//! object in flight do not count either, because then the number is not their cause.

use std::time::{Duration, Instant};

use super::window::Sample;

/// Bad answers among all, above which they count.
const SHARE: f64 = 0.01;
/// At least so many, and so many standard deviations more than is normal: a few can have any cause.
const LEAST: u64 = 2;
const DEVIATIONS: f64 = 3.0;
/// Objects and time after which counting begins anew; with one object in flight, bad answers come slowly.
const COUNTED: u64 = 1000;
const COUNTED_FOR: Duration = Duration::from_secs(2);
const COUNTED_FOR_ONE: Duration = Duration::from_secs(10);
const COUNTED_OF_ONE: u64 = 200;
/// How long a number that was too much is not tried, at first. It doubles with each time that it is too much again, up to
/// `BARRED_TIMES` times.
const BARRED: Duration = Duration::from_secs(5);
/// The same after a stall, which may have had another cause.
const BARRED_AFTER_STALL: Duration = Duration::from_secs(2);
const BARRED_TIMES: u32 = 5;
/// How long after a bar has ended the next one is as short as the first again.
const FORGOTTEN: Duration = Duration::from_secs(300);
/// How long bad answers that the number did not cause are tolerated.
const TOLERATED: Duration = Duration::from_secs(60);

/// What follows from bad answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consequence {
    /// The number in force is too much.
    Reduce,
    /// They are as frequent with one: continue with this many, as before.
    Restore(usize),
}

/// How it shows that a number is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// Answers asked to slow down.
    SlowDown,
    /// Connections were late, refused or reset, or requests had no answer.
    Late,
    /// Nothing came for a while.
    Stalled,
}

/// Counts bad answers, and remembers which number was too much.
#[derive(Default)]
pub(super) struct Trouble {
    since: Option<Sample>,
    /// The part of bad answers when the number was first reduced, and that number, as long as that has not helped.
    first: Option<(f64, usize)>,
    /// The number that was too much, until when it is barred, and what showed it.
    barred: Option<(usize, Instant, Sign)>,
    times: u32,
    /// The part of bad answers that is tolerated, until when.
    tolerated: Option<(f64, Instant)>,
}

impl Trouble {
    /// Looks at bad answers while `number` is in force. `settled`: they belong to it.
    pub fn look(&mut self, sample: &Sample, number: usize, settled: bool) -> Option<Consequence> {
        let since = self.since.get_or_insert(*sample);
        // The first connections to a distant service may be late, until it is known how distant it is.
        if !settled || sample.objects == 0 {
            *since = *sample;
            return None;
        }
        let objects = sample.objects.saturating_sub(since.objects);
        let throttled = sample.throttled.saturating_sub(since.throttled);
        let bad = throttled + sample.late.saturating_sub(since.late);
        let share = bad as f64 / (objects + bad).max(1) as f64;
        let tolerated = self.tolerated.filter(|(_, until)| sample.now < *until).map_or(SHARE, |(share, _)| share);
        let normal = tolerated * (objects + bad) as f64;
        if bad < LEAST || bad as f64 <= normal + DEVIATIONS * normal.sqrt() {
            let passed = sample.now.duration_since(since.now);
            let over = match number {
                1 => objects >= COUNTED_OF_ONE && passed >= COUNTED_FOR_ONE,
                _ => objects >= COUNTED || passed >= COUNTED_FOR,
            };
            if over {
                (*since, self.first) = (*sample, None);
            }
            return None;
        }
        self.since = Some(*sample);
        if number == 1 {
            let (first, before) = self.first.take()?;
            if share < first / 2.0 {
                return None;
            }
            self.tolerated = Some(((share * 2.0).min(1.0), sample.now + TOLERATED));
            self.barred = None;
            return Some(Consequence::Restore(before));
        }
        self.first.get_or_insert((share, number));
        self.bar(sample.now, number, if throttled * 2 >= bad { Sign::SlowDown } else { Sign::Late });
        Some(Consequence::Reduce)
    }

    /// Bars a number for a while.
    pub fn bar(&mut self, now: Instant, number: usize, sign: Sign) {
        let in_force = self.barred(now).is_some();
        self.times = match self.barred {
            _ if in_force => self.times, // still the same descent
            Some((_, until, _)) if now < until + FORGOTTEN => (self.times + 1).min(BARRED_TIMES),
            _ => 0,
        };
        let time = if sign == Sign::Stalled { BARRED_AFTER_STALL } else { BARRED };
        self.barred = Some((number, now + time * (1 << self.times), sign));
    }

    /// The number that is not to be tried now.
    pub fn barred(&self, now: Instant) -> Option<usize> {
        self.barred.filter(|(_, until, _)| now < *until).map(|(number, ..)| number)
    }

    /// The number that was too much when it was last tried.
    pub fn last_barred(&self) -> Option<usize> {
        self.barred.map(|(number, ..)| number)
    }

    /// Why a number is barred.
    pub fn reason(&self) -> Option<String> {
        self.barred.map(|(number, _, sign)| match sign {
            Sign::SlowDown => format!("the server asked to slow down at {number}"),
            Sign::Late => format!("connections were late, refused or reset at {number}"),
            Sign::Stalled => format!("nothing arrived for a while with {number}"),
        })
    }
}
