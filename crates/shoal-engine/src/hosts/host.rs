//! What is known of one host, and the state that follows from it. Not here: what happens to many (`machine.rs`).

use std::time::Duration;

use super::pace::Pace;
use super::sets::Answered;
use super::{FIRST_ANSWER, PROBE_MAX, PROBE_MIN, Rules};
use crate::error::{Error, Kind};

/// Time since the start of the run.
pub(crate) type Time = Duration;

/// Tokens in a full bucket, as in AWS SDKs.
pub(super) const TOKENS: i64 = 500;
/// What a good answer gives back. AWS gives 1; 2 keeps a host going at which a tenth of all first tries fail, and pauses it
/// at a seventh.
pub(super) const REFUND: i64 = 2;
/// What an error and a throttled answer take, as in AWS SDKs.
const COST: i64 = 14;
const THROTTLE_COST: i64 = 5;
/// Tokens that a host has lost that refuses most requests: more than two in seven, for a while.
const MOST: i64 = 400;
/// Tokens that a host lacks at the most for which objects that fail are exceptions: two are not made up for so far.
const FEW: i64 = 3 * COST;
/// Of many hosts, what an error takes from one that has never answered: lists have thousands that are gone.
const UNHEARD_COST: i64 = 100;

/// What is known of a host.
#[derive(Debug)]
pub(super) struct Host {
    /// Errors take some, good answers give some back. Without any, the host pauses.
    pub tokens: i64,
    /// It has asked to be left alone until then.
    pub cool_until: Option<Time>,
    pub pause: Option<Pause>,
    /// Of many hosts, one that has asked to slow down.
    pub pace: Option<Box<Pace>>,
    /// By pauses for failures that have ended.
    pub paused: Duration,
    /// What it answered last that was no good, or that it did not answer.
    pub last: Failure,
}

/// A failure of a host.
#[derive(Debug)]
pub(super) struct Failure {
    pub kind: Kind,
    pub why: String,
    pub at: Time,
}

/// Why a host is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PausedFor {
    /// Too many requests have failed.
    Failures,
    /// A request has no answer so far. Whatever arrives ends the pause.
    Silence { is_connected: bool },
}

/// What is known of a pause.
#[derive(Debug)]
pub(super) struct Pause {
    pub since: Time,
    pub why: PausedFor,
    /// Since when nothing at all has been settled in it, once something has failed.
    pub stuck_since: Option<Time>,
    /// When a request was first sent after one had failed. Until then, it may have come back.
    asked_again: Option<Time>,
    has_failed: bool,
    /// A request asks whether it is back.
    pub probing: bool,
    pub asked_at: Time,
    next_probe: Time,
    probe_wait: Duration,
    /// An object that left its partition comes back before the others, to ask.
    pub is_asked_later: bool,
}

/// The state of a host at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Well,
    /// It has asked for that.
    CoolingDown,
    /// Now and then a request finds out whether it is back.
    Paused,
    /// The same, and its objects fail meanwhile.
    Away,
}

/// What may be done with an object of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// It may be requested.
    Open,
    /// The same; this request finds out whether the host is back.
    Probe,
    /// It has to wait.
    Closed,
    /// It fails.
    Away,
}

/// By what a host is judged: the rules, and what is known of all hosts.
pub(super) struct Judge<'a> {
    pub rules: Rules,
    pub answered: &'a Answered,
    /// This host has answered, well or badly.
    pub has_answered: bool,
}

impl Judge<'_> {
    /// Whether a paused host is to blame for that, and not the network: others have answered since, or only others ever did.
    pub fn blames(&self, pause: &Pause) -> bool {
        self.rules.many && (!self.has_answered && self.answered.any() || self.answered.since(pause.since + PROBE_MAX))
    }

    /// How long it may stay away.
    fn patience(&self) -> Duration {
        if self.has_answered { self.rules.timeout } else { self.rules.timeout.min(FIRST_ANSWER) }
    }

    fn cost(&self, error: &Error) -> i64 {
        match (error.kind(), self.has_answered) {
            (Kind::Throttled, _) => THROTTLE_COST,
            (_, false) => UNHEARD_COST,
            (_, true) => COST,
        }
    }
}

impl Host {
    pub fn new(now: Time) -> Host {
        let last = Failure { kind: Kind::Connect, why: String::new(), at: now };
        Host { tokens: TOKENS, cool_until: None, pause: None, pace: None, paused: Duration::ZERO, last }
    }

    /// What follows from all that is known.
    pub fn state(&self, now: Time, judge: &Judge<'_>) -> State {
        let cools = self.cool_until.map_or(Duration::ZERO, |until| until.saturating_sub(now));
        match &self.pause {
            _ if judge.rules.many && cools > judge.patience() => State::Away,
            _ if !cools.is_zero() => State::CoolingDown,
            None => State::Well,
            Some(pause) => {
                // One has failed after all that time: perhaps none was sent meanwhile, and it is back.
                let away = self.last.at.saturating_sub(pause.since);
                match judge.blames(pause) && away > judge.patience() && pause.is_vain(self.last.at, now) {
                    true => State::Away,
                    false => State::Paused,
                }
            }
        }
    }

    /// What may be done with an object of it. A probe is not handed out.
    pub fn gate(&self, now: Time, judge: &Judge<'_>) -> Gate {
        let is_due = self.pause.as_ref().is_none_or(|pause| !pause.probing && now >= pause.next_probe);
        match self.state(now, judge) {
            State::Well if self.pace.as_ref().is_some_and(|pace| pace.holds(now)) => Gate::Closed,
            State::Well => Gate::Open,
            State::Paused | State::Away if is_due && self.cool_until.is_none_or(|until| until <= now) => Gate::Probe,
            State::Paused | State::CoolingDown => Gate::Closed,
            State::Away => Gate::Away,
        }
    }

