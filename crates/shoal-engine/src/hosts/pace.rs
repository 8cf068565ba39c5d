//! How many requests a second a host gets that asks to slow down, where there are many hosts. Its connections are few, and
//! not counted here, so the rate is what is reduced; when, and whether that helps, is told as for the number of workers
//! (`trouble.rs`). Not here: hosts that are left alone for a while (`host.rs`).

use std::time::Duration;

use super::host::Time;
use super::trouble::{Answers, Consequence, Trouble};

/// How long requests that were sent before a change may still be answered.
const SETTLE: Duration = Duration::from_millis(500);
/// How far behind requests may be sent: a lane looks at a host again after 20 ms.
const SLACK: Duration = Duration::from_millis(50);
/// How often the rate grows by an eighth, while one is barred and later.
const GROWS: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(500)];
/// A rate that has held up no request for so long is no limit.
const UNHELD: Duration = Duration::from_secs(3);
/// A host that has not asked to slow down for so long is left alone.
const QUIET: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Pace {
    trouble: Trouble,
    answers: Answers,
    /// When the answers began that were counted for the present rate, and how many there were before.
    began: (Time, u64),
    /// Requests a second, if they are limited.
    rate: Option<usize>,
    /// When it was reduced or restored, when it grew, and when it held up a request last.
    changed_at: Time,
    grew_at: Time,
    held_at: Time,
    refused_at: Time,
    /// When the next request may be sent.
    next: Time,
}

impl Pace {
    pub fn new(now: Time) -> Pace {
        let (trouble, answers) = (Trouble::default(), Answers::default());
        Pace {
            trouble,
            answers,
            began: (now, 0),
            rate: None,
            changed_at: now.saturating_sub(SETTLE),
            grew_at: now,
            held_at: now,
            refused_at: now,
            next: now,
        }
    }

    /// Whether a request has to wait.
    pub fn holds(&self, now: Time) -> bool {
        self.rate.is_some() && now < self.next
    }

    /// A request is sent.
    pub fn asks(&mut self, now: Time) {
        if let Some(rate) = self.rate {
            if self.next > now.saturating_sub(SLACK) {
                self.held_at = now;
            }
            self.next = self.next.max(now.saturating_sub(SLACK)) + Duration::from_secs_f64(1.0 / rate as f64);
        }
    }

    /// Whether there is no smaller rate.
    pub fn is_least(&self) -> bool {
        self.rate == Some(1)
    }

    /// Whether there is nothing to remember.
    pub fn is_over(&self, now: Time) -> bool {
        self.rate.is_none() && now.saturating_sub(self.refused_at) >= QUIET
    }

    /// A request was answered.
    pub fn answered(&mut self, is_refused: bool, now: Time) {
        if is_refused {
            (self.answers.throttled, self.refused_at) = (self.answers.throttled + 1, now);
        } else {
            self.answers.good += 1;
        }
        self.answers.now = now;
        let settled = now.saturating_sub(self.changed_at) >= SETTLE;
        let all = self.answers.good + self.answers.throttled;
        if !settled {
            self.began = (now, all);
        }
        let asked = (all - self.began.1) as f64 / now.saturating_sub(self.began.0).as_secs_f64().max(0.1);
        let number = self.rate.unwrap_or((asked).round() as usize).max(1);
        match self.trouble.look(&self.answers, number, settled) {
            Some(Consequence::Reduce(rate)) => self.set(Some(rate), now),
            Some(Consequence::Restore(_)) => self.set(None, now),
            None => self.grow(now),
        }
    }

    fn set(&mut self, rate: Option<usize>, now: Time) {
        (self.rate, self.changed_at, self.grew_at, self.next) = (rate, now, now, now);
    }

    fn grow(&mut self, now: Time) {
        let barred = self.trouble.barred(now);
        let (most, wait) = (barred.map_or(usize::MAX, |barred| barred - 1), GROWS[usize::from(barred.is_none())]);
        let Some(rate) = self.rate.filter(|_| !self.trouble.is_open()) else { return };
        if barred.is_none() && now.saturating_sub(self.held_at) >= UNHELD {
            self.set(None, now);
        } else if rate < most && now.saturating_sub(self.grew_at) >= wait {
            self.rate = Some((rate + (rate / 8).max(1)).min(most));
            self.grew_at = now;
        }
    }
}
