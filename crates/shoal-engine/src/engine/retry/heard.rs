//! Which hosts have answered, and when one did last, in the same memory for any number of hosts. Not here: what follows
//! from it (`mod.rs`, `many.rs`).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::super::coarse_clock::coarse_now;
use crate::error::HostId;

/// Bits of the filter, in words of 64: 128 KiB. With 100,000 hosts, one in 30 that is silent is taken for one that was heard,
/// and is waited for longer.
const WORDS: usize = 1 << 14;

/// A set of hosts that may hold a few more than were added (a Bloom filter with two bits for each host).
pub(crate) struct Heard {
    words: Box<[AtomicU64]>,
    began: Instant,
    /// The same on the clock by which answers are timed: there are a million in a second.
    began_coarse: Duration,
    /// Milliseconds since then, and one.
    last: AtomicU64,
}

impl Heard {
    pub fn new() -> Heard {
        Heard {
            words: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
            began: Instant::now(),
            began_coarse: coarse_now(),
            last: AtomicU64::new(0),
        }
    }

    /// This host has answered.
    pub fn add(&self, host: HostId) {
        for (word, bit) in places(host) {
            // Looked at first: every answer comes by here, on all cores.
            if self.words[word].load(Relaxed) & bit == 0 {
                self.words[word].fetch_or(bit, Relaxed);
            }
        }
    }

    /// Whether this host has answered.
    pub fn has(&self, host: HostId) -> bool {
        places(host).iter().all(|(word, bit)| self.words[*word].load(Relaxed) & bit != 0)
    }

    /// Some host has answered now.
    pub fn now(&self) {
        self.at(coarse_now().saturating_sub(self.began_coarse));
    }

    fn at(&self, time: Duration) {
        let time = time.as_millis() as u64 + 1;
        if self.last.load(Relaxed) < time {
            self.last.fetch_max(time, Relaxed);
        }
    }

    /// Whether some host has answered after this time.
    pub fn since(&self, time: Instant) -> bool {
        let last = self.last.load(Relaxed);
        last > 0 && self.began + Duration::from_millis(last) > time
    }
}

fn places(host: HostId) -> [(usize, u64); 2] {
    let mixed = host.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [mixed, mixed.rotate_left(32)].map(|bits| ((bits >> 6) as usize % WORDS, 1 << (bits & 63)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_was_heard_is_found_and_few_others_are() {
        let heard = Heard::new();
        let host = |n: u64| HostId(xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes()));
        (0..100_000).for_each(|n| heard.add(host(n)));
        assert!((0..100_000).all(|n| heard.has(host(n))));
        let wrong = (100_000..110_000).filter(|n| heard.has(host(*n))).count();
        assert!(wrong < 1_000, "{wrong} of 10,000");
    }

    #[test]
    fn the_last_answer_is_known_by_its_time() {
        let heard = Heard::new();
        assert!(!heard.since(heard.began));
        let after = |seconds| heard.began + Duration::from_secs(seconds);
        heard.at(Duration::from_secs(3));
        heard.now();
        assert!(heard.since(after(2)) && !heard.since(after(4)));
    }
}
