//! With many hosts (a list of URLs), one that stays away does not end the run. While others answer, its objects fail
//! instead, and probes go on: if it answers again, its objects are fetched again.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::buckets::Buckets;
use super::heard::Heard;
use super::host::{Host, HostState, PROBE_MAX, PausedFor};
use super::host_filter::{HostFilter, PLACES_OF_MANY};
use super::{COST, FIRST_ANSWER, HOLD_MAX, HOSTS_MAX, Retry, THROTTLE_COST, UNHEARD_COST, lock};
use crate::error::{Error, HostId, Kind};

impl Retry {
    /// The same for a source with many hosts: one that stays away does not end the run.
    pub fn of_many(self) -> Retry {
        let (gated, buckets) = (HostFilter::new(PLACES_OF_MANY), Buckets::new(PLACES_OF_MANY));
        Retry { heard: Some(Heard::new()), gated, buckets, ..self }
    }

    /// Whether there are many hosts.
    pub fn is_of_many(&self) -> bool {
        self.heard.is_some()
    }

    /// Whether this host may be paused or cool down. If not, its state is `Open`.
    pub fn may_be_gated(&self, host: HostId) -> bool {
        self.gated.may_have(host)
    }

    /// What becomes of an object of this host, if it is taken now; hands out no probe.
    pub fn state(&self, host: HostId) -> HostState {
        if !self.may_be_gated(host) {
            return HostState::Open;
        }
        let now = Instant::now();
        let hosts = self.hosts();
        match hosts.get(&host) {
            Some(state) if state.is_closed(now) => match self.is_away(host, state, now) {
                true => HostState::Away,
                false => HostState::Closed,
            },
            _ => HostState::Open,
        }
    }

    /// The failure of an object of a host that stays away.
    pub fn away(&self, host: HostId) -> Error {
        let hosts = self.hosts();
        let Some(state) = hosts.get(&host) else {
            return Error::new(Kind::Connect, "its host stays away");
        };
        let away = state.paused_since.or(state.cool_until).map_or(0, |since| since.elapsed().as_secs());
        let why = match state.paused_since {
            Some(_) => format!("no good answer from its host for {away} s; the last one: {}", state.last_error),
            None => format!("its host asks to wait longer than allowed; {}", state.last_error),
        };
        Error::new(state.last_kind, why).host(host)
    }

    /// Whether a host stays away, and is to blame for it: others have answered since it went away, or only others ever
    /// did. If none answers, it may be the network (`unreachable`).
    pub(super) fn is_away(&self, id: HostId, host: &Host, now: Instant) -> bool {
        let Some(heard) = &self.heard else { return false };
        let never = !heard.has(id);
        let patience = if never { self.timeout.min(FIRST_ANSWER) } else { self.timeout };
        let is_too_long = |wait: Duration| wait > patience;
        // A probe has failed after all that time: perhaps none was sent meanwhile, and it is back. It may also be back since
        // those were sent that hung for so long.
        let paused = host.paused_since.map(|since| host.failed_at.duration_since(since));
        host.cool_until.is_some_and(|until| is_too_long(until.saturating_duration_since(now)))
            || self.is_to_blame(id, host) && paused.is_some_and(is_too_long) && host.is_silent_again(now)
    }

    /// Whether a paused host is to blame for that, and not the network.
    pub(super) fn is_to_blame(&self, id: HostId, host: &Host) -> bool {
        let (Some(heard), Some(since)) = (&self.heard, host.paused_since) else { return false };
        !heard.has(id) && self.answered.load(Relaxed) || heard.since(since + PROBE_MAX)
    }

    /// The listing has answered. With many hosts, it is none of them.
    pub fn listed(&self) {
        if !self.is_of_many() {
            self.answered();
        }
    }

    /// Nothing more will be listed. A host that has never answered is to blame now, though none has: a stop would only leave
    /// the last objects without an end each time. While more is listed, it keeps all of them from failing.
    pub fn listed_all(&self) {
        if self.is_of_many() {
            self.answered();
        }
    }

    /// A good answer of this host has begun.
    pub fn arrives(&self, host: HostId, probe: bool) {
        self.answered_by(host);
        if probe || self.gated.may_have(host) {
            self.resume(host, probe);
        }
    }

    /// This host has answered, well or badly.
    pub(super) fn answered_by(&self, host: HostId) {
        self.answered();
        if let Some(heard) = &self.heard {
            heard.add(host);
            if !self.gated.is_empty() {
                heard.now();
            }
        }
    }

