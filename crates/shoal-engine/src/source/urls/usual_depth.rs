//! How many objects one connection may have in flight, where hosts differ in that. The run wants one number.

use std::cell::Cell;

/// So many more requests must go to hosts with another depth before the number changes: the search for the number of
/// workers then begins anew.
const CHANGE: u32 = 256;

/// The depth of most requests of late.
#[derive(Default)]
pub(super) struct UsualDepth {
    /// 0: none yet.
    depth: Cell<usize>,
    /// How many requests more had this depth than another; at most `CHANGE`.
    lead: Cell<u32>,
}

impl UsualDepth {
    /// A request is sent to a host with this depth. Returns the usual depth if it has changed.
    pub fn asks(&self, depth: usize) -> Option<usize> {
        let lead = self.lead.get();
        if depth == self.depth.get() {
            self.lead.set((lead + 1).min(CHANGE));
            return None;
        }
        if lead > 0 {
            self.lead.set(lead - 1);
            return None;
        }
        let is_first = self.depth.replace(depth) == 0;
        self.lead.set(if is_first { 1 } else { CHANGE });
        Some(depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(usual: &UsualDepth, depths: impl Iterator<Item = usize>) -> Vec<usize> {
        depths.filter_map(|depth| usual.asks(depth)).collect()
    }

    #[test]
    fn a_host_that_begins_to_pipeline_is_known_after_as_many_requests_as_before() {
        let usual = UsualDepth::default();
        assert_eq!(changes(&usual, [1; 10].into_iter()), [1]);
        assert_eq!(changes(&usual, [64; 11].into_iter()), [64]);
        assert!(changes(&usual, [1; 256].into_iter()).is_empty());
        assert_eq!(changes(&usual, [1].into_iter()), [1], "it has stopped");
    }

    #[test]
    fn that_of_most_requests_is_usual_and_changes_once() {
        for depths in [[1, 64, 1], [64, 1, 64], [64, 32, 64], [1, 64, 64]] {
            let usual = UsualDepth::default();
            let changes = changes(&usual, depths.into_iter().cycle().take(100_000));
            assert!(changes.len() <= 2 && changes.last() == Some(&depths[2]), "{depths:?}: {changes:?}");
        }
    }
}
