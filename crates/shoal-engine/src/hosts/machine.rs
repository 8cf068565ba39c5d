//! The machine: what happens to hosts goes in, what may be done with them comes out. No clock, lock, or input and output.
//!
//! - Back-off with full jitter: 100 ms base (1 s when throttled), doubling, at most 20 s, and no longer than the object has
//!   left: its last try comes when its time ends.
//! - An object waits as long as its host asks for (`Retry-After`). All objects wait if that is 5 s or more, or the host refuses
//!   most requests. A server error that lasts, of a host that answers others, is tried as often with shorter waits.
//! - A bucket of tokens for each host (`host.rs`). Empty: the host pauses. One probe at a time asks it again, with an object
//!   not yet tried if there is one; a probe without an answer is charged no try. A probe that succeeds ends the pause.
//! - An answer, even a bad one, to a *repeated* request says something about the object and takes no tokens; no answer
//!   always says something about the host. So a few stubborn objects never pause a healthy host, an outage does.
//! - Of many hosts (a list of URLs), one that stays away does not end the run. While others answer, its objects fail
//!   instead, and probes go on: if it answers again, its objects are fetched again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::host::{Gate, Host, Judge, Pause, PausedFor, REFUND, TOKENS, Time, spread};
use super::pace::Pace;
use super::sets::{Answered, Known};
use super::{FIRST_ANSWER, HOLD_MAX, PROBE_MAX, Rules};
use crate::error::{Error, HostId, Kind};

/// Hosts of which something is remembered, before half of them are forgotten.
const HOSTS_MAX: usize = 100_000;

const BACKOFF: Duration = Duration::from_millis(100);
const BACKOFF_THROTTLED: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(20);

/// A host that asks for a wait of this length means all requests, always.
const FOR_ALL: Duration = Duration::from_secs(5);

/// Failures of an object after which it waits no longer than before, if its host answers others: it will hardly change.
const LASTING: u32 = 5;

/// What to do with a failed try.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Try again after this long; a try is charged.
    Again(Duration),
    /// Give it back: the host is paused or cools down, no try is charged.
    Uncharged,
    /// It has failed for good.
    GiveUp,
}

/// What all threads see without the machine.
#[derive(Debug)]
pub(super) struct Glance {
    pub answered: Answered,
    /// Those that have answered well.
    pub well: Answered,
    pub known: Known,
}

impl Glance {
    pub fn new(many: bool) -> Glance {
        Glance { answered: Answered::new(many), well: Answered::new(many), known: Known::new(many) }
    }

    /// A host has answered, well or badly.
    pub fn heard(&self, id: HostId, now: Time) {
        self.answered.add(id);
        self.answered.at(now);
    }
}

/// The hosts of a run, or of one side of it.
#[derive(Debug)]
pub(super) struct Machine {
    rules: Rules,
    glance: Arc<Glance>,
    hosts: HashMap<HostId, Host>,
    /// Pauses of hosts that are forgotten.
    paused_before: Duration,
}

impl Machine {
    pub fn new(rules: Rules, glance: Arc<Glance>) -> Machine {
        Machine { rules, glance, hosts: HashMap::new(), paused_before: Duration::ZERO }
    }

    /// What may be done with an object of a host. A probe is handed out to one caller.
    pub fn gate(&mut self, id: HostId, now: Time) -> Gate {
        let gate = self.look(id, now);
        if gate == Gate::Probe
            && let Some(pause) = self.pause_of(id)
        {
            pause.asks(now);
        } else if gate == Gate::Open
            && let Some(pace) = self.hosts.get_mut(&id).and_then(|host| host.pace.as_mut())
        {
            pace.asks(now);
        }
        gate
    }

    /// The same, but no probe is handed out.
    pub fn look(&self, id: HostId, now: Time) -> Gate {
        self.hosts.get(&id).map_or(Gate::Open, |host| host.gate(now, &self.judge(id)))
    }