    /// Whether this host has answered, well or badly.
    pub fn has_answered(&self, host: HostId) -> bool {
        self.heard.as_ref().is_none_or(|heard| heard.has(host))
    }

    /// A request to this host has been without an answer for a while. The host is paused: it would hold up the others. If
    /// it has never answered, but is connected, the next object may ask it at once, beside those that hang.
    pub fn hangs(&self, host: HostId, is_connected: bool) {
        let now = Instant::now();
        let mut hosts = self.hosts();
        if hosts.len() >= HOSTS_MAX {
            self.forget(&mut hosts);
        }
        let state = hosts.entry(host).or_insert_with(|| Host::new(now));
        if state.paused_since.is_none() {
            if !state.is_gated() {
                self.gated.add(host);
            }
            // Nothing has failed yet: it does not stay away so far.
            state.pause(now, if is_connected { PausedFor::NoAnswer } else { PausedFor::NoConnection });
            state.is_slow = self.has_answered(host);
            (state.last_kind, state.failed_at) = (Kind::Timeout, now);
            "no answer yet".clone_into(&mut state.last_error);
        }
        state.probing = (!is_connected || self.has_answered(host)) && state.may_ask == 0;
        state.ask_later(now);
    }

    /// A request that hung has failed. Its object may be the only one that the host does not answer, so it counts like any
    /// other failure, and another one may ask the host.
    pub(super) fn hung(&self, host: &mut Host, error: &Error, now: Instant) {
        host.may_ask += 1;
        if self.buckets.charge(error.host_id(), self.cost(error, false)) {
            (host.is_slow, host.stuck_since) = (false, Some(now));
        }
    }

    /// Whether what is behind a redirect has never answered, and is given up like a host that never did. It cannot be paused.
    pub(super) fn is_given_up_behind(&self, error: &Error, trying: Duration) -> bool {
        error.silence_behind().is_some_and(|silence| trying.max(silence) > self.timeout.min(FIRST_ANSWER))
    }

    /// What a failed try costs a host.
    pub(super) fn cost(&self, error: &Error, throttle: bool) -> i64 {
        match (throttle, self.has_answered(error.host_id())) {
            (true, _) => THROTTLE_COST,
            (false, false) => UNHEARD_COST,
            (false, true) => COST,
        }
    }

    /// If an object of a paused host should not be waited for with its partition: the failure to record, and when to try it
    /// again. One object comes back soon, to ask whether the host is there; the others when it counts as one that stays away.
    /// `has_room`: whether the host takes another request, if a probe is due.
    pub fn deferral(&self, host: HostId, has_room: bool) -> Option<(Error, Duration)> {
        if !self.may_be_gated(host) {
            return None;
        }
        let now = Instant::now();
        let mut hosts = self.hosts();
        let state = hosts.get_mut(&host).filter(|state| !has_room || state.is_closed(now))?;
        let cools = state.cool_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        let wait = match state.paused_since.map(|since| now.duration_since(since)) {
            Some(paused) if paused < HOLD_MAX => cools,
            Some(paused) if std::mem::replace(&mut state.is_asked_later, true) => cools.max(self.left(paused)),
            Some(_) => cools.max(PROBE_MAX),
            None => cools,
        };
        let error = || Error::new(state.last_kind, state.last_error.clone()).host(host);
        (wait > HOLD_MAX).then(|| (error(), wait))
    }

    /// When an object that has asked a paused host in vain is tried again: with those that did not come back soon.
    pub fn wait_of_others(&self, host: HostId) -> Option<Duration> {
        let since = self.hosts().get(&host)?.paused_since.filter(|_| self.is_of_many())?;
        Some(self.left(since.elapsed()))
    }

    /// How long a host that is paused for so long has left until it counts as one that stays away.
    fn left(&self, paused: Duration) -> Duration {
        self.timeout.min(FIRST_ANSWER).saturating_sub(paused).max(PROBE_MAX)
    }

    /// The same as `deferral`, for an object of a host that has never been asked, because as many others hang as may.
    pub fn turn(&self, host: HostId) -> (Error, Duration) {
        let why = "its host has not been asked so far: too many others have not answered";
        (Error::new(Kind::Timeout, why).host(host), FIRST_ANSWER)
    }

    /// Forgets pauses that have ended with nothing left to ask for: without them, objects of other hosts pass more quickly.
    pub fn end_cool_downs(&self, now: Instant) {
        if self.gated.is_empty() {
            return;
        }
        for (id, host) in self.hosts().iter_mut() {
            if host.cool_until.is_some_and(|until| until <= now) {
                host.cool_until = None;
                if !host.is_gated() {
                    self.gated.remove(*id);
                }
            }
        }
    }

