//! What happens after a failed try: again soon, again later, never, or the whole host pauses. Pure rules and one small
//! state per host; classes of errors are in `error.rs`, the waiting itself in `lane/` and `commit.rs`.
//!
//! - Back-off with full jitter: 100 ms base (1 s when throttled), doubling, at most 20 s, and no longer than the object has
//!   left: its last try comes when its time ends.
//! - A bucket of 500 tokens per host: a failed try takes 14 (5 when throttled), a success gives 2 back. Empty: the host
//!   pauses. One probe at a time asks it again, with an object not yet tried if there is one; a probe without an answer is
//!   charged no try. A probe that succeeds ends the pause.
//! - With many hosts, one that stays away does not end the run (`many.rs`).
//! - An answer, even a bad one, to a *repeated* request says something about the object and takes no tokens; no answer
//!   always says something about the host. So a few stubborn objects never pause a healthy host, an outage does.

mod backoff;
mod buckets;
mod heard;
mod host;
mod host_filter;
mod many;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use backoff::backoff;
use buckets::Buckets;
use heard::Heard;
pub(crate) use host::{Gate, HostState, PROBE_MIN};
use host::{Host, PROBE_MAX, PausedFor};
use host_filter::HostFilter;

use crate::error::{Error, HostId, Kind};
use crate::poison::ignore_poison;

/// Tokens for an error and for a throttled answer, as in AWS SDKs.
const COST: i64 = 14;
const THROTTLE_COST: i64 = 5;
/// Of many hosts, what costs a host that has never answered: lists have thousands that are gone.
const UNHEARD_COST: i64 = 100;
/// A retry further away than this leaves its partition, which can then be committed.
pub(crate) const HOLD_MAX: Duration = Duration::from_secs(1);
/// A host that has never answered is given up sooner: most likely the address is wrong.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// Hosts of which something is remembered, before some are forgotten.
const HOSTS_MAX: usize = 100_000;

/// The destination, in the retry rules for it.
pub(crate) const DESTINATION: HostId = HostId(0);

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

/// The retry rules of one run and the state of its hosts.
pub(crate) struct Retry {
    /// For messages: "the server", "the destination".
    what: &'static str,
    max_retries: u32,
    timeout: Duration,
    /// The hosts that are paused or cool down.
    gated: HostFilter,
    hosts: Mutex<HashMap<HostId, Host>>,
    buckets: Buckets,
    throttled: AtomicU64,
    /// First requests for an object that had no answer.
    silent: AtomicU64,
    /// Some host has answered something since the start. Of many hosts: or all objects are listed.
    answered: AtomicBool,
    /// With many hosts: which of them have answered.
    heard: Option<Heard>,
    /// Pauses of hosts that are forgotten.
    paused_before: Mutex<Duration>,
}

impl Retry {
    pub fn new(what: &'static str, max_retries: u32, timeout: Duration) -> Retry {
        Retry {
            what,
            max_retries,
            timeout,
            gated: HostFilter::new(1),
            hosts: Mutex::default(),
            buckets: Buckets::new(1),
            throttled: AtomicU64::new(0),
            silent: AtomicU64::new(0),
            answered: AtomicBool::new(false),
            heard: None,
            paused_before: Mutex::default(),
        }
    }

    /// Whether `host` may be asked now. `Probe` is answered to one caller at a time, or to as many as requests have failed
    /// of those that hung.
    pub fn gate(&self, host: HostId, now: Instant) -> Gate {
        if !self.gated.may_have(host) {
            return Gate::Open;
        }
        let mut hosts = self.hosts();
        let Some(state) = hosts.get_mut(&host) else { return Gate::Open };
        if let Some(until) = state.cool_until {
            if now < until {
                return Gate::Closed;
            }
            state.cool_until = None;
            if !state.is_gated() {
                self.gated.remove(host);
            }
        }
        match state.paused_since {
            None => Gate::Open,
            Some(_) if state.probing || now < state.next_probe => Gate::Closed,
            Some(_) => {
                state.asked(now);
                Gate::Probe
            }
        }
    }

    /// Whether `gate` would answer `Closed`; hands out no probe.
    pub fn is_closed(&self, host: HostId) -> bool {
        let now = Instant::now();
        self.hosts().get(&host).is_some_and(|state| state.is_closed(now))
    }

    /// Whether `host` is paused, also if a probe may ask it now.
    pub fn is_paused(&self, host: HostId) -> bool {
        self.hosts().get(&host).is_some_and(|state| state.paused_since.is_some())
    }

    /// A request to `host` was answered well.
    pub fn succeeded(&self, host: HostId, probe: bool) {
        self.arrives(host, probe);
        self.buckets.refund(host);
    }

    /// Some host has answered, well or badly: the address is right.
    pub(super) fn answered(&self) {
        if !self.answered.load(Relaxed) {
            self.answered.store(true, Relaxed);
        }
    }

