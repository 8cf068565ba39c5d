//! The token bucket of each host: errors take tokens, good answers give some back. Not here: what an error costs, and what
//! follows from an empty bucket (`mod.rs`).

use std::collections::HashMap;
use std::sync::Mutex;

use super::host_filter::HostFilter;
use super::lock;
use crate::error::HostId;

/// Tokens in a full bucket, as in AWS SDKs.
const TOKENS: i64 = 500;
/// AWS gives 1 back; 2 keeps a host going at which a tenth of all first tries fail, and pauses it at a seventh.
const REFUND: i64 = 2;
/// Buckets that are kept, before the fuller half is forgotten.
const BUCKETS_MAX: usize = 100_000;

/// The buckets of all hosts.
pub(super) struct Buckets {
    /// Tokens in those that are not full.
    tokens: Mutex<HashMap<HostId, i64>>,
    /// The hosts of these.
    charged: HostFilter,
}

impl Buckets {
    /// `places`: of the filter.
    pub fn new(places: usize) -> Buckets {
        Buckets { tokens: Mutex::default(), charged: HostFilter::new(places) }
    }

    /// Takes tokens; whether the bucket is empty now.
    pub fn charge(&self, host: HostId, cost: i64) -> bool {
        let mut tokens = lock(&self.tokens);
        if tokens.len() >= BUCKETS_MAX {
            tokens.retain(|host, left| {
                let is_kept = *left < TOKENS / 2;
                if !is_kept {
                    self.charged.remove(*host);
                }
                is_kept
            });
        }
        let left = tokens.entry(host).or_insert_with(|| {
            self.charged.add(host);
            TOKENS
        });
        *left = (*left - cost).max(0);
        *left == 0
    }

    /// Gives back what a good answer is worth.
    pub fn refund(&self, host: HostId) {
        if !self.charged.may_have(host) {
            return;
        }
        let mut tokens = lock(&self.tokens);
        if let Some(left) = tokens.get_mut(&host) {
            *left += REFUND;
            if *left >= TOKENS {
                tokens.remove(&host);
                self.charged.remove(host);
            }
        }
    }

    /// Half of a bucket, for a host that has come back.
    pub fn fill_half(&self, host: HostId) {
        if let Some(left) = lock(&self.tokens).get_mut(&host) {
            *left = TOKENS / 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_of_buckets_is_bounded_and_a_full_one_is_forgotten() {
        let buckets = Buckets::new(256);
        for host in 1..200_000 {
            buckets.charge(HostId(host), 14);
        }
        assert!(lock(&buckets.tokens).len() <= BUCKETS_MAX);
        (1..200_000).for_each(|host| (0..7).for_each(|_| buckets.refund(HostId(host))));
        assert!(lock(&buckets.tokens).is_empty() && buckets.charged.is_empty());
    }
}
