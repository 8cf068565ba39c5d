//! What every object asks about its host, on all cores, so without a lock: whether the host has ever answered, and whether
//! anything is remembered of it. Both sets may seem to hold a few more hosts (Bloom filters). Not here: what follows.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::host::Time;
use crate::error::HostId;

/// Words of 64 bits where there are many hosts: 128 KiB. With 100,000 hosts, one in 30 that is silent is taken for one that
/// has answered, and is waited for longer.
const WORDS: usize = 1 << 14;
/// Places where there are many hosts: with 1,000 in it, one in 65 of the others seems to be in it, too.
const PLACES: usize = 1 << 16;

/// The hosts that have answered, well or badly, and when one did last. In memory that does not grow.
#[derive(Debug)]
pub(super) struct Answered {
    /// None for a source with one host, which has always answered.
    words: Box<[AtomicU64]>,
    any: AtomicBool,
    /// Milliseconds since the start, and one.
    last: AtomicU64,
}

impl Answered {
    pub fn new(many: bool) -> Answered {
        let words = (0..if many { WORDS } else { 0 }).map(|_| AtomicU64::new(0)).collect();
        Answered { words, any: AtomicBool::new(false), last: AtomicU64::new(0) }
    }

    pub fn add(&self, host: HostId) {
        self.set_any();
        if !self.has(host) {
            for (word, bit) in places(host) {
                self.words[word].fetch_or(bit, Relaxed);
            }
        }
    }

    pub fn has(&self, host: HostId) -> bool {
        self.words.is_empty() || places(host).iter().all(|(word, bit)| self.words[*word].load(Relaxed) & bit != 0)
    }

    /// The address is right: some host has answered. Of many hosts: or all objects are listed.
    pub fn set_any(&self) {
        if !self.any.load(Relaxed) {
            self.any.store(true, Relaxed);
        }
    }

    pub fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// Some host has answered at this time.
    pub fn at(&self, time: Time) {
        let time = time.as_millis() as u64 + 1;
        if self.last.load(Relaxed) < time {
            self.last.fetch_max(time, Relaxed);
        }
    }

    /// Whether some host has answered after this time.
    pub fn since(&self, time: Time) -> bool {
        let last = self.last.load(Relaxed);
        last > 0 && Time::from_millis(last) > time
    }
}

fn places(host: HostId) -> [(usize, u64); 2] {
    let mixed = host.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [mixed, mixed.rotate_left(32)].map(|bits| ((bits >> 6) as usize % WORDS, 1 << (bits & 63)))
}

/// The hosts of which something is remembered, and how many may not be asked freely.
#[derive(Debug)]
pub(super) struct Known {
    /// How many there are in each place. The number of a host is a hash.
    places: Box<[AtomicU32]>,
    gated: AtomicUsize,
}

impl Known {
    pub fn new(many: bool) -> Known {
        let places = (0..if many { PLACES } else { 1 }).map(|_| AtomicU32::new(0)).collect();
        Known { places, gated: AtomicUsize::new(0) }
    }

    /// Whether something may be remembered of this host. If not, it is well.
    pub fn may_have(&self, host: HostId) -> bool {
        self.place(host).load(Relaxed) > 0
    }

    /// Whether some host is paused or cools down.
    pub fn any_gated(&self) -> bool {
        self.gated.load(Relaxed) > 0
    }

    /// A host has changed; of each pair, what is so now.
    pub fn changed(&self, host: HostId, known: [bool; 2], gated: [bool; 2]) {
        match known {
            [false, true] => _ = self.place(host).fetch_add(1, Relaxed),
            [true, false] => _ = self.place(host).fetch_sub(1, Relaxed),
            _ => {}
        }
        match gated {
            [false, true] => _ = self.gated.fetch_add(1, Relaxed),
            [true, false] => _ = self.gated.fetch_sub(1, Relaxed),
            _ => {}
        }
    }

    fn place(&self, host: HostId) -> &AtomicU32 {
        &self.places[host.0 as usize % self.places.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_has_answered_is_found_and_few_others_are() {
        let answered = Answered::new(true);
        let host = |n: u64| HostId(xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes()));
        (0..100_000).for_each(|n| answered.add(host(n)));
        assert!((0..100_000).all(|n| answered.has(host(n))));
        let wrong = (100_000..110_000).filter(|n| answered.has(host(*n))).count();
        assert!(wrong < 1_000, "{wrong} of 10,000");
    }

    #[test]
    fn hosts_that_share_a_place_leave_one_by_one() {
        let known = Known::new(true);
        let (one, other) = (HostId(7), HostId(7 + PLACES as u64));
        [one, other].iter().for_each(|host| known.changed(*host, [false, true], [false, true]));
        known.changed(one, [true, false], [true, false]);
        assert!(known.may_have(other) && known.any_gated() && !known.may_have(HostId(8)));
        known.changed(other, [true, false], [true, false]);
        assert!(!known.may_have(other) && !known.any_gated());
    }
}
