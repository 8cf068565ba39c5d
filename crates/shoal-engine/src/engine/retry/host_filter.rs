//! A quick answer to "is this host one of these?". Every object comes by here, on all cores, and nearly always the host is
//! none of them. Not here: which hosts these are (`mod.rs`, `buckets.rs`).

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use crate::error::HostId;

/// Places where there are many hosts: with 1,000 hosts in it, one in 65 of the others seems to be in it, too.
pub(super) const PLACES_OF_MANY: usize = 1 << 16;

/// A set of hosts that may seem to hold a few more (a counting Bloom filter with one place for each host). What changes it
/// holds a lock, which also says whether a host is in it already.
pub(super) struct HostFilter {
    places: Box<[AtomicU32]>,
    len: AtomicUsize,
}

impl HostFilter {
    pub fn new(places: usize) -> HostFilter {
        HostFilter { places: (0..places).map(|_| AtomicU32::new(0)).collect(), len: AtomicUsize::new(0) }
    }

    /// Adds a host that is not in it.
    pub fn add(&self, host: HostId) {
        self.place(host).fetch_add(1, Relaxed);
        self.len.fetch_add(1, Relaxed);
    }

    /// Removes a host that is in it.
    pub fn remove(&self, host: HostId) {
        self.place(host).fetch_sub(1, Relaxed);
        self.len.fetch_sub(1, Relaxed);
    }

    /// Whether a host may be in it. If not, it is not.
    pub fn may_have(&self, host: HostId) -> bool {
        self.place(host).load(Relaxed) > 0
    }

    pub fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }

    /// The number of a host is a hash.
    fn place(&self, host: HostId) -> &AtomicU32 {
        &self.places[host.0 as usize % self.places.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_share_a_place_leave_one_by_one() {
        let filter = HostFilter::new(256);
        let (one, other, none) = (HostId(7), HostId(7 + 256), HostId(8));
        filter.add(one);
        filter.add(other);
        assert!(filter.may_have(one) && filter.may_have(other) && !filter.may_have(none));
        filter.remove(one);
        assert!(filter.may_have(other) && !filter.is_empty());
        filter.remove(other);
        assert!(!filter.may_have(other) && filter.is_empty());
    }
}
