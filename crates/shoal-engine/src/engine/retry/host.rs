//! What is remembered of one host, and whether it may be asked. Not here: when that changes (`mod.rs`).

use std::time::{Duration, Instant};

use crate::error::Kind;

/// First wait between two probes of a paused host; doubles up to `PROBE_MAX`, so recovery is seen within seconds.
pub(crate) const PROBE_MIN: Duration = Duration::from_millis(250);
pub(super) const PROBE_MAX: Duration = Duration::from_secs(2);

/// Whether a host may be asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// It is paused; this request finds out whether it is back. Report with `probed`.
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
    /// In this pause, a request has failed.
    pub has_failed: bool,
    /// It began with requests that hang.
    pub has_hung: bool,
    /// When it was first asked after that.
    pub asked_again: Option<Instant>,
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
            has_failed: false,
            has_hung: false,
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
            self.asked_again.get_or_insert(now);
        }
    }

    /// A pause begins. `has_failed`: because requests have failed, not because they hang.
    pub fn pause(&mut self, now: Instant, has_failed: bool) {
        (self.paused_since, self.stuck_since) = (Some(now), has_failed.then_some(now));
        (self.has_failed, self.has_hung, self.asked_again) = (has_failed, !has_failed, None);
    }

    /// Whether a request has come to nothing that was sent after another one had failed. Which one has failed is not known
    /// where several have hung.
    pub fn is_silent_again(&self, now: Instant) -> bool {
        let waits = |asked| now.duration_since(asked) > PROBE_MAX;
        self.asked_again.is_some_and(|asked| waits(asked) || !self.has_hung && self.failed_at >= asked)
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
