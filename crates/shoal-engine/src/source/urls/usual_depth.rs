//! How many objects one connection may have in flight, where hosts differ in that. The run wants one number.

use std::sync::Mutex;

use crate::findings::Findings;
use crate::poison::ignore_poison;

/// So many more requests must go to hosts with another depth before the number changes: the search for the number of
/// workers then begins anew.
const CHANGE: u32 = 1024;
/// Most requests of one lane, in a row and with the same depth, that are counted at once: lanes should not wait for each
/// other.
const TOGETHER: u32 = 16;

/// The depth of most requests of late, on all lanes.
#[derive(Default)]
pub(super) struct UsualDepth(Mutex<Usual>);

#[derive(Default)]
struct Usual {
    /// 0: none yet.
    depth: usize,
    /// How many requests more had this depth than another; at most `CHANGE`.
    lead: u32,
}

/// The last requests of one lane, all with one depth, that do not count yet.
#[derive(Clone, Copy, Default)]
pub(super) struct Untold {
    depth: usize,
    count: u32,
}

impl UsualDepth {
    /// A lane sends a request to a host with this depth. Returns what does not count yet. Reports the usual depth now and then.
    pub fn asks(&self, untold: Untold, depth: usize, findings: &Findings) -> Untold {
        if untold.depth == depth && untold.count < TOGETHER {
            return Untold { depth, count: untold.count + 1 };
        }
        let mut usual = ignore_poison(self.0.lock());
        usual.asked(untold);
        findings.report_depth(usual.depth.max(1));
        Untold { depth, count: 1 }
    }
}

impl Usual {
    /// Requests were sent to hosts with one depth.
    fn asked(&mut self, Untold { depth, count }: Untold) {
        if depth == self.depth {
            self.lead = (self.lead + count).min(CHANGE);
        } else if count <= self.lead {
            self.lead -= count;
        } else {
            self.lead = if self.depth == 0 { count } else { CHANGE };
            self.depth = depth;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is reported while one lane sends requests to hosts with these depths.
    fn reports(usual: &UsualDepth, depths: impl Iterator<Item = usize>) -> Vec<usize> {
        let (findings, mut untold, mut reports) = (Findings::default(), Untold::default(), vec![1]);
        for depth in depths {
            untold = usual.asks(untold, depth, &findings);
            reports.push(findings.depth());
        }
        reports.dedup();
        reports
    }

    #[test]
    fn a_host_that_begins_to_pipeline_is_known_after_about_as_many_requests_as_before() {
        let usual = UsualDepth::default();
        let depths = |depth, count| std::iter::repeat_n(depth, count);
        assert_eq!(reports(&usual, depths(1, 100).chain(depths(64, 100))), [1]);
        assert_eq!(reports(&usual, depths(64, 50)), [1, 64]);
        assert_eq!(reports(&usual, depths(1, CHANGE as usize)), [1, 64], "it may be one of several hosts");
        assert_eq!(reports(&usual, depths(1, 100)), [1, 64, 1]);
    }

    #[test]
    fn that_of_most_requests_is_usual_and_changes_once() {
        for depths in [[1, 64, 1], [64, 1, 64], [64, 32, 64], [1, 64, 64]] {
            let reports = reports(&UsualDepth::default(), depths.into_iter().cycle().take(100_000));
            assert!(reports.len() <= 3 && reports.last() == Some(&depths[2]), "{depths:?}: {reports:?}");
        }
    }
}
