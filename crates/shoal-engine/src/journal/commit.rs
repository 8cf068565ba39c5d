//! What a commit records, and what it returns. Not here: how it is written (`stage.rs`), when it is due (`engine/commit.rs`).

use crate::error::Result;
use crate::part::Seen;
use crate::partition::{Cursor, Key};
use crate::report::{Settled, Skipped, Skips};
use crate::sink_state::StateRow;

/// Which bytes are durable before a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// None: committed partitions are copied again after a reboot.
    No,
    /// Those of the commit itself (each file was synced).
    These,
    /// All written before, by earlier processes too (`syncfs`), and so those that were committed with `No` in this
    /// boot.
    All,
}

/// One committed partition.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// `Partition::seq`.
    pub seq: u64,
    /// `Partition::key`.
    pub key: Key,
    /// Objects in it: the sum of those written, skipped and in `failures`.
    pub listed: u64,
    /// Objects written.
    pub written: u64,
    /// Objects skipped, by reason.
    pub skips: Skips,
    /// Bytes written.
    pub bytes: u64,
    /// Objects failed for good or deferred.
    pub failures: Vec<Failed>,
    /// Of the skipped objects, those that no option excluded.
    pub left_out: Vec<Skipped>,
    /// Of a part: the names in it before it was divided.
    pub seen: Seen,
}

/// An object that failed or is deferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What `Source::select` needs.
    pub locator: Box<[u8]>,
    /// The name, unchanged from the source.
    pub name: Box<[u8]>,
    /// `Kind::as_str`.
    pub kind: &'static str,
    /// Why.
    pub reason: String,
    /// Attempts so far.
    pub tries: u32,
    /// Milliseconds spent trying so far.
    pub tried_ms: u64,
    /// Unix milliseconds of the next attempt; `None`: failed for good.
    pub due_ms: Option<u64>,
}

/// A deferred object whose retry is due.
#[derive(Clone, Debug)]
pub struct Due {
    /// What `Source::select` needs.
    pub locator: Box<[u8]>,
    /// Why it failed last (`Kind::as_str`).
    pub kind: Box<str>,
    /// Attempts so far.
    pub tries: u32,
    /// Milliseconds spent trying so far.
    pub tried_ms: u64,
    /// The partition that counts it.
    pub seq: u64,
}

/// The outcome of a later retry.
#[derive(Clone, Debug)]
pub struct Retried {
    /// Which object.
    pub locator: Box<[u8]>,
    /// `Due::seq`: if it failed in several partitions, this one counts it as written.
    pub seq: u64,
    /// `Err`: failed or deferred again.
    pub outcome: Result<Settled, Failed>,
}

impl Retried {
    /// Whether the object was there already.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.outcome, Ok(Settled::Written { kept: true, .. }))
    }
}

/// An object that was committed as written, and is now a failure.
#[derive(Clone, Debug)]
pub struct Withdrawn {
    /// The partition that counts it.
    pub seq: u64,
    /// How it was counted.
    pub was: Settled,
    /// How it is recorded now.
    pub failed: Failed,
}

/// How far the frontier moves with a commit.
#[derive(Clone, Debug)]
pub struct Fold {
    /// The new frontier. Rows below it are added up in one row.
    pub frontier: u64,
    /// Where a listing continues from there.
    pub cursor: Cursor,
    /// Chained keys of all partitions below it.
    pub chain: Key,
}

/// One transaction, after its sync.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Partitions that the sync made durable.
    pub done: Vec<Done>,
    /// Later retries whose bytes the sync made durable.
    pub retried: Vec<Retried>,
    /// Locators that `Journal::take_due` has returned and that were not tried: they stay due.
    pub returned: Vec<Box<[u8]>>,
    /// Failures of objects that are committed, in this commit or an earlier one.
    pub withdrawn: Vec<Withdrawn>,
    /// How far the frontier moves.
    pub fold: Option<Fold>,
    /// What the destination's sink remembers from now on.
    pub state: Vec<StateRow>,
}

/// What a commit has added to the counts. An object that failed in two partitions counts in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credited {
    /// Objects written.
    pub written: u64,
    /// Objects skipped.
    pub skipped: u64,
    /// Objects failed for good.
    pub failed: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Failures for good that a later retry has settled together with a deferred object of the same locator.
    pub again: u64,
    /// Deferred objects of partitions that were copied again whole, which list them.
    pub superseded: u64,
    /// Objects that were written, and are failures now.
    pub withdrawn: u64,
    /// Objects that were skipped, and are failures now.
    pub withdrawn_skipped: u64,
    /// Bytes of the withdrawn objects that were written.
    pub withdrawn_bytes: u64,
}
