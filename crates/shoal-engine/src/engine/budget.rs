//! The bytes that may be in memory at once. One object is always admitted, so that a small budget slows a run down
//! but never stops it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes reserved against a limit, shared by all lanes.
pub(crate) struct Budget {
    limit: u64,
    held: AtomicU64,
}

impl Budget {
    pub fn new(limit: u64) -> Budget {
        Budget { limit, held: AtomicU64::new(0) }
    }

    /// Reserves `bytes` unless that would pass the limit while something else is held.
    pub fn reserve(&self, bytes: u64) -> bool {
        self.held
            .fetch_update(Relaxed, Relaxed, |held| (held == 0 || held + bytes <= self.limit).then_some(held + bytes))
            .is_ok()
    }

    /// Gives `bytes` back.
    pub fn release(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn a_full_budget_refuses_but_the_first_is_always_admitted() {
        let budget = Budget::new(100);
        assert!(budget.reserve(1000));
        assert!(!budget.reserve(1));
        budget.release(1000);
        assert!(budget.reserve(60));
        assert!(!budget.reserve(60));
        assert!(budget.reserve(40));
    }
}
