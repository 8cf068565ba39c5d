//! What has been committed, and what failed: the journal of a run, in SQLite.
//!
//! Here: open, resume, commit, failures, status; `schema.rs` holds the SQL and the format version.
//! Not here: names of objects that succeeded (partitions only), barriers (`engine/commit.rs` calls us after one).

use std::collections::BTreeMap;

use crate::partition::{Cursor, Key};
use crate::report::Counts;

/// What binds a run: the same source and the same options continue it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunKey {
    /// `Source::identity`.
    pub source: String,
    /// Options that change the result, by name, in a fixed order.
    pub options: Vec<(String, String)>,
}

/// Where an opened run stands.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    /// Every partition below this `seq` is committed.
    pub frontier: u64,
    /// Where a listing continues so that its first partition is the one numbered `frontier`; `None`: from the start.
    pub cursor: Option<Cursor>,
    /// Chained keys of all partitions below the frontier.
    pub chain: Key,
    /// Committed partitions at or above the frontier.
    pub done: BTreeMap<u64, Key>,
    /// Partitions below this `seq` may have been handed out.
    pub mark: u64,
    /// What is committed so far (`failed` and `unfinished` = deferred included).
    pub totals: Counts,
    /// Unix seconds at which the run was complete, if it is.
    pub completed_at: Option<u64>,
    /// `sink::Started::began` of the first session.
    pub first_began: Option<i128>,
    /// Objects waiting for a later try.
    pub deferred: u64,
    /// Remarks for the user (bad rows discarded, redone after a reboot).
    pub notes: Vec<String>,
}

/// One committed partition.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// `Partition::seq`.
    pub seq: u64,
    /// `Partition::key`.
    pub key: Key,
    /// Objects in it. Less written, skipped and the failures below = 0.
    pub listed: u64,
    /// Objects written.
    pub written: u64,
    /// Objects skipped.
    pub skipped: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Objects failed for good or deferred.
    pub failures: Vec<Failed>,
}

/// An object that failed, or is deferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What `Source::select` needs.
    pub locator: Box<[u8]>,
    /// The raw name.
    pub name: Box<[u8]>,
    /// `Kind::as_str`.
    pub kind: &'static str,
    /// Why.
    pub reason: String,
    /// Tries so far.
    pub tries: u32,
    /// Milliseconds spent trying so far.
    pub tried_ms: u64,
    /// Unix milliseconds of the next try; `None`: failed for good.
    pub due_ms: Option<u64>,
}

/// An object whose later try has come.
#[derive(Clone, Debug)]
pub struct Due {
    /// What `Source::select` needs.
    pub locator: Box<[u8]>,
    /// Tries so far.
    pub tries: u32,
    /// Milliseconds spent trying so far.
    pub tried_ms: u64,
}

/// The outcome of a later try.
#[derive(Clone, Debug)]
pub struct Retried {
    /// Which object.
    pub locator: Box<[u8]>,
    /// `Ok(Some(bytes))` written, `Ok(None)` skipped, `Err` failed or deferred again.
    pub outcome: Result<Option<u64>, Failed>,
}

/// How far the frontier moves with a commit.
#[derive(Clone, Debug)]
pub struct Fold {
    /// New frontier; rows below it are folded into the prefix.
    pub frontier: u64,
    /// Where a listing continues from it.
    pub cursor: Cursor,
    /// Chained keys up to it.
    pub chain: Key,
}

/// One transaction, after its barrier.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Partitions made durable by the barrier.
    pub done: Vec<Done>,
    /// Later tries whose bytes the barrier made durable.
    pub retried: Vec<Retried>,
    /// Frontier movement.
    pub fold: Option<Fold>,
}

/// TEMPORARY (replaced by the journal branch)
pub struct Journal;
impl Journal {
    pub fn deferred(&self) -> u64 { 0 }
    pub fn totals(&self) -> Counts { Counts::default() }
    pub fn failures(&self, _limit: usize) -> crate::Result<Vec<crate::report::Failure>> { Ok(vec![]) }
    pub fn take_due(&mut self, _now: u64, _limit: usize) -> crate::Result<Vec<Due>> { Ok(vec![]) }
    pub fn commit(&mut self, _c: &Commit) -> crate::Result<()> { Ok(()) }
    pub fn mark(&mut self, _m: u64) -> crate::Result<()> { Ok(()) }
    pub fn sample(&mut self, _o: u64, _b: u64) -> crate::Result<()> { Ok(()) }
    pub fn complete(&mut self, _n: u64) -> crate::Result<()> { Ok(()) }
    pub fn reset_listing(&mut self) -> crate::Result<()> { Ok(()) }
}
