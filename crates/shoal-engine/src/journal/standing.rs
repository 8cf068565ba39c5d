//! `Standing`: the state of a run that a listing continues from.

use std::collections::BTreeMap;

use super::journal::Journal;
use super::stored_cursor::StoredCursor;
use crate::options::Pass;
use crate::partition::{Cursor, Key};
use crate::report::Counts;
use crate::session::Interval;

/// A mark above every partition: when a listing starts over, earlier sessions may have written any part of it.
pub const MARK_ALL: u64 = i64::MAX as u64;

/// The state of a run when its journal is opened.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// Every partition below this `seq` is committed.
    pub frontier: u64,
    /// Where the listing continues: its first partition is then number `frontier`. `None`: from the start.
    pub cursor: Option<Cursor>,
    /// Chained keys of all partitions below the frontier.
    pub chain: Key,
    /// Committed partitions at or above the frontier.
    pub done: BTreeMap<u64, Key>,
    /// Lanes may have begun partitions below this `seq`; a reset sets it above all.
    pub mark: u64,
    /// What is committed so far (`failed` and `unfinished` = deferred included).
    pub totals: Counts,
    /// Unix seconds at which the run was complete, if it is. With `deferred` above 0 the listing is finished and only
    /// those objects are left: failures that are retried.
    pub completed_at: Option<u64>,
    /// Which pass over the source the listing belongs to.
    pub pass: Pass,
    /// What earlier sessions have met.
    pub before: Before,
    /// When the earlier sessions may have written.
    pub sessions: Vec<Interval>,
    /// Objects that wait for a later retry.
    pub deferred: u64,
    /// How many objects in flight `workers="auto"` had found when an earlier session last said so. It is from another
    /// day, and can be from another machine: something to start from.
    pub learnt: Option<u32>,
    /// Notes for the report (damaged rows discarded, objects copied again after a reboot).
    pub notes: Vec<String>,
}

impl Standing {
    /// Takes up that failures are to be retried, or their partitions.
    pub(crate) fn take_up(&mut self, journal: &Journal) {
        let Standing { done, totals, deferred, completed_at, .. } = journal.standing(Vec::new());
        (self.done, self.totals, self.deferred, self.completed_at) = (done, totals, deferred, completed_at);
    }
}

/// What the sessions of a run before this one have met. The default is a new run.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// An earlier pass over the source has found objects, or may have.
    pub had_objects: bool,
    /// An object was admitted, in this pass or in an earlier one, or may have been.
    pub has_matched: bool,
    /// No object was ever handed out, or all of them were left out: there is nothing that must be remembered.
    pub is_blank: bool,
    /// An object was admitted, and did not fail.
    pub has_succeeded: bool,
}

impl Default for Before {
    fn default() -> Before {
        Before { had_objects: false, has_matched: false, is_blank: true, has_succeeded: false }
    }
}

impl Journal {
    /// Without earlier sessions: `lease.rs` reads them.
    pub(super) fn standing(&self, notes: Vec<String>) -> Standing {
        Standing {
            frontier: self.progress.frontier,
            cursor: self.progress.cursor.as_ref().map(StoredCursor::cursor),
            chain: self.progress.chain,
            done: self.window.iter().map(|(seq, entry)| (*seq, entry.key)).collect(),
            mark: self.progress.mark,
            totals: self.totals(),
            completed_at: self.progress.completed,
            pass: self.progress.pass,
            before: self.before,
            sessions: Vec::new(),
            deferred: self.deferred,
            learnt: self.progress.learnt,
            notes,
        }
    }
}
