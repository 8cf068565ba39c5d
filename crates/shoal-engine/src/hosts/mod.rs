//! Hosts: what is known of each, whether it may be asked now, what a failed try means, and which of many stays away.
//!
//! Source hosts, those to which redirects lead and the destination are one kind of thing here. `host.rs` has what is known of
//! one and the state that follows, `machine.rs` what happens to all. Both have no clock, lock, or input and output, so
//! `models/` runs them in virtual time. `trouble.rs` tells whether fewer requests help against refusals, `pace.rs` sends
//! fewer to one of many hosts. `silence.rs` says when a request hangs, `places.rs` which objects of a lane take
//! the place of others, `targets.rs` which redirects are followed. Here: the machine behind one lock, with a quick answer
//! for hosts of which nothing is remembered, since nearly every object is of one (`sets.rs`). Not here: classes of errors
//! (`shoal-core`), the waiting itself (`engine/lane/`).

mod host;
mod machine;
#[cfg(test)]
mod models;
mod pace;
mod places;
mod sets;
mod silence;
mod targets;
#[cfg(test)]
mod tests;
mod trouble;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub(crate) use self::host::{Gate, Time};
pub(crate) use self::machine::Verdict;
use self::machine::{Glance, Machine};
pub(crate) use self::places::Places;
pub(crate) use self::silence::{LOOK, Patience};
pub(crate) use self::targets::Targets;
pub(crate) use self::trouble::{Answers, Consequence, Sign, Trouble};
use crate::error::{Error, HostId, Kind};
use crate::poison::ignore_poison;

/// First wait between two probes of a paused host; doubles up to `PROBE_MAX`, so recovery is seen within seconds.
pub(crate) const PROBE_MIN: Duration = Duration::from_millis(250);
const PROBE_MAX: Duration = Duration::from_secs(2);
/// A retry further away than this leaves its partition, which can then be committed.
pub(crate) const HOLD_MAX: Duration = Duration::from_secs(1);
/// A host that has never answered is given up sooner: most likely the address is wrong.
const FIRST_ANSWER: Duration = Duration::from_secs(10);
/// The destination, in its own `Hosts`.
pub(crate) const DESTINATION: HostId = HostId(0);

/// How long and how often is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub max_retries: u32,
    pub timeout: Duration,
    /// There are many hosts: one that stays away does not end the run.
    pub many: bool,
}

/// The hosts of a run, or of one side of it.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// For messages: "the server", "the destination".
    what: &'static str,
    many: bool,
    began: Instant,
    glance: Arc<Glance>,
    machine: Mutex<Machine>,
    throttled: AtomicU64,
    /// First requests for an object that had no answer.
    silent: AtomicU64,
}

impl Hosts {
    pub fn new(what: &'static str, rules: Rules) -> Hosts {
        let glance = Arc::new(Glance::new(rules.many));
        Hosts {
            what,
            many: rules.many,
            began: Instant::now(),
            machine: Mutex::new(Machine::new(rules, glance.clone())),
            glance,
            throttled: AtomicU64::new(0),
            silent: AtomicU64::new(0),
        }
    }

    /// Whether there are many.
    pub fn are_many(&self) -> bool {
        self.many
    }

    /// Whether nothing is remembered of a host: it may be asked.
    pub fn is_well(&self, host: HostId) -> bool {
        !self.glance.known.may_have(host)
    }

    /// Whether this host has answered, well or badly.
    pub fn has_answered(&self, host: HostId) -> bool {
        self.glance.answered.has(host)
    }

    /// Whether some host is paused or cools down.
    pub fn any_gated(&self) -> bool {
        self.glance.known.any_gated()
    }

    /// Whether none may be asked for the time being. Of many hosts, some other can still be.
    pub fn are_all_gated(&self) -> bool {
        self.any_gated() && !self.many
    }

    /// What may be done with an object of a host that is to be requested now. A probe is handed out to one caller.
    pub fn gate(&self, host: HostId) -> Gate {
        if self.is_well(host) { Gate::Open } else { self.machine().gate(host, self.now()) }
    }

    /// The same, but no probe is handed out.
    pub fn look(&self, host: HostId) -> Gate {
        if self.is_well(host) { Gate::Open } else { self.machine().look(host, self.now()) }
    }

    /// A host has answered, well or badly.
    pub fn hears(&self, host: HostId) {
        self.glance.answered.add(host);
    }