    /// A good answer ends the pause. That to a request which was under way when the pause began says nothing of the host
    /// as it is now: besides probes, only answers count that come long after. A pause for silence ends with any answer.
    fn resume(&self, host: HostId, probe: bool) {
        let mut hosts = self.hosts();
        let Some(state) = hosts.get_mut(&host) else { return };
        if !probe && !state.is_slow && state.paused_since.is_some_and(|since| since.elapsed() < PROBE_MAX) {
            return;
        }
        state.probing = false;
        if let Some(since) = state.paused_since.take() {
            state.stuck_since = None;
            state.is_asked_later = false;
            (state.probe_wait, state.may_ask) = (PROBE_MIN, 0);
            if !state.is_gated() {
                self.gated.remove(host);
            }
            if !std::mem::take(&mut state.is_slow) {
                state.paused += since.elapsed();
                self.buckets.fill_half(host);
            }
        }
    }

    /// A try failed with an error of class `Retry`. `tries`: failed ones so far, this one included; `trying`: time since
    /// the first, less pauses of the host.
    pub fn failed(&self, error: &Error, tries: u32, trying: Duration, probe: bool) -> Verdict {
        let now = Instant::now();
        let throttle = error.kind() == Kind::Throttled;
        if throttle {
            self.throttled.fetch_add(1, Relaxed);
        }
        if error.kind() == Kind::OutOfFiles {
            if probe {
                self.unprobed(error.host_id());
            }
            return Verdict::Uncharged;
        }
        let behind = error.is_behind_host();
        if behind {
            self.succeeded(error.host_id(), probe);
        }
        let mut hosts = self.hosts();
        if hosts.len() >= HOSTS_MAX {
            self.forget(&mut hosts);
        }
        let host = hosts.entry(error.host_id()).or_insert_with(|| Host::new(now));
        error.why().clone_into(&mut host.last_error);
        (host.last_kind, host.failed_at) = (error.kind(), now);
        let silent = is_silent(error.kind()) && !behind;
        if !silent {
            self.answered_by(error.host_id());
        } else if tries == 1 {
            self.silent.fetch_add(1, Relaxed);
        }
        if let Some(wait) = error.wait_asked().filter(|wait| !wait.is_zero()) {
            // Up to a tenth more, so that not all requests come back in the same instant.
            let until = now + wait.mul_f64(1.0 + 0.1 * fastrand::f64());
            if !host.is_gated() {
                self.gated.add(error.host_id());
            }
            host.cool_until = Some(host.cool_until.map_or(until, |earlier| earlier.max(until)));
        }
        if host.paused_since.is_some() {
            host.has_failed = true;
            if host.is_slow && probe && silent {
                self.hung(host, error, now);
            }
            if !host.is_slow {
                host.stuck_since = host.stuck_since.or(host.paused_since);
            }
            if probe {
                host.probing = false;
                host.ask_later(now);
                if !self.has_answered(error.host_id()) && self.is_away(error.host_id(), host, now) {
                    // Else objects of a silent host would mostly find it with a probe under way, and each ask it again.
                    host.next_probe = host.next_probe.max(now + now.duration_since(host.asked_at));
                }
            }
            if !probe || silent && !host.is_slow {
                return Verdict::Uncharged;
            }
        } else if (silent || tries == 1 && !behind) && self.buckets.charge(error.host_id(), self.cost(error, throttle))
        {
            if !host.is_gated() {
                self.gated.add(error.host_id());
            }
            host.pause(now, PausedFor::Failures);
            host.probing = false;
            host.next_probe = now + host.probe_wait;
        }
        if tries > self.max_retries || trying > self.timeout || self.is_given_up_behind(error, trying) {
            host.stuck_since = host.stuck_since.map(|_| now);
            return Verdict::GiveUp;
        }
        let asked = error.wait_asked().is_some();
        let left = self.timeout.saturating_sub(trying);
        Verdict::Again(if asked { Duration::ZERO } else { backoff(tries, throttle).min(left) })
    }

    /// A probe came to nothing through no fault of the host (given back, or the object itself failed).
    pub fn unprobed(&self, host: HostId) {
        if let Some(state) = self.hosts().get_mut(&host) {
            state.probing = false;
        }
    }

