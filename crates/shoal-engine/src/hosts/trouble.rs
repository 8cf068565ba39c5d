//! Signs that a number is too much: answers that ask to slow down (429, 503), connections that are late, refused or reset,
//! requests without an answer. The number is one of objects in flight (`engine/concurrency/`) or of requests a second to one
//! host (`pace.rs`).
//!
//! The number is reduced at once, to half or less, and is not tried again for a while, longer each time. Two bad answers in
//! a hundred are normal: only clearly more than that count. If they are as frequent after two reductions, the number is not
//! their cause: it is restored, and they are tolerated for a while. One reduction is not enough, because a service may allow
//! many requests at first, so that their part is larger later. No clock here: the models of both callers run it.

use std::time::Duration;

use super::host::Time;

/// The part of bad answers among all, above which they count.
const SHARE: f64 = 0.025;
/// The same once a reduction has helped.
const SHARE_CAUSED: f64 = 0.01;
/// At least so many, and so many standard deviations more than is normal: a few can have any cause.
const LEAST: u64 = 4;
const DEVIATIONS: f64 = 3.0;
/// Good answers and time after which counting begins anew.
const COUNTED: u64 = 1000;
const COUNTED_FOR: Duration = Duration::from_secs(2);
/// Bad answers, or so many that were to be expected, after which it is told whether a reduction has helped. Without any, it
/// is told sooner. With 8 or 13, more runs of the models are mistaken.
const TELLING: f64 = 10.0;
const TELLING_NONE: f64 = 4.0;
/// It has not helped if the part of bad answers is between these multiples of what it was, and that of good answers is not
/// more than `BETTER` times as large. If the number is the cause, half of it means twice the part of good answers.
const ALIKE: (f64, f64) = (0.33, 2.5);
const BETTER: f64 = 1.4;
/// A larger part of bad answers is never tolerated …
const TOLERATED_MAX: f64 = 0.4;
/// … and while one is, so much more of them is no sign.
const MARGIN: f64 = 1.25;
/// How long a number that was too much is not tried, at first: a service that lets clients save up requests for a second
/// or two refuses more than 2 % with 5 s. It doubles with each time that it is too much again, up to
/// `BARRED_TIMES` times.
const BARRED: Duration = Duration::from_secs(8);
/// The same after a stall, which may have had another cause.
const BARRED_AFTER_STALL: Duration = Duration::from_secs(2);
const BARRED_TIMES: u32 = 5;
/// How long after a bar has ended the next one is as short as the first again.
const FORGOTTEN: Duration = Duration::from_secs(300);
/// How long bad answers that the number did not cause are tolerated.
const TOLERATED: Duration = Duration::from_secs(60);

/// What was counted by a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answers {
    pub now: Time,
    /// Those that were not bad.
    pub good: u64,
    /// Those that asked to slow down.
    pub throttled: u64,
    /// Connections that were late, refused or reset, and requests without an answer.
    pub late: u64,
}

/// What follows from bad answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// The number in force is too much: continue with this one.
    Reduce(usize),
    /// They are as frequent with fewer: continue with this one, as before.
    Restore(usize),
}

/// How it shows that a number is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Answers asked to slow down.
    SlowDown,
    /// Connections were late, refused or reset, or requests had no answer.
    Late,
    /// Nothing came for a while.
    Stalled,
}

/// A number was reduced, and it is not known whether that has helped.
#[derive(Clone, Copy, Debug)]
struct Reduced {
    /// The part of bad answers before.
    share: f64,
    /// It is the second time without help.
    again: bool,
    /// The number before the first reduction that has not helped.
    largest: usize,
}

/// Counts bad answers, and remembers which number was too much.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    since: Option<Answers>,
    reduced: Option<Reduced>,
    /// A reduction has helped since bad answers were last tolerated.
    helped: bool,
    /// The largest number that was too much in the last descent.
    too_much: usize,
    /// The number that was too much, until when it is barred, and what showed it.
    barred: Option<(usize, Time, Sign)>,
    times: u32,
    /// The part of bad answers that is tolerated, until when.
    tolerated: Option<(f64, Time)>,
}