    /// Forgets half of the hosts: those first that are neither paused nor cool down, and then those that failed longest ago.
    /// If one of these is asked again, it has to fail again.
    pub(super) fn forget(&self, hosts: &mut HashMap<HostId, Host>) {
        let mut by_age: Vec<_> = hosts.iter().map(|(id, host)| (host.is_gated(), host.failed_at, *id)).collect();
        let half = by_age.len() / 2;
        by_age.select_nth_unstable(half);
        for (is_gated, _, id) in by_age.drain(..half) {
            if is_gated {
                self.gated.remove(id);
            }
            let paused = hosts.remove(&id).map_or(Duration::ZERO, |host| host.paused);
            *lock(&self.paused_before) += paused;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::error;
    use super::super::{Gate, HOSTS_MAX, Verdict};
    use super::*;

    fn silence(host: HostId) -> Error {
        error(Kind::Connect).host(host)
    }

    fn pause(retry: &Retry, host: HostId) {
        while retry.failed(&silence(host), 1, Duration::ZERO, false) != Verdict::Uncharged {}
    }

    #[test]
    fn of_many_hosts_one_that_stays_away_fails_its_objects_and_does_not_end_the_run() {
        let retry = Retry::new("the server", 10, Duration::from_secs(3)).of_many();
        let (well, dead) = (HostId(1), HostId(2));
        retry.succeeded(well, false);
        retry.succeeded(dead, false);
        pause(&retry, dead);
        assert_eq!((retry.state(well), retry.state(dead)), (HostState::Open, HostState::Closed));
        std::thread::sleep(Duration::from_millis(3_100));
        assert_eq!(retry.state(dead), HostState::Open, "a probe is due");
        assert_eq!(retry.gate(dead, Instant::now()), Gate::Probe);
        retry.succeeded(well, false);
        assert_eq!(retry.state(dead), HostState::Closed, "nothing was asked of it since: it may be back");
        let probe = || retry.failed(&error(Kind::Connect).host(dead), 1, Duration::ZERO, true);
        assert_eq!(probe(), Verdict::Uncharged);
        assert_eq!(retry.state(dead), HostState::Away);
        assert_eq!(retry.away(dead).kind(), Kind::Connect);
        assert!(retry.unreachable(Instant::now() + Duration::from_secs(60)).is_none());
        retry.succeeded(dead, true);
        assert_eq!((retry.state(dead), retry.is_gated()), (HostState::Open, false), "it has come back");
    }

    #[test]
    fn a_host_that_stays_away_while_none_answers_does_not_fail_its_objects() {
        let retry = Retry::new("the server", 10, Duration::from_millis(100)).of_many();
        let dead = HostId(2);
        retry.succeeded(HostId(1), false);
        retry.succeeded(dead, false);
        pause(&retry, dead);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(retry.gate(dead, Instant::now()), Gate::Probe);
        retry.failed(&error(Kind::Connect).host(dead), 1, Duration::ZERO, true);
        assert_eq!(retry.state(dead), HostState::Closed, "no other host has answered since: it may be the network");
    }

    #[test]
    fn of_many_hosts_the_run_ends_if_none_answers_though_one_once_asked_to_wait() {
        let retry = Retry::new("the server", 10, Duration::from_secs(180)).of_many();
        let asks = error(Kind::Throttled).retry_after(Some(Duration::from_millis(1))).host(HostId(9));
        retry.failed(&asks, 1, Duration::ZERO, false);
        retry.succeeded(HostId(1), false);
        pause(&retry, HostId(1));
        assert!(retry.unreachable(Instant::now()).is_none());
        assert!(retry.unreachable(Instant::now() + Duration::from_secs(200)).is_some());
    }

    #[test]
    fn of_many_hosts_the_run_ends_if_none_answers_though_one_never_did() {
        let retry = Retry::new("the server", 10, Duration::from_secs(180)).of_many();
        retry.succeeded(HostId(1), false);
        pause(&retry, HostId(2));
        assert!(retry.unreachable(Instant::now() + Duration::from_secs(200)).is_none(), "it is to blame itself");
        pause(&retry, HostId(1));
        assert!(retry.unreachable(Instant::now() + Duration::from_secs(200)).is_some());
    }

    #[test]
    fn a_host_of_many_that_answers_badly_for_too_long_stays_away_though_each_probe_settles_an_object() {
        let retry = Retry::new("the server", 0, Duration::from_secs(2)).of_many();
        let bad = HostId(1);
        let fail = |probe| retry.failed(&error(Kind::ServerError).host(bad), 1, Duration::ZERO, probe);
        while !retry.is_gated() {
            assert_eq!(fail(false), Verdict::GiveUp);
        }
        std::thread::sleep(Duration::from_millis(2_100));
        assert_eq!(retry.gate(bad, Instant::now()), Gate::Probe);
        assert_eq!(fail(true), Verdict::GiveUp);
        assert_eq!(retry.state(bad), HostState::Away);
    }

    #[test]
    fn of_many_hosts_the_run_ends_if_none_answers() {
        let retry = Retry::new("the server", 10, Duration::from_secs(180)).of_many();
        for host in 1..4 {
            pause(&retry, HostId(host));
        }
        assert!(retry.unreachable(Instant::now() + Duration::from_secs(5)).is_none());
        assert!(retry.unreachable(Instant::now() + Duration::from_secs(12)).is_some());
    }

    #[test]
    fn a_host_that_has_never_answered_is_paused_after_five_failures() {
        let retry = Retry::new("the server", 10, Duration::from_secs(180)).of_many();
        let fails = |host| retry.failed(&silence(host), 1, Duration::ZERO, false) != Verdict::Uncharged;
        assert_eq!((0..).take_while(|_| fails(HostId(1))).count(), 5);
        retry.succeeded(HostId(2), false);
        assert!((0..).take_while(|_| fails(HostId(2))).count() > 30, "one that has answered may be overloaded");
    }

    #[test]
    fn objects_of_a_paused_host_leave_their_partition_after_a_second_and_one_comes_back_soon() {
        let retry = Retry::new("the server", 10, Duration::from_secs(180)).of_many();
        let host = HostId(1);
        pause(&retry, host);
        assert!(retry.deferral(host, true).is_none(), "it may be a short outage");
        std::thread::sleep(Duration::from_millis(1_050));
        assert!(retry.deferral(host, true).is_none(), "a probe is due");
        assert!(retry.deferral(host, false).is_some(), "but there is no room for it");
        retry.hosts().entry(host).and_modify(|state| state.is_asked_later = false);
        assert_eq!(retry.gate(host, Instant::now()), Gate::Probe);
        let wait = || retry.deferral(host, true).map(|(_, wait)| wait);
        assert_eq!(wait(), Some(PROBE_MAX));
        assert!(wait().is_some_and(|wait| wait > Duration::from_secs(8)), "the others when it counts as away");
        retry.succeeded(host, true);
        assert_eq!(wait(), None);
        let asks = error(Kind::Throttled).retry_after(Some(Duration::from_secs(60))).host(host);
        retry.failed(&asks, 1, Duration::ZERO, false);
        assert!(wait().is_some_and(|wait| wait > Duration::from_secs(59)), "as long as it has asked to wait");
    }

    #[test]
    fn a_host_that_hangs_stays_away_only_once_a_request_has_failed_and_another_one_hangs() {
        let retry = Retry::new("the server", 10, Duration::from_secs(1)).of_many();
        let host = HostId(1);
        retry.succeeded(HostId(2), false);
        retry.hangs(host, false);
        std::thread::sleep(Duration::from_millis(1_100));
        retry.succeeded(HostId(2), false);
        assert_eq!(retry.gate(host, Instant::now()), Gate::Closed, "nothing else asks it");
        assert_eq!(retry.state(host), HostState::Closed, "it may still answer");
        assert_eq!(retry.failed(&silence(host), 1, Duration::ZERO, true), Verdict::Uncharged);
        assert_eq!(retry.gate(host, Instant::now() + PROBE_MAX), Gate::Probe);
        assert_eq!(retry.failed(&silence(host), 1, Duration::ZERO, true), Verdict::Uncharged, "one of those before");
        assert_eq!(retry.state(host), HostState::Closed, "it may have come back meanwhile");
        std::thread::sleep(2 * PROBE_MAX);
        assert_eq!(retry.gate(host, Instant::now()), Gate::Probe);
        assert_eq!(retry.state(host), HostState::Away);
        retry.succeeded(host, true);
        assert_eq!(retry.state(host), HostState::Open);
    }

    #[test]
    fn a_host_with_a_connection_that_hangs_is_soon_asked_with_another_object() {
        let retry = Retry::new("the server", 10, Duration::from_secs(180)).of_many();
        let host = HostId(1);
        retry.hangs(host, true);
        assert_eq!(retry.gate(host, Instant::now()), Gate::Closed);
        let later = Instant::now() + PROBE_MAX;
        assert_eq!(retry.gate(host, later), Gate::Probe);
        assert_eq!(retry.gate(host, later), Gate::Closed, "one after the other");
        retry.hangs(host, true);
        assert_eq!(retry.gate(host, later + PROBE_MAX), Gate::Probe);
        retry.succeeded(host, true);
        assert_eq!((retry.gate(host, Instant::now()), retry.is_gated()), (Gate::Open, false));
        retry.hangs(host, true);
        assert_eq!(retry.gate(host, later), Gate::Closed, "it has answered before: those that hang ask it");
        retry.succeeded(host, true);
        let failures =
            (0..).take_while(|_| retry.failed(&silence(host), 1, Duration::ZERO, false) != Verdict::Uncharged);
        assert!(failures.count() > 30, "nothing has failed so far");
    }

    #[test]
    fn an_object_that_hangs_is_charged_though_its_host_waits_meanwhile() {
        let retry = Retry::new("the server", 10, Duration::from_secs(180)).of_many();
        let (host, later) = (HostId(1), Instant::now() + 2 * PROBE_MAX);
        retry.succeeded(host, false);
        let hang = || (0..6).for_each(|_| retry.hangs(host, true));
        let fails = |tries| retry.failed(&error(Kind::Timeout).host(host), tries, Duration::ZERO, true);
        hang();
        assert_eq!(retry.gate(host, later), Gate::Closed);
        assert!((0..6).all(|_| matches!(fails(1), Verdict::Again(_))));
        let asks = || (0..10).filter(|_| retry.gate(host, later) == Gate::Probe).count();
        assert_eq!(asks(), 6, "as many as have failed");
        assert_eq!(fails(11), Verdict::GiveUp);
        retry.succeeded(host, false);
        assert!(!retry.is_gated(), "it answers again");
        hang();
        let charged = (0..).take_while(|_| fails(1) != Verdict::Uncharged).count();
        assert!(charged > 20, "then it is paused like one that fails");
        assert!(retry.unreachable(Instant::now() + Duration::from_secs(200)).is_some());
    }

    #[test]
    fn a_host_that_redirects_is_not_to_blame_for_what_is_behind_it() {
        let retry = Retry::new("the server", 10, Duration::from_secs(180)).of_many();
        let host = HostId(1);
        let fails = |tries, trying, probe| retry.failed(&silence(host).behind_host(), tries, trying, probe);
        assert!((0..100).all(|_| matches!(fails(1, Duration::ZERO, false), Verdict::Again(_))));
        assert!(!retry.is_gated() && retry.has_answered(host));
        assert!(matches!(fails(2, Duration::from_secs(11), false), Verdict::Again(_)));
        let never = silence(host).silent_behind_host(Duration::from_secs(11));
        assert_eq!(retry.failed(&never, 1, Duration::ZERO, false), Verdict::GiveUp);
        pause(&retry, host);
        assert!(matches!(fails(1, Duration::ZERO, true), Verdict::Again(_)));
        assert!(!retry.is_gated(), "it has answered the probe");
    }

    #[test]
    fn a_run_waits_for_a_first_answer_as_long_as_its_timeout_allows() {
        let retry = Retry::new("the server", 10, Duration::from_secs(180)).of_many();
        let later = Instant::now() + Duration::from_secs(60);
        retry.hangs(HostId(1), true);
        assert!(retry.unreachable(later).is_none());
        retry.failed(&error(Kind::Timeout).host(HostId(1)), 1, Duration::ZERO, true);
        assert!(retry.unreachable(later).is_some());
    }

    #[test]
    fn what_is_remembered_of_hosts_is_bounded_also_of_paused_ones() {
        let retry = Retry::new("the server", 10, Duration::from_secs(180)).of_many();
        for host in 1..250_000 {
            let asks = error(Kind::Throttled).retry_after(Some(Duration::from_secs(1 + host % 2)));
            retry.failed(&asks.host(HostId(host)), 1, Duration::ZERO, false);
        }
        assert!(retry.hosts().len() <= HOSTS_MAX);
        retry.end_cool_downs(Instant::now());
        assert!(retry.is_gated());
        retry.end_cool_downs(Instant::now() + Duration::from_secs(3));
        assert!(!retry.is_gated(), "each was counted once");
    }
}