    /// A host has answered well. That to a request which was under way when a pause for failures began says nothing of the
    /// host as it is now: besides probes, only answers count that come long after. `whole`: it was the whole object.
    pub fn answered(&mut self, id: HostId, probe: bool, whole: bool, now: Time) {
        self.glance.heard(id, now);
        self.glance.well.add(id);
        if !self.hosts.contains_key(&id) {
            return;
        }
        self.change(id, now, |host, _| {
            let is_late =
                |pause: &Pause| pause.why != PausedFor::Failures || now.saturating_sub(pause.since) >= PROBE_MAX;
            if host.pause.as_ref().is_some_and(|pause| probe || is_late(pause)) {
                host.resume(now);
            }
            if let Some(pace) = &mut host.pace {
                pace.answered(false, now);
                host.pace.take_if(|pace| pace.is_over(now));
            }
            if whole {
                host.tokens = (host.tokens + REFUND).min(TOKENS);
            }
        });
    }

    /// A try failed with an error of class `Retry`. `tries`: failed ones so far, this one included; `trying`: time since the
    /// first, less pauses of the host.
    pub fn failed(&mut self, error: &Error, tries: u32, trying: Duration, probe: bool, now: Time) -> Verdict {
        let (id, behind) = (error.host_id(), error.is_behind_host());
        if error.kind() == Kind::OutOfFiles {
            if probe {
                self.unprobed(id);
            }
            return Verdict::Uncharged;
        }
        let is_silent = is_silent(error.kind()) && !behind;
        if !is_silent {
            self.glance.heard(id, now);
        }
        if behind {
            self.answered(id, probe, true, now); // it has redirected
        }
        let rules = self.rules;
        let answers_others = self.glance.well.any() && self.glance.well.has(id);
        self.change(id, now, |host, judge| {
            (host.last.kind, host.last.at) = (error.kind(), now);
            error.why().clone_into(&mut host.last.why);
            if rules.many && error.kind() == Kind::Throttled && !behind {
                match &mut host.pace {
                    Some(pace) => pace.answered(true, now),
                    None => host.pace = Some(Box::new(Pace::new(now))),
                }
            }
            let asked = error.wait_asked();
            let is_for_all = asked.is_some_and(|wait| wait >= FOR_ALL || !wait.is_zero() && host.refuses_most());
            if let Some(wait) = asked.filter(|_| is_for_all) {
                host.cools(wait, now);
            }
            if !is_silent && host.pause.as_ref().is_some_and(|pause| pause.why != PausedFor::Failures) {
                host.resume(now);
            }
            if host.pause.is_some() {
                if !host.failed_in_pause(error, probe, is_silent, now, judge) {
                    return Verdict::Uncharged;
                }
            } else if (is_silent || tries == 1 && !behind) && host.charge(error, judge) {
                host.pause(PausedFor::Failures, now);
            }
            if tries > rules.max_retries || trying > rules.timeout || error.is_behind_away() {
                if let Some(pause) = &mut host.pause {
                    pause.stuck_since = pause.stuck_since.map(|_| now);
                }
                return Verdict::GiveUp;
            }
            let wait = match asked {
                Some(_) if is_for_all => Duration::ZERO,
                Some(wait) => spread(wait),
                None if error.kind() == Kind::ServerError && answers_others && host.is_well() => {
                    backoff(tries.min(LASTING), false)
                }
                None => backoff(tries, error.kind() == Kind::Throttled),
            };
            Verdict::Again(wait.min(rules.timeout.saturating_sub(trying)))
        })
    }

    /// A request has been without an answer for a while, and nothing else arrives from its host. The host is paused: it
    /// would hold up the others. If it has never answered, but is connected, the next object may ask it soon, beside those
    /// that hang.
    pub fn hangs(&mut self, id: HostId, is_connected: bool, now: Time) {
        self.change(id, now, |host, judge| {
            if host.pause.is_none() {
                (host.last.kind, host.last.at) = (Kind::Timeout, now);
                "no answer yet".clone_into(&mut host.last.why);
            }
            let pause = host.pause(PausedFor::Silence { is_connected }, now);
            if !pause.probing {
                pause.asked_at = now; // that of an earlier probe says nothing of this request
            }
            pause.ask_later(now);
            pause.probing = !is_connected || judge.has_answered;
        });
    }