    /// Whether it is paused or cools down.
    pub fn is_gated(&self) -> bool {
        self.pause.is_some() || self.cool_until.is_some()
    }

    /// Whether its next answers change anything.
    pub fn is_troubled(&self) -> bool {
        self.is_gated() || self.tokens < TOKENS || self.pace.is_some()
    }

    /// Whether there is something to remember.
    pub fn is_kept(&self) -> bool {
        self.is_troubled() || !self.paused.is_zero()
    }

    /// Whether it refuses so many requests that it has to be left alone, and fewer have not helped.
    pub fn refuses_most(&self) -> bool {
        self.tokens <= TOKENS - MOST && self.pace.as_ref().is_none_or(|pace| pace.is_least())
    }

    /// Whether nearly all failures have been made up for by good answers.
    pub fn is_well(&self) -> bool {
        self.pause.is_none() && self.tokens > TOKENS - FEW
    }

    /// It wants to be left alone for so long.
    pub fn cools(&mut self, wait: Duration, now: Time) {
        let until = now + spread(wait);
        self.cool_until = Some(self.cool_until.map_or(until, |earlier| earlier.max(until)));
    }

    /// Pauses it, if it is not.
    pub fn pause(&mut self, why: PausedFor, now: Time) -> &mut Pause {
        self.pause.get_or_insert_with(|| Pause {
            since: now,
            why,
            stuck_since: (why == PausedFor::Failures).then_some(now),
            asked_again: None,
            has_failed: why == PausedFor::Failures,
            probing: false,
            asked_at: now,
            next_probe: now + PROBE_MIN,
            probe_wait: PROBE_MIN,
            is_asked_later: false,
        })
    }

    /// An answer has come that ends the pause.
    pub fn resume(&mut self, now: Time) {
        if let Some(pause) = self.pause.take()
            && pause.why == PausedFor::Failures
        {
            self.paused += now.saturating_sub(pause.since);
            self.tokens = TOKENS / 2;
        }
    }

    /// Takes tokens for an error. Returns whether none is left.
    pub fn charge(&mut self, error: &Error, judge: &Judge<'_>) -> bool {
        self.tokens = (self.tokens - judge.cost(error)).max(0);
        self.tokens == 0
    }

    /// By pauses for failures so far.
    pub fn paused_for(&self, now: Time) -> Duration {
        let pause = self.pause.as_ref().filter(|pause| pause.why == PausedFor::Failures);
        self.paused + pause.map_or(Duration::ZERO, |pause| now.saturating_sub(pause.since))
    }

    /// A try of an object has failed while it was paused. Returns whether that says something about the object.
    /// `is_silent`: nothing was answered.
    pub fn failed_in_pause(
        &mut self,
        error: &Error,
        probe: bool,
        is_silent: bool,
        now: Time,
        judge: &Judge<'_>,
    ) -> bool {
        let why = self.pause.as_ref().map(|pause| pause.why);
        // Of a host that has answered, the object may be the only one that it does not answer.
        let is_slow = why != Some(PausedFor::Failures) && judge.has_answered;
        let is_out = is_slow && probe && is_silent && self.charge(error, judge);
        let Some(pause) = &mut self.pause else { return true };
        pause.has_failed = true;
        if is_out {
            (pause.why, pause.stuck_since) = (PausedFor::Failures, Some(now));
        } else if !is_slow {
            pause.stuck_since = pause.stuck_since.or(Some(pause.since));
        }
        if !probe {
            return false;
        }
        let took = now.saturating_sub(pause.asked_at);
        pause.ask_later(now);
        let is_away = !judge.has_answered && self.state(now, judge) == State::Away;
        if let Some(pause) = self.pause.as_mut().filter(|_| is_away) {
            // Else objects of a silent host would mostly find it with a probe under way, and each ask it again.
            pause.next_probe = pause.next_probe.max(now + took);
        }
        !is_silent || is_slow && !is_out
    }
}

impl Pause {
    /// A request that asks whether it is back is sent.
    pub fn asks(&mut self, now: Time) {
        (self.probing, self.asked_at) = (true, now);
        if self.has_failed {
            self.asked_again.get_or_insert(now);
        }
    }

    /// The next one has to wait, each time for longer.
    pub fn ask_later(&mut self, now: Time) {
        (self.probing, self.next_probe) = (false, now + self.probe_wait);
        self.probe_wait = (self.probe_wait * 2).min(PROBE_MAX);
    }

    /// Whether a request has come to nothing that was sent after another one had failed. Where several hang, it is not known
    /// which of them has failed. If the host can be connected to, it may be slow.
    fn is_vain(&self, failed_at: Time, now: Time) -> bool {
        let Some(first) = self.asked_again else { return false };
        let hangs = now.saturating_sub(first);
        match self.why {
            PausedFor::Failures => failed_at >= first || hangs > PROBE_MAX,
            PausedFor::Silence { is_connected } => hangs > if is_connected { FIRST_ANSWER } else { PROBE_MAX },
        }
    }
}

/// A wait that a host has asked for, and up to a tenth more, so that not all requests come back in the same instant.
pub(super) fn spread(wait: Duration) -> Duration {
    wait.mul_f64(1.0 + 0.1 * fastrand::f64())
}
