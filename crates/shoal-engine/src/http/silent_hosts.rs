//! Hosts to which redirects lead and which have never answered. Each request to one would take a connection of the host
//! that redirects for as long as a connection may take. Not here: which redirects are followed (`redirect.rs`).

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::error::{Error, Kind, Result};
use crate::poison::ignore_poison;

/// Requests without an answer before a host counts as silent.
const FAILURES: u32 = 3;
/// How long after a failure a silent host is asked again, by one request at a time.
const WAIT: Duration = Duration::from_secs(2);
/// More are not kept.
const HOSTS_MAX: usize = 100_000;

/// What is known of hosts to which redirects lead, by their origins.
#[derive(Debug, Default)]
pub(crate) struct SilentHosts(Mutex<HashMap<String, Known>>);

#[derive(Debug)]
enum Known {
    HasAnswered,
    Silent {
        failures: u32,
        /// When the first of these requests was sent, and when it had failed.
        since: Instant,
        failed_at: Instant,
        /// A request has failed that was sent after that. Before, the host may be back.
        is_certain: bool,
        /// Of the last failure.
        kind: Kind,
        why: String,
        /// When it may be asked again.
        next: Instant,
    },
}

impl SilentHosts {
    /// Whether a host may be asked now, by a request that takes at most this time.
    ///
    /// # Errors
    /// That of the last request, if the host is silent and was asked a moment ago, or is being asked.
    pub fn may_ask(&self, origin: &str, now: Instant, takes: Duration) -> Result<()> {
        match ignore_poison(self.0.lock()).get_mut(origin) {
            Some(Known::Silent { failures: FAILURES.., since, is_certain, kind, why, next, .. }) => {
                if now < *next {
                    let error = Error::new(*kind, why.clone());
                    return Err(if *is_certain { error.silent_behind_host(now.duration_since(*since)) } else { error });
                }
                *next = now + takes;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A host has answered. If it does not another time, it counts as slow, and is asked all the same.
    pub fn answered(&self, origin: &str) {
        let mut hosts = ignore_poison(self.0.lock());
        if !matches!(hosts.get(origin), Some(Known::HasAnswered)) {
            make_room(&mut hosts, origin);
            hosts.insert(origin.to_owned(), Known::HasAnswered);
        }
    }

    /// A request to a host has failed, which was sent at `asked`. Returns its error, with the time for which the host has
    /// been silent, if it counts as such.
    pub fn failed(&self, origin: &str, error: Error, asked: Instant, now: Instant) -> Error {
        let is_silent = matches!(error.kind(), Kind::Connect | Kind::Timeout);
        let mut hosts = ignore_poison(self.0.lock());
        let (failures, since, failed_at, was_certain) = match hosts.get_mut(origin) {
            Some(Known::Silent { next, .. }) if !is_silent => {
                *next = now + WAIT;
                return error;
            }
            Some(Known::Silent { failures, since, failed_at, is_certain, .. }) => {
                (*failures + 1, *since, *failed_at, *is_certain)
            }
            None if is_silent => (1, asked, now, false),
            Some(Known::HasAnswered) | None => return error,
        };
        make_room(&mut hosts, origin);
        let (kind, why, next) = (error.kind(), error.why().to_owned(), now + WAIT);
        let is_certain = was_certain || asked >= failed_at;
        hosts.insert(origin.to_owned(), Known::Silent { failures, since, failed_at, is_certain, kind, why, next });
        if is_certain { error.silent_behind_host(now.duration_since(since)) } else { error }
    }
}

fn make_room(hosts: &mut HashMap<String, Known>, origin: &str) {
    if hosts.len() >= HOSTS_MAX && !hosts.contains_key(origin) {
        hosts.retain(|_, known| matches!(known, Known::HasAnswered));
        if hosts.len() > HOSTS_MAX / 2 {
            hosts.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_host_is_asked_by_one_request_at_a_time_and_by_all_once_it_has_answered() {
        let (hosts, now, host) = (SilentHosts::default(), Instant::now(), "http://h");
        let takes = 5 * WAIT;
        let asks = |now| hosts.may_ask(host, now, takes).map_err(|error| error.why().to_owned());
        let fails = |kind, now| hosts.failed(host, Error::new(kind, "no connection"), now - WAIT, now).silence_behind();
        assert!((0..FAILURES).all(|_| asks(now).is_ok() && fails(Kind::Connect, now).is_none()));
        assert_eq!(asks(now), Err("no connection".to_owned()));
        assert!(hosts.may_ask(host, now, takes).is_err_and(|error| error.silence_behind().is_none()), "it may be back");
        assert!(hosts.may_ask("http://other", now, takes).is_ok());
        let later = now + WAIT;
        assert!(asks(later).is_ok(), "one asks whether it is there again");
        assert!(asks(later + WAIT).is_err(), "it still does");
        assert_eq!(fails(Kind::OutOfFiles, later + WAIT), None);
        assert!(asks(later + 2 * WAIT).is_ok(), "that was no request");
        assert_eq!(fails(Kind::Timeout, later + WAIT), Some(3 * WAIT));
        assert!(hosts.may_ask(host, later, takes).is_err_and(|error| error.silence_behind() == Some(2 * WAIT)));
        assert!(asks(later + WAIT).is_err() && asks(later + 2 * WAIT).is_ok());
        assert!(asks(later + 2 * WAIT + takes).is_ok(), "the last one has never ended");
        hosts.answered(host);
        for _ in 0..2 * FAILURES {
            assert!(asks(later).is_ok());
            assert_eq!(fails(Kind::Timeout, later), None);
        }
    }
}