    /// A probe came to nothing through no fault of the host (given back, or the object itself failed).
    pub fn unprobed(&mut self, id: HostId) {
        if let Some(pause) = self.pause_of(id) {
            pause.probing = false;
        }
    }

    /// What has ended with nothing left to ask for is forgotten: without it, objects of other hosts pass more quickly.
    pub fn tick(&mut self, now: Time) {
        let is_over = |host: &Host| host.cool_until.is_some_and(|until| until <= now);
        let over: Vec<HostId> = self.hosts.iter().filter(|(_, host)| is_over(host)).map(|(id, _)| *id).collect();
        for id in over {
            self.change(id, now, |host, _| host.cool_until = None);
        }
    }

    /// If an object of a host should not be waited for with its partition: the failure to record, and when to try it again.
    /// One object comes back soon, to ask whether the host is there; the others when it counts as one that stays away.
    /// `has_room`: the host takes another request, if a probe is due.
    pub fn deferral(&mut self, id: HostId, has_room: bool, now: Time) -> Option<(Error, Duration)> {
        let is_due = matches!(self.look(id, now), Gate::Open | Gate::Probe);
        let timeout = self.rules.timeout;
        let host = self.hosts.get_mut(&id).filter(|host| host.is_gated() && !(is_due && has_room))?;
        let cools = host.cool_until.map_or(Duration::ZERO, |until| until.saturating_sub(now));
        let wait = match &mut host.pause {
            Some(pause) if now.saturating_sub(pause.since) >= HOLD_MAX => {
                let is_first = !std::mem::replace(&mut pause.is_asked_later, true);
                cools.max(if is_first { PROBE_MAX } else { left(timeout, pause, now) })
            }
            _ => cools,
        };
        let error = || Error::new(host.last.kind, host.last.why.clone()).host(id);
        (wait > HOLD_MAX).then(|| (error(), wait))
    }

    /// When an object that has asked a paused host in vain is tried again: with those that did not come back soon.
    pub fn wait_of_others(&self, id: HostId, now: Time) -> Option<Duration> {
        let pause = self.hosts.get(&id)?.pause.as_ref().filter(|_| self.rules.many)?;
        Some(left(self.rules.timeout, pause, now))
    }

    /// The failure of an object of a host that stays away.
    pub fn away(&self, id: HostId, now: Time) -> Error {
        let Some(host) = self.hosts.get(&id) else { return Error::new(Kind::Connect, "its host stays away").host(id) };
        let why = match &host.pause {
            Some(pause) => {
                let away = now.saturating_sub(pause.since).as_secs();
                format!("no good answer from its host for {away} s; the last one: {}", host.last.why)
            }
            None => format!("its host asks to wait longer than allowed; {}", host.last.why),
        };
        Error::new(host.last.kind, why).host(id)
    }

    /// The error with which the run ends because its host stays away, if it does. `what`: what the host is called.
    pub fn unreachable(&self, what: &str, now: Time) -> Option<Error> {
        // Of many hosts, it takes some probes to tell which is to blame.
        let patience = self.patience().max(if self.rules.many { 3 * PROBE_MAX } else { Duration::ZERO });
        let hint = "finished work is kept: run the same command again later (`retry_timeout` sets how long to wait)";
        self.hosts.iter().find_map(|(id, host)| {
            let stuck = match &host.pause {
                // It is not the network: the objects of that host fail.
                Some(pause) if self.judge(*id).blames(pause) => return None,
                pause => pause.as_ref().and_then(|pause| pause.stuck_since),
            };
            let away = stuck.map(|since| now.saturating_sub(since)).filter(|away| *away > patience);
            let cools = host.cool_until.map(|until| until.saturating_sub(now));
            let cools = cools.filter(|wait| *wait > patience && !self.rules.many);
            let (last, seconds) = (&host.last.why, away.or(cools)?.as_secs_f64());
            let why = match away {
                Some(_) => format!("no successful answer from {what} for {seconds:.0} s; the last one: {last}"),
                None => format!("{what} asks to wait {seconds:.0} s, longer than allowed; {last}"),
            };
            Some(Error::new(Kind::Unreachable, why).hint(hint))
        })
    }