    /// The error with which the run ends because its host stays away, if it does.
    pub fn unreachable(&self, now: Instant) -> Option<Error> {
        if self.gated.is_empty() {
            return None;
        }
        let hosts = self.hosts();
        let hint = "finished work is kept: run the same command again later (`retry_timeout` sets how long to wait)";
        for (id, host) in hosts.iter() {
            if self.is_to_blame(*id, host) {
                continue; // it is not the network: the objects of that host fail (`is_away`)
            }
            let last = &host.last_error;
            // Of many hosts, it takes some probes to tell which is to blame.
            let patience = self.patience().max(if self.is_of_many() { 3 * PROBE_MAX } else { Duration::ZERO });
            let away = host
                .paused_since
                .and(host.stuck_since)
                .map(|since| now.duration_since(since))
                .filter(|away| *away > patience);
            if let Some(away) = away {
                let why = format!(
                    "no successful answer from {} for {:.0} s; the last one: {last}",
                    self.what,
                    away.as_secs_f64()
                );
                return Some(Error::new(Kind::Unreachable, why).hint(hint));
            }
            let wait =
                host.cool_until.map(|until| until.saturating_duration_since(now)).filter(|wait| *wait > patience);
            if let Some(wait) = wait.filter(|_| !self.is_of_many()) {
                let why =
                    format!("{} asks to wait {:.0} s, longer than allowed; {last}", self.what, wait.as_secs_f64());
                return Some(Error::new(Kind::Unreachable, why).hint(hint));
            }
        }
        None
    }

    /// Time that `host` has been paused so far: taken off the time an object has been tried.
    pub fn paused(&self, host: HostId) -> Duration {
        self.hosts().get(&host).map_or(Duration::ZERO, |state| {
            let paused = state.paused_since.filter(|_| !state.is_slow);
            state.paused + paused.map_or(Duration::ZERO, |since| since.elapsed())
        })
    }

    /// All pauses of all hosts.
    pub fn paused_total(&self) -> Duration {
        let ids: Vec<HostId> = self.hosts().keys().copied().collect();
        *lock(&self.paused_before) + ids.into_iter().map(|id| self.paused(id)).sum::<Duration>()
    }

    /// Whether some host is paused or cools down.
    pub fn is_gated(&self) -> bool {
        !self.gated.is_empty()
    }

    /// Answers so far that asked to slow down.
    pub fn throttled(&self) -> u64 {
        self.throttled.load(Relaxed)
    }

    /// Requests so far that had no answer, one for each object.
    pub fn silent(&self) -> u64 {
        self.silent.load(Relaxed)
    }

    /// How long the listing, which asks one page at a time, waits after its `tries`-th failure in a row;
    /// `None`: it gives up.
    pub fn listing_wait(&self, error: &Error, tries: u32, since: Duration) -> Option<Duration> {
        if !is_silent(error.kind()) {
            self.listed();
        }
        if since > self.patience() || error.wait_asked().is_some_and(|wait| wait > self.patience()) {
            return None;
        }
        Some(error.wait_asked().unwrap_or_else(|| backoff(tries, false).min(PROBE_MAX)))
    }

    /// How long a host may stay away.
    fn patience(&self) -> Duration {
        if self.answered.load(Relaxed) { self.timeout } else { self.timeout.min(FIRST_ANSWER) }
    }

    fn hosts(&self) -> std::sync::MutexGuard<'_, HashMap<HostId, Host>> {
        lock(&self.hosts)
    }
}

