//! With many hosts (a list of URLs), one that stays away does not end the run. While others answer, its objects fail at once
//! instead, and probes go on: if it answers again, its objects are fetched again.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::heard::Heard;
use super::host::{Host, HostState, PROBE_MAX};
use super::{FIRST_ANSWER, Retry, lock};
use crate::error::{Error, HostId, Kind};

impl Retry {
    /// The same for a source with many hosts: one that stays away does not end the run.
    pub fn of_many(self) -> Retry {
        Retry { heard: Some(Heard::new()), ..self }
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
    fn is_away(&self, id: HostId, host: &Host, now: Instant) -> bool {
        let Some(heard) = &self.heard else { return false };
        let never = !heard.has(id);
        let patience = if never { self.timeout.min(FIRST_ANSWER) } else { self.timeout };
        let is_too_long = |wait: Duration| wait > patience;
        // A probe has failed after all that time: perhaps none was sent meanwhile, and it is back.
        let paused = host.paused_since.map(|since| host.failed_at.duration_since(since));
        host.cool_until.is_some_and(|until| is_too_long(until.saturating_duration_since(now)))
            || self.is_to_blame(id, host) && paused.is_some_and(is_too_long)
    }

    /// Whether a paused host is to blame for that, and not the network.
    pub(super) fn is_to_blame(&self, id: HostId, host: &Host) -> bool {
        let (Some(heard), Some(since)) = (&self.heard, host.paused_since) else { return false };
        !heard.has(id) && self.answered.load(Relaxed) || heard.since(since + PROBE_MAX)
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

    /// Forgets hosts that are neither paused nor cool down.
    pub(super) fn forget(&self, hosts: &mut HashMap<HostId, Host>) {
        let mut forgotten = Duration::ZERO;
        hosts.retain(|_, host| {
            forgotten += if host.is_gated() { Duration::ZERO } else { host.paused };
            host.is_gated()
        });
        *lock(&self.paused_before) += forgotten;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::error;
    use super::super::{Gate, HOSTS_MAX, Verdict};
    use super::*;

    fn pause(retry: &Retry, host: HostId) {
        let error = || error(Kind::Connect).host(host);
        while retry.failed(&error(), 1, Duration::ZERO, false) != Verdict::Uncharged {}
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
    fn what_is_remembered_of_hosts_is_bounded() {
        let retry = Retry::new("the server", 10, Duration::from_secs(180)).of_many();
        for host in 1..200_000 {
            retry.failed(&error(Kind::ServerError).host(HostId(host)), 1, Duration::ZERO, false);
        }
        assert!(retry.hosts().len() <= HOSTS_MAX);
    }
}