    /// A request to `host` was answered well.
    pub fn succeeded(&self, host: HostId, probe: bool) {
        self.answered(host, probe, true);
    }

    /// A good answer of this host has begun.
    pub fn arrives(&self, host: HostId, probe: bool) {
        self.answered(host, probe, false);
    }

    fn answered(&self, host: HostId, probe: bool, whole: bool) {
        if probe || !self.is_well(host) {
            self.machine().answered(host, probe, whole, self.now());
            return;
        }
        self.glance.well.add(host);
        match self.any_gated() {
            true => self.glance.heard(host, self.now()),
            false => self.glance.answered.add(host),
        }
    }

    /// See [`Machine::failed`].
    pub fn failed(&self, error: &Error, tries: u32, trying: Duration, probe: bool) -> Verdict {
        if error.kind() == Kind::Throttled {
            self.throttled.fetch_add(1, Relaxed);
        }
        if machine::is_silent(error.kind()) && !error.is_behind_host() {
            self.silent.fetch_add(u64::from(tries == 1), Relaxed);
        }
        self.machine().failed(error, tries, trying, probe, self.now())
    }

    /// See [`Machine::hangs`].
    pub fn hangs(&self, host: HostId, is_connected: bool) {
        self.machine().hangs(host, is_connected, self.now());
    }

    /// See [`Machine::unprobed`].
    pub fn unprobed(&self, host: HostId) {
        self.machine().unprobed(host);
    }

    /// The listing has answered. With many hosts, it is none of them.
    pub fn listed(&self) {
        if !self.many {
            self.glance.answered.set_any();
        }
    }

    /// Nothing more will be listed. A host that has never answered is to blame now, though none has: a stop would only leave
    /// the last objects without an end each time. While more is listed, it keeps all of them from failing.
    pub fn listed_all(&self) {
        if self.many {
            self.glance.answered.set_any();
        }
    }

    /// How long the listing waits after its `tries`-th failure in a row; `None`: it gives up.
    pub fn listing_wait(&self, error: &Error, tries: u32, since: Duration) -> Option<Duration> {
        if !machine::is_silent(error.kind()) {
            self.listed();
        }
        self.machine().listing_wait(error, tries, since)
    }

    /// Looks at the time. Returns the error with which the run ends because its host stays away, if it does.
    pub fn tick(&self) -> Option<Error> {
        if !self.any_gated() {
            return None;
        }
        let (mut machine, now) = (self.machine(), self.now());
        machine.tick(now);
        machine.unreachable(self.what, now)
    }

    /// See [`Machine::deferral`].
    pub fn deferral(&self, host: HostId, has_room: bool) -> Option<(Error, Duration)> {
        if self.is_well(host) { None } else { self.machine().deferral(host, has_room, self.now()) }
    }

    /// See [`Machine::wait_of_others`].
    pub fn wait_of_others(&self, host: HostId) -> Option<Duration> {
        self.machine().wait_of_others(host, self.now())
    }

    /// When an object of a host that has never been asked is tried, because as many others hang as may.
    pub fn turn(&self, host: HostId) -> (Error, Duration) {
        let why = "its host has not been asked so far: too many others have not answered";
        (Error::new(Kind::Timeout, why).host(host), FIRST_ANSWER)
    }

    /// The failure of an object of a host that stays away.
    pub fn away(&self, host: HostId) -> Error {
        self.machine().away(host, self.now())
    }

    /// Time that a host has been paused so far for failures: taken off the time an object has been tried.
    pub fn paused(&self, host: HostId) -> Duration {
        self.machine().paused(host, self.now())
    }

    /// How long a host that says nothing has been waited for by the request that asks whether it is back.
    pub fn waited(&self, host: HostId) -> Duration {
        self.machine().waited(host, self.now())
    }

    /// All these pauses of all hosts.
    pub fn paused_total(&self) -> Duration {
        self.machine().paused_total(self.now())
    }

    /// Answers so far that asked to slow down, and requests without an answer, one for each object. `None` of many hosts:
    /// what one does says nothing of the others.
    pub fn pressure(&self) -> Option<(u64, u64)> {
        (!self.many).then(|| (self.throttled.load(Relaxed), self.silent.load(Relaxed)))
    }

    fn now(&self) -> Time {
        self.began.elapsed()
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        ignore_poison(self.machine.lock())
    }
}