impl Trouble {
    /// Looks at bad answers while `number` is in force. `settled`: they belong to it.
    pub fn look(&mut self, sample: &Answers, number: usize, settled: bool) -> Option<Consequence> {
        let since = self.since.get_or_insert(*sample);
        // The first connections to a distant service may be late, until it is known how distant it is.
        if !settled || sample.good == 0 {
            *since = *sample;
            return None;
        }
        let good = sample.good.saturating_sub(since.good);
        let throttled = sample.throttled.saturating_sub(since.throttled);
        let bad = throttled + sample.late.saturating_sub(since.late);
        let all = (good + bad) as f64;
        let share = bad as f64 / all.max(1.0);
        let sign = if throttled * 2 >= bad { Sign::SlowDown } else { Sign::Late };
        let reduced = self.reduced.take();
        if let Some(Reduced { share: before, again, largest }) = reduced {
            let expected = (before * all).max(bad as f64);
            if expected < TELLING && (bad > 0 || expected < TELLING_NONE) {
                self.reduced = reduced;
                return None; // too few to tell
            }
            let is_same = (before * ALIKE.0..=before * ALIKE.1).contains(&share)
                && 1.0 - share <= (1.0 - before) * BETTER
                && before.max(share) <= TOLERATED_MAX;
            if is_same && (again || number == 1) {
                self.since = Some(*sample);
                self.tolerated = Some((before.max(share) * MARGIN, sample.now + TOLERATED));
                (self.barred, self.helped) = (None, false);
                return Some(Consequence::Restore(largest));
            }
            if is_same && number > 1 {
                return Some(self.reduce(sample, share, true, largest, number, sign));
            }
            self.helped = true;
        }
        let usual = if self.helped { SHARE_CAUSED } else { SHARE };
        let tolerated = self.tolerated.filter(|(_, until)| sample.now < *until).map_or(usual, |(share, _)| share);
        let normal = tolerated * all;
        if bad < LEAST || bad as f64 <= normal + DEVIATIONS * normal.sqrt() {
            if good >= COUNTED || sample.now.saturating_sub(since.now) >= COUNTED_FOR {
                *since = *sample;
            }
            return None;
        }
        if number == 1 {
            self.since = Some(*sample);
            return None;
        }
        let largest = reduced.map_or(number, |reduced| reduced.largest.max(number));
        Some(self.reduce(sample, share, false, largest, number, sign))
    }

    fn reduce(
        &mut self,
        sample: &Answers,
        share: f64,
        again: bool,
        largest: usize,
        number: usize,
        sign: Sign,
    ) -> Consequence {
        self.since = Some(*sample);
        self.reduced = Some(Reduced { share, again, largest });
        self.bar(sample.now, number, sign);
        // So many would have been enough for the good answers.
        Consequence::Reduce((number / 2).min((number as f64 * (1.0 - share)).round() as usize).max(1))
    }

    /// Bars a number for a while.
    pub fn bar(&mut self, now: Time, number: usize, sign: Sign) {
        let in_force = self.barred(now).is_some();
        self.too_much = if in_force { self.too_much.max(number) } else { number };
        self.times = match self.barred {
            _ if in_force => self.times, // still the same descent
            Some((_, until, _)) if now < until + FORGOTTEN => (self.times + 1).min(BARRED_TIMES),
            _ => 0,
        };
        let time = if sign == Sign::Stalled { BARRED_AFTER_STALL } else { BARRED };
        self.barred = Some((number, now + time * (1 << self.times), sign));
    }

    /// The number that is not to be tried now.
    pub fn barred(&self, now: Time) -> Option<usize> {
        self.barred.filter(|(_, until, _)| now < *until).map(|(number, ..)| number)
    }

    /// It is not known whether the last reduction has helped: the number must stay.
    pub fn is_open(&self) -> bool {
        self.reduced.is_some()
    }

    /// What the number may grow to step by step: not to one that is barred. A service may allow more for a moment than it
    /// does for long, so larger numbers seem to bring more, up to the one that was too much in the last minutes.
    pub fn grows_to(&self, now: Time) -> usize {
        let is_known = self.helped && self.barred.is_some_and(|(_, until, _)| now < until + FORGOTTEN);
        self.barred(now).map_or(if is_known { self.too_much } else { 0 }, |barred| barred - 1)
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