/// Whether the host said nothing.
fn is_silent(kind: Kind) -> bool {
    matches!(kind, Kind::Connect | Kind::Timeout | Kind::Disconnected)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    ignore_poison(mutex.lock())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: HostId = HostId(0);

    fn retry() -> Retry {
        Retry::new("the server", 10, Duration::from_secs(180))
    }

    pub(super) fn error(kind: Kind) -> Error {
        Error::new(kind, "x")
    }

    #[test]
    fn an_outage_pauses_the_host_and_one_probe_ends_it() {
        let retry = retry();
        let failures = (0..1000)
            .take_while(|_| retry.failed(&error(Kind::Connect), 1, Duration::ZERO, false) != Verdict::Uncharged)
            .count();
        assert!(failures < 40, "{failures} objects were charged for one outage");
        let later = Instant::now() + Duration::from_secs(1);
        assert_eq!(retry.gate(HOST, Instant::now()), Gate::Closed);
        assert_eq!(retry.gate(HOST, later), Gate::Probe);
        assert_eq!(retry.gate(HOST, later), Gate::Closed, "one probe at a time");
        assert_eq!(retry.failed(&error(Kind::Connect), 1, Duration::ZERO, true), Verdict::Uncharged);
        assert_eq!(retry.gate(HOST, later + PROBE_MAX), Gate::Probe);
        retry.succeeded(HOST, true);
        assert_eq!(retry.gate(HOST, later), Gate::Open);
    }

    #[test]
    fn a_probe_for_which_there_is_no_file_descriptor_is_followed_by_another() {
        let retry = retry();
        while retry.failed(&error(Kind::Connect), 1, Duration::ZERO, false) != Verdict::Uncharged {}
        let later = Instant::now() + Duration::from_secs(1);
        assert_eq!(retry.gate(HOST, later), Gate::Probe);
        assert_eq!(retry.failed(&error(Kind::OutOfFiles), 1, Duration::ZERO, true), Verdict::Uncharged);
        assert_eq!(retry.gate(HOST, later), Gate::Probe);
    }

    #[test]
    fn an_answer_that_was_under_way_when_the_pause_began_does_not_end_it() {
        let retry = retry();
        while retry.failed(&error(Kind::Connect), 1, Duration::ZERO, false) != Verdict::Uncharged {}
        retry.succeeded(HOST, false);
        assert_eq!(retry.gate(HOST, Instant::now()), Gate::Closed);
        std::thread::sleep(PROBE_MAX);
        retry.succeeded(HOST, false);
        assert_eq!(retry.gate(HOST, Instant::now()), Gate::Open, "one that comes long after does");
    }

    #[test]
    fn stubborn_objects_do_not_pause_a_healthy_host() {
        let retry = retry();
        for object in 0..100_000u32 {
            if object % 100 == 0 {
                for tries in 1..=10 {
                    assert!(matches!(
                        retry.failed(&error(Kind::ServerError), tries, Duration::ZERO, false),
                        Verdict::Again(_)
                    ));
                }
            }
            retry.succeeded(HOST, false);
        }
        // Only stubborn ones are left at the end; they still do not.
        for tries in 2..=10 {
            for _ in 0..1000 {
                retry.failed(&error(Kind::ServerError), tries, Duration::ZERO, false);
            }
        }
        assert!(!retry.is_gated());
    }

    #[test]
    fn when_only_broken_objects_are_left_probes_use_up_their_tries() {
        let retry = Retry::new("the server", 3, Duration::from_secs(180));
        for _ in 0..40 {
            retry.failed(&error(Kind::ShortBody), 1, Duration::ZERO, false);
        }
        assert!(retry.is_gated());
        for tries in 2..=3 {
            let verdict = retry.failed(&error(Kind::ShortBody), tries, Duration::ZERO, true);
            assert!(matches!(verdict, Verdict::Again(_)), "{verdict:?}");
        }
        assert_eq!(retry.failed(&error(Kind::ShortBody), 4, Duration::ZERO, true), Verdict::GiveUp);
    }

    #[test]
    fn tries_and_time_run_out() {
        let retry = retry();
        let failed = |tries, secs| retry.failed(&error(Kind::ServerError), tries, Duration::from_secs(secs), false);
        assert!(matches!(failed(10, 1), Verdict::Again(_)));
        assert_eq!(failed(11, 1), Verdict::GiveUp);
        assert_eq!(failed(2, 181), Verdict::GiveUp);
    }

    #[test]
    fn no_wait_is_longer_than_the_time_an_object_has_left() {
        let retry = Retry::new("the server", 40, Duration::from_secs(10));
        let wait = |millis| match retry.failed(&error(Kind::ServerError), 12, Duration::from_millis(millis), false) {
            Verdict::Again(wait) => wait,
            verdict => panic!("{verdict:?}"),
        };
        // Up to 20 s without a limit.
        assert!((0..100).all(|_| wait(9_500) <= Duration::from_millis(500)));
        assert!((0..100).any(|_| wait(500) > Duration::from_secs(5)));
        assert_eq!(wait(10_000), Duration::ZERO);
    }

    #[test]
    fn retry_after_closes_the_whole_host_for_that_long() {
        let retry = retry();
        let error = error(Kind::Throttled).retry_after(Some(Duration::from_secs(5)));
        assert_eq!(retry.failed(&error, 1, Duration::ZERO, false), Verdict::Again(Duration::ZERO));
        let now = Instant::now();
        assert_eq!(retry.gate(HOST, now + Duration::from_secs(4)), Gate::Closed);
        assert_eq!(retry.gate(HOST, now + Duration::from_secs(6)), Gate::Open);
    }

    #[test]
    fn a_listing_waits_as_long_as_a_host_asks_that_has_answered() {
        let retry = retry();
        assert_eq!(
            retry.listing_wait(&error(Kind::Timeout), 2, Duration::from_secs(11)),
            None,
            "it has never answered"
        );
        let asked = Some(Duration::from_secs(60));
        let throttled = error(Kind::Throttled).retry_after(asked);
        assert_eq!(retry.listing_wait(&throttled, 1, Duration::ZERO), asked);
        assert!(retry.listing_wait(&error(Kind::Timeout), 2, Duration::from_secs(11)).is_some());
    }

    #[test]
    fn a_host_that_never_answered_is_given_up_soon() {
        let retry = retry();
        while retry.failed(&error(Kind::Connect), 1, Duration::ZERO, false) != Verdict::Uncharged {}
        assert!(retry.unreachable(Instant::now() + Duration::from_secs(5)).is_none());
        assert!(retry.unreachable(Instant::now() + Duration::from_secs(12)).is_some());
    }
}