    /// How long the listing, which asks one page at a time, waits after its `tries`-th failure in a row; `None`: it gives up.
    pub fn listing_wait(&self, error: &Error, tries: u32, since: Duration) -> Option<Duration> {
        let asked = error.wait_asked();
        if since > self.patience() || asked.is_some_and(|wait| wait > self.patience()) {
            return None;
        }
        Some(asked.unwrap_or_else(|| backoff(tries, false).min(PROBE_MAX)))
    }

    /// Time that a host has been paused so far for failures: taken off the time an object has been tried.
    pub fn paused(&self, id: HostId, now: Time) -> Duration {
        self.hosts.get(&id).map_or(Duration::ZERO, |host| host.paused_for(now))
    }

    /// How long the probe of a host that says nothing has been under way.
    pub fn waited(&self, id: HostId, now: Time) -> Duration {
        let pause = self.hosts.get(&id).and_then(|host| host.pause.as_ref());
        let silent = pause.filter(|pause| pause.probing && pause.why != PausedFor::Failures);
        silent.map_or(Duration::ZERO, |pause| now.saturating_sub(pause.asked_at))
    }

    /// All these pauses of all hosts.
    pub fn paused_total(&self, now: Time) -> Duration {
        self.paused_before + self.hosts.values().map(|host| host.paused_for(now)).sum::<Duration>()
    }

    /// How long no host may answer.
    fn patience(&self) -> Duration {
        if self.glance.answered.any() { self.rules.timeout } else { self.rules.timeout.min(FIRST_ANSWER) }
    }

    fn judge(&self, id: HostId) -> Judge<'_> {
        let answered = &self.glance.answered;
        Judge { rules: self.rules, answered, has_answered: answered.has(id) }
    }

    fn pause_of(&mut self, id: HostId) -> Option<&mut Pause> {
        self.hosts.get_mut(&id)?.pause.as_mut()
    }

    /// Changes what is known of a host, and with it what is seen at a glance.
    fn change<T>(&mut self, id: HostId, now: Time, change: impl FnOnce(&mut Host, &Judge<'_>) -> T) -> T {
        if self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(&id) {
            self.forget();
        }
        let glance = self.glance.clone();
        let judge = Judge { rules: self.rules, answered: &glance.answered, has_answered: glance.answered.has(id) };
        let host = self.hosts.entry(id).or_insert_with(|| Host::new(now));
        let before = (host.is_troubled(), host.is_gated());
        let result = change(host, &judge);
        glance.known.changed(id, [before.0, host.is_troubled()], [before.1, host.is_gated()]);
        if !host.is_kept() {
            self.hosts.remove(&id);
        }
        result
    }

    /// Forgets half of the hosts: those first that are neither paused nor cool down, and then those that failed longest ago.
    /// If one of these is asked again, it has to fail again.
    fn forget(&mut self) {
        let mut by_age: Vec<_> = self.hosts.iter().map(|(id, host)| (host.is_gated(), host.last.at, *id)).collect();
        let half = by_age.len() / 2;
        by_age.select_nth_unstable(half);
        for (is_gated, _, id) in by_age.drain(..half) {
            let Some(host) = self.hosts.remove(&id) else { continue };
            self.glance.known.changed(id, [host.is_troubled(), false], [is_gated, false]);
            self.paused_before += host.paused;
        }
    }

    /// How many hosts are remembered.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.hosts.len()
    }
}

/// How long a paused host has left until it counts as one that stays away.
fn left(timeout: Duration, pause: &Pause, now: Time) -> Duration {
    timeout.min(FIRST_ANSWER).saturating_sub(now.saturating_sub(pause.since)).max(PROBE_MAX)
}

/// Whether the host said nothing.
pub(super) fn is_silent(kind: Kind) -> bool {
    matches!(kind, Kind::Connect | Kind::Timeout | Kind::Disconnected)
}

/// Full jitter (AWS architecture blog, 2015): anything between nothing and the doubled base.
fn backoff(tries: u32, throttle: bool) -> Duration {
    let base = if throttle { BACKOFF_THROTTLED } else { BACKOFF };
    base.saturating_mul(1 << (tries.saturating_sub(1)).min(16)).min(BACKOFF_MAX).mul_f64(fastrand::f64())
}
