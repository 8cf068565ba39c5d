//! Hosts to which redirects lead and which have never answered. Each request to one would take a connection of the host
//! that redirects for as long as a connection may take. Not here: which redirects are followed (`redirect.rs`).

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::error::{Error, Kind, Result};
use crate::poison::ignore_poison;

/// Requests without an answer before a host counts as silent.
const FAILURES: u32 = 3;
/// How often a silent host is asked again.
const WAIT: Duration = Duration::from_secs(2);
/// More are not kept.
const HOSTS_MAX: usize = 4096;

/// What is known of hosts to which redirects lead, by their origins.
#[derive(Debug, Default)]
pub(crate) struct SilentHosts(Mutex<HashMap<String, Known>>);

#[derive(Debug)]
enum Known {
    HasAnswered,
    Silent {
        failures: u32,
        since: Instant,
        /// Of the last failure.
        kind: Kind,
        why: String,
        /// When it may be asked again.
        next: Instant,
    },
}

impl SilentHosts {
    /// Whether a host may be asked now.
    ///
    /// # Errors
    /// That of the last request, if the host is silent and was asked a moment ago.
    pub fn may_ask(&self, origin: &str, now: Instant) -> Result<()> {
        match ignore_poison(self.0.lock()).get_mut(origin) {
            Some(Known::Silent { failures: FAILURES.., since, kind, why, next }) => {
                if now < *next {
                    return Err(Error::new(*kind, why.clone()).silent_behind_host(now.duration_since(*since)));
                }
                *next = now + WAIT;
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

    /// A request to a host has failed. Returns its error, with the time for which the host has been silent.
    pub fn failed(&self, origin: &str, error: Error, now: Instant) -> Error {
        if !matches!(error.kind(), Kind::Connect | Kind::Timeout) {
            return error;
        }
        let mut hosts = ignore_poison(self.0.lock());
        let (failures, since) = match hosts.get(origin) {
            Some(Known::HasAnswered) => return error,
            Some(Known::Silent { failures, since, .. }) => (failures + 1, *since),
            None => (1, now),
        };
        make_room(&mut hosts, origin);
        let (kind, why, next) = (error.kind(), error.why().to_owned(), now + WAIT);
        hosts.insert(origin.to_owned(), Known::Silent { failures, since, kind, why, next });
        error.silent_behind_host(now.duration_since(since))
    }
}

fn make_room(hosts: &mut HashMap<String, Known>, origin: &str) {
    if hosts.len() >= HOSTS_MAX && !hosts.contains_key(origin) {
        hosts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_host_is_asked_now_and_then_and_again_by_all_once_it_has_answered() {
        let (hosts, now, host) = (SilentHosts::default(), Instant::now(), "http://h");
        let fails = |kind, now| hosts.failed(host, Error::new(kind, "no connection"), now);
        for _ in 0..FAILURES {
            assert!(hosts.may_ask(host, now).is_ok());
            fails(Kind::Connect, now);
        }
        assert_eq!(hosts.may_ask(host, now).map_err(|error| error.why().to_owned()), Err("no connection".to_owned()));
        assert!(hosts.may_ask("http://other", now).is_ok());
        let later = now + WAIT;
        assert!(hosts.may_ask(host, later).is_ok(), "one asks whether it is there again");
        assert!(hosts.may_ask(host, later).is_err());
        assert_eq!(fails(Kind::OutOfFiles, later).silence_behind(), None);
        assert!(hosts.may_ask(host, later).is_err());
        assert_eq!(fails(Kind::Timeout, later).silence_behind(), Some(WAIT));
        hosts.answered(host);
        for _ in 0..2 * FAILURES {
            assert!(hosts.may_ask(host, later).is_ok());
            assert_eq!(fails(Kind::Timeout, later).silence_behind(), None);
        }
    }
}
