//! Requests of which nothing has arrived for so long, or so little, that others continue without them. Not here: what
//! follows from that (`Lane::hangs`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use crate::source::{Job, JobId};

/// How often it is looked for such requests.
pub(super) const LOOK: Duration = Duration::from_millis(250);
/// How long nothing may arrive: from a host that has never answered, or from one to which another host redirects …
pub(super) const FIRST_PATIENCE: Duration = Duration::from_secs(1);
/// … and from one that has answered, on no lane: it may be slow.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// An object that arrives with fewer bytes per second than this, for as long as `PATIENCE`, is slow.
const SLOW: f64 = 8192.0;
/// How long it is looked at before it may count as quick.
const QUICK_AFTER: Duration = Duration::from_secs(1);

/// How fast an object arrives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Unknown,
    Slow,
    Quick,
}

/// The requests of one connection that wait for their answers, or for the rest of these.
#[derive(Default)]
pub(super) struct Asked {
    /// The oldest first.
    jobs: RefCell<VecDeque<JobId>>,
    /// How many of these were told, from the first.
    told: Cell<usize>,
    /// Grows with each part of an answer, and when a request is sent that is the only one.
    count: Cell<u64>,
    /// The same at the last look that found it grown, and when that was.
    seen: Cell<(u64, Duration)>,
    /// Bytes of large objects that have arrived.
    bytes: Cell<u64>,
    /// `bytes` and the time when the pace of the first job was last looked at; `None` if that has not begun.
    pace_from: Cell<Option<(u64, Duration)>>,
    /// The first job was told as slow: what arrives of it changes nothing.
    is_slow: Cell<bool>,
    /// The sink has no room for what arrives.
    is_held_up: Cell<bool>,
    /// The host has redirected the request.
    is_redirected: Cell<bool>,
}

impl Asked {
    /// A request is sent.
    pub fn asks(&self, job: &Job) {
        let mut jobs = self.jobs.borrow_mut();
        if jobs.is_empty() {
            self.is_redirected.set(false);
            self.next_is_first();
            self.grow();
        }
        jobs.push_back(job.id());
    }

    /// A job is answered. Returns whether it took no longer than others.
    pub fn answered(&self, job: &Job) -> bool {
        let mut jobs = self.jobs.borrow_mut();
        let Some(at) = jobs.iter().position(|asked| *asked == job.id()) else { return false };
        jobs.remove(at);
        let was_told = at < self.told.get();
        self.told.set(self.told.get() - usize::from(was_told));
        if at == 0 {
            self.next_is_first();
        }
        self.grow();
        !was_told
    }

    /// So many bytes of an object have arrived, or its head. Returns the jobs of which it was told that they hang in silence.
    pub fn arrives(&self, bytes: usize) -> Vec<JobId> {
        self.bytes.set(self.bytes.get() + bytes as u64);
        self.grow();
        if self.is_slow.get() {
            return Vec::new();
        }
        match self.told.replace(0) {
            0 => Vec::new(),
            told => self.jobs.borrow().iter().take(told).copied().collect(),
        }
    }

    /// The answer is a redirect, which is followed. Such a request is alone.
    pub fn redirected(&self) -> Option<JobId> {
        self.is_redirected.set(true);
        self.jobs.borrow().front().copied()
    }

    pub fn is_redirected(&self) -> bool {
        self.is_redirected.get()
    }

    /// Whether the sink has no room for the answer.
    pub fn set_held_up(&self, is_held_up: bool) {
        self.is_held_up.set(is_held_up);
        self.grow();
    }

    /// For how long nothing has arrived; `None` if nothing is waited for.
    pub fn silent_for(&self, now: Duration) -> Option<Duration> {
        if self.jobs.borrow().is_empty() || self.is_held_up.get() {
            return None;
        }
        let (count, since) = self.seen.get();
        if count != self.count.get() {
            self.seen.set((self.count.get(), now));
            return Some(Duration::ZERO);
        }
        Some(now.saturating_sub(since))
    }

    /// How fast the first job has arrived since the last look.
    pub fn pace(&self, now: Duration) -> Pace {
        if self.jobs.borrow().is_empty() || self.is_held_up.get() {
            self.pace_from.set(None);
            return Pace::Unknown;
        }
        let Some((before, since)) = self.pace_from.get() else {
            self.pace_from.set(Some((self.bytes.get(), now)));
            return Pace::Unknown;
        };
        let time = now.saturating_sub(since);
        let is_slow = (self.bytes.get() - before) as f64 <= SLOW * time.as_secs_f64();
        if time >= PATIENCE && !is_slow {
            self.pace_from.set(Some((self.bytes.get(), now)));
        }
        match is_slow {
            true if time >= PATIENCE => Pace::Slow,
            false if time >= QUICK_AFTER => Pace::Quick,
            _ => Pace::Unknown,
        }
    }

    /// The jobs that were not told before. `slow`: of these something arrives.
    pub fn tell(&self, slow: bool) -> Vec<JobId> {
        let jobs = self.jobs.borrow();
        if self.is_slow.replace(slow) && !slow {
            self.told.set(0); // that it is silent is news
        }
        let told = self.told.replace(jobs.len());
        jobs.iter().skip(told).copied().collect()
    }

    fn next_is_first(&self) {
        self.is_slow.set(false);
        self.pace_from.set(None);
    }

    fn grow(&self) {
        self.count.set(self.count.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn asked() -> Asked {
        let asked = Asked::default();
        asked.jobs.borrow_mut().push_back(JobId { slot: 0, index: 0 });
        asked
    }

    #[test]
    fn an_object_is_slow_after_five_seconds_and_quick_after_one() {
        for (bytes, after_1, after_5) in [(1_000, Pace::Unknown, Pace::Slow), (10_000, Pace::Quick, Pace::Quick)] {
            let asked = asked();
            for second in 0..=20 {
                let expected = match second {
                    0 => Pace::Unknown,
                    1..5 => after_1,
                    _ => after_5,
                };
                assert!(asked.pace(SECOND * second) == expected, "{bytes} bytes a second, second {second}");
                asked.arrives(bytes);
            }
        }
    }

    #[test]
    fn an_object_for_which_the_sink_has_no_room_is_not_slow() {
        let asked = asked();
        asked.set_held_up(true);
        assert!((0..60).all(|second| asked.pace(SECOND * second) == Pace::Unknown));
        asked.set_held_up(false);
        assert!((60..65).all(|second| asked.pace(SECOND * second) == Pace::Unknown));
        assert!(asked.pace(SECOND * 65) == Pace::Slow);
    }

    #[test]
    fn what_arrives_of_a_slow_object_is_no_news_and_that_it_is_silent_then_is() {
        let asked = asked();
        assert_eq!(asked.tell(true).len(), 1);
        assert!(asked.arrives(1_000).is_empty() && asked.tell(true).is_empty());
        assert_eq!((asked.tell(false).len(), asked.tell(false).len()), (1, 0));
        assert_eq!((asked.arrives(1_000).len(), asked.arrives(1_000).len()), (1, 0));
    }
}
