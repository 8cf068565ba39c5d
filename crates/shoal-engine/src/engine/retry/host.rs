//! What is remembered of one host, and whether it may be asked. Not here: when that changes (`mod.rs`).

use std::time::{Duration, Instant};

use super::FIRST_ANSWER;
use crate::error::Kind;

/// First wait between two probes of a paused host; doubles up to `PROBE_MAX`, so recovery is seen within seconds.
pub(crate) const PROBE_MIN: Duration = Duration::from_millis(250);
pub(super) const PROBE_MAX: Duration = Duration::from_secs(2);

/// How many requests a host leaves without an answer, after one has failed, before it counts as one that stays away.
const ASKED_AGAIN: u32 = 3;

/// Why a host was paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PausedFor {
    /// Too many requests have failed.
    Failures,
    /// Its first connection is not made.
    NoConnection,
    /// A request has no answer so far.
    NoAnswer,
}

/// Whether a host may be asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// It is paused; this request finds out whether it is back.
    Probe,
    Closed,
}

/// What becomes of an object of a host, before it is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostState {
    /// It may be requested, perhaps as a probe.
    Open,
    /// It has to wait.
    Closed,
    /// It fails (`Retry::away`).
    Away,
}

/// What is remembered of a host.
#[derive(Debug)]
pub(super) struct Host {
    pub paused_since: Option<Instant>,
    /// Since when nothing at all has been settled in this pause.
    pub stuck_since: Option<Instant>,
    /// That is so because its requests hang, and not because they have failed.
    pub is_slow: bool,
    /// How many of these have failed meanwhile: as many others may ask it.
    pub may_ask: u32,
    pub paused_for: PausedFor,
    /// In this pause, a request has failed.
    pub has_failed: bool,
    /// When it was first asked after that, and how often it was.
    pub asked_again: Option<(Instant, u32)>,
    pub probing: bool,
    pub next_probe: Instant,
    /// When the last one was sent.
    pub asked_at: Instant,
    pub probe_wait: Duration,
    pub cool_until: Option<Instant>,
    /// In this pause, an object that left its partition comes back before the others, to ask.
    pub is_asked_later: bool,
    /// What it answered last that was no good, and when.
    pub last_error: String,
    pub last_kind: Kind,
    pub failed_at: Instant,
    /// Pauses that have ended.
    pub paused: Duration,
}

impl Host {
    pub fn new(now: Instant) -> Host {
        Host {
            paused_since: None,
            stuck_since: None,
            is_slow: false,
            may_ask: 0,
            paused_for: PausedFor::Failures,
            has_failed: false,
            asked_again: None,
            probing: false,
            next_probe: now,
            asked_at: now,
            probe_wait: PROBE_MIN,
            cool_until: None,
            is_asked_later: false,
            last_error: String::new(),
            last_kind: Kind::Connect,
            failed_at: now,
            paused: Duration::ZERO,
        }
    }

    /// A request that asks whether it is there is sent.
    pub fn asked(&mut self, now: Instant) {
        self.may_ask = self.may_ask.saturating_sub(1);
        self.probing = self.may_ask == 0;
        self.asked_at = now;
        if self.has_failed {
            let (first, times) = self.asked_again.unwrap_or((now, 0));
            self.asked_again = Some((first, times + 1));
        }
    }

    /// A pause begins.
    pub fn pause(&mut self, now: Instant, why: PausedFor) {
        let has_failed = why == PausedFor::Failures;
        (self.paused_since, self.stuck_since) = (Some(now), has_failed.then_some(now));
        (self.paused_for, self.has_failed, self.asked_again) = (why, has_failed, None);
    }

    /// Whether requests have come to nothing that were sent after another one had failed. Where several have hung, it is not
    /// known which one has failed. If the host can be connected to, it may be a matter of the object, so some more ask.
    pub fn is_silent_again(&self, now: Instant) -> bool {
        let Some((first, times)) = self.asked_again else { return false };
        let for_long = |since, long| now.duration_since(since) > long;
        match self.paused_for {
            PausedFor::Failures => self.failed_at >= first || for_long(first, PROBE_MAX),
            PausedFor::NoConnection => for_long(first, PROBE_MAX),
            PausedFor::NoAnswer => {
                times >= ASKED_AGAIN && for_long(self.asked_at, PROBE_MAX) || for_long(first, FIRST_ANSWER)
            }
        }
    }

    pub fn is_gated(&self) -> bool {
        self.paused_since.is_some() || self.cool_until.is_some()
    }

    /// The next probe has to wait, each time for longer.
    pub fn ask_later(&mut self, now: Instant) {
        self.next_probe = now + self.probe_wait;
        self.probe_wait = (self.probe_wait * 2).min(PROBE_MAX);
    }

    pub fn is_closed(&self, now: Instant) -> bool {
        self.cool_until.is_some_and(|until| now < until)
            || self.paused_since.is_some() && (self.probing || now < self.next_probe)
    }
}
