//! Whether a run is not worth going on with: so far nothing has succeeded, and so many objects have failed in the same way
//! that the cause is most likely an option or a function, and not the objects.
//!
//! Not for files and archives, where a failure costs little, nor for retries of failures. Of many hosts, each may be broken
//! for itself: there, all that have been asked must have failed alike, and they must be ten.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::display::count;
use crate::error::{Error, HostId, Kind};
use crate::poison::ignore_poison;

/// Failures that are enough.
pub(super) const ENOUGH: u64 = 100;
/// Hosts that are enough, where there are many.
const HOSTS: usize = 10;
/// Listed objects after which a list counts as one of a single host, if it has named no other so far.
const LISTED: u64 = 1_000;

/// What has failed while nothing had succeeded.
pub(crate) struct Alike {
    /// Nothing has succeeded yet, and there is a rule to apply.
    watches: AtomicBool,
    many_hosts: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many have failed in each way.
    failed: Vec<(Kind, u64)>,
    /// Hosts of failed objects, as far as they count.
    hosts: HashSet<HostId>,
    /// The host of all that is listed so far, and whether there are others.
    listed: Option<HostId>,
    has_others: bool,
}

impl Alike {
    pub fn new(watches: bool, many_hosts: bool) -> Alike {
        Alike { watches: AtomicBool::new(watches), many_hosts, state: Mutex::default() }
    }

    /// Whether there is still something to look at.
    pub fn watches(&self) -> bool {
        self.watches.load(Relaxed)
    }

    /// The listing has a partition of this host, or of several.
    pub fn listed(&self, host: Option<HostId>) {
        if !self.many_hosts || !self.watches() {
            return;
        }
        let state = &mut *ignore_poison(self.state.lock());
        state.has_others |= host.is_none() || state.listed.is_some_and(|first| Some(first) != host);
        state.listed = host;
    }

    /// An object has failed. `succeeded`: some other has not. `listed`: how many are listed so far, or in all. Returns the
    /// error that ends the run, once.
    pub fn failed(
        &self,
        error: &Error,
        host: HostId,
        succeeded: bool,
        listed: u64,
        is_listed_all: bool,
    ) -> Option<Error> {
        if !self.watches() {
            return None;
        }
        let state = &mut *ignore_poison(self.state.lock());
        if succeeded {
            self.watches.store(false, Relaxed);
            return None;
        }
        if state.hosts.len() < HOSTS {
            state.hosts.insert(host);
        }
        let kind = error.kind();
        let at = state.failed.iter().position(|(other, _)| *other == kind).unwrap_or_else(|| {
            state.failed.push((kind, 0));
            state.failed.len() - 1
        });
        state.failed[at].1 += 1;
        let times = state.failed[at].1;
        let is_one_host = !state.has_others && (is_listed_all || listed >= LISTED);
        let are_all = !self.many_hosts || is_one_host || state.hosts.len() >= HOSTS && state.failed.len() == 1;
        if times < ENOUGH || !are_all || !self.watches.swap(false, Relaxed) {
            return None;
        }
        let hosts = if self.many_hosts && !is_one_host { ", on all hosts that were asked," } else { "" };
        let first = error.why().lines().next().unwrap_or_default(); // of a traceback
        let why = format!("nothing has succeeded, and {} objects{hosts} failed alike: {}", count(times), first);
        let advice = error.advice().map(|advice| format!("{advice}; ")).unwrap_or_default();
        Some(Error::new(Kind::TooManyFailures, why).hint(format!("{advice}`keep_going=True` continues")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(alike: &Alike, host: u64, succeeded: bool) -> bool {
        let error = Error::new(Kind::Vanished, "it is gone").hint("is `get_path` right?");
        alike.failed(&error, HostId(host), succeeded, 5_000, false).is_some()
    }

    #[test]
    fn a_hundred_alike_end_a_run_once() {
        let alike = Alike::new(true, false);
        assert!((0..99).all(|_| !gone(&alike, 0, false)));
        assert!(gone(&alike, 0, false));
        assert!((0..200).all(|_| !gone(&alike, 0, false)), "it was said");
    }

    #[test]
    fn a_success_or_other_failures_let_it_go_on() {
        let alike = Alike::new(true, false);
        assert!((0..200).all(|at| !gone(&alike, 0, at == 50)));
        let alike = Alike::new(true, false);
        let refused = Error::new(Kind::Forbidden, "no");
        for _ in 0..99 {
            assert!(!gone(&alike, 0, false));
            assert!(alike.failed(&refused, HostId(0), false, 5_000, true).is_none());
        }
        assert!((0..200).all(|_| !gone(&Alike::new(false, false), 0, false)), "not asked for");
    }

    #[test]
    fn of_many_hosts_ten_must_fail_and_all_alike() {
        let list = |hosts: u64, other: bool| {
            let alike = Alike::new(true, true);
            (0..hosts).for_each(|host| alike.listed(Some(HostId(host))));
            if other {
                let error = Error::new(Kind::Connect, "no connection");
                assert!(alike.failed(&error, HostId(0), false, 5_000, true).is_none());
            }
            (0..300).any(|at| gone(&alike, at % hosts, false))
        };
        for (hosts, other, ends) in
            [(1, false, true), (2, false, false), (9, false, false), (10, false, true), (10, true, false)]
        {
            assert_eq!(list(hosts, other), ends, "{hosts} {other}");
        }
        let young = Alike::new(true, true);
        young.listed(Some(HostId(7)));
        let error = Error::new(Kind::Vanished, "it is gone");
        assert!((0..300).all(|_| young.failed(&error, HostId(7), false, 200, false).is_none()), "others may follow");
    }
}
