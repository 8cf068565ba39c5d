//! The journal of a run, in SQLite: what is committed, and what failed.
//!
//! Here: the types, [`Journal`] and its small methods. `files.rs` has its paths, `open.rs` checks and resumes,
//! `commit.rs` writes, `failures.rs` returns deferred objects, `skipped.rs` has names of skipped objects, `status.rs`
//! reads a journal from outside, `dry.rs` is for a dry run, `rows.rs` has the rows and their checksums, `schema.rs` the
//! SQL and the format version, `trouble.rs` converts SQLite's errors. Not here: names of objects that were written or
//! excluded (only counts of partitions), and the sync that `engine/commit.rs` does before each commit.
//!
//! The files of a row are durable before the row is: `commit` follows the sync, and is durable when it returns. Counts
//! balance at every commit: listed = written + skipped + failed + deferred.

mod commit;
mod dry;
mod failures;
mod files;
mod fork;
mod open;
mod rows;
mod schema;
mod sessions;
mod skipped;
mod status;
mod trouble;

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet};
use std::mem::ManuallyDrop;
use std::path::PathBuf;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::{Error, Kind, Result};
use crate::fs::lock::Lock;
use crate::options::{Pass, Resume};
use crate::partition::{Cursor, Key};
use crate::report::{Counts, Skipped, Skips};
use crate::session::Interval;

pub use crate::report::Settled;
pub use commit::Credited;
pub use failures::{Failures, Fate};
pub use rows::Sample;
pub use sessions::Ending;
pub use skipped::NAMES_MAX;
pub use status::{RunStatus, Status, status};

use files::Files;
use rows::{Entry, Progress};
use trouble::Trouble;

/// Most rows of the rate history of one run.
const SAMPLES_MAX: usize = 1000;
/// Shortest time between two rows of the rate history, in milliseconds; doubled whenever there are too many.
const SPACING_MS: u64 = 1000;
/// Rows of the rate history that wait for the next commit to be written with it.
const PENDING_MAX: usize = 64;

/// A mark above every partition: when a listing starts over, earlier sessions may have written any part of it.
pub const MARK_ALL: u64 = i64::MAX as u64;

/// Where a journal is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In memory, for a sink that cannot be resumed. It is lost when the process ends.
    Memory,
    /// In `.shoal/` of this destination, which is created if missing: `journal.db`, `lock`, `ballast`.
    Directory(PathBuf),
    /// This file (`journal=PATH`), with `PATH.lock` and `PATH.ballast` beside it.
    File(PathBuf),
}

/// How a journal is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// How to treat the work of earlier sessions. With `Relist`, `Standing::cursor` and `completed_at` are `None`.
    /// Failures that are retried become deferred objects, due at once.
    pub resume: Resume,
    /// For tests: facts about this machine.
    #[doc(hidden)]
    pub machine: Machine,
}

/// Facts about the machine, which tests can set.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Instead of the kernel's boot id.
    pub boot_id: Option<String>,
    /// The file system does not support shared memory.
    pub shares_no_memory: bool,
}

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

/// The option of [`RunKey::options`] with the destination of a run, if its journal is elsewhere.
pub const DESTINATION: &str = "destination";

/// Identifies a run: the same source and the same options continue it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunKey {
    /// `Source::identity`.
    pub source: String,
    /// Options that change the result, by name, in a fixed order.
    pub options: Vec<(String, String)>,
    /// Values of the source that must not be stored (those of query parameters). The journal stores a hash of them.
    pub secrets: Vec<u8>,
}

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
    /// An earlier pass over the source has found objects, or may have.
    pub had_objects: bool,
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
    /// `Err`: failed or deferred again.
    pub outcome: Result<Settled, Failed>,
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
    /// Failures of objects that are committed, in this commit or an earlier one.
    pub withdrawn: Vec<Withdrawn>,
    /// How far the frontier moves.
    pub fold: Option<Fold>,
}

/// The journal of one run, open and locked. One thread writes it.
pub struct Journal {
    // Dropped in this order: the database is closed before the lock goes.
    store: Store,
    _lock: Option<Lock>,
    files: Option<Files>,
    run: i64,
    /// The source of the run is archives.
    of_archives: bool,
    progress: Progress,
    /// Committed partitions at or above the frontier.
    window: BTreeMap<u64, Entry>,
    /// See [`Standing::had_objects`].
    had_objects: bool,
    failed: u64,
    deferred: u64,
    /// Rows in the table of skipped names.
    left_out: u64,
    current: sessions::Current,
    /// Locators that were taken as due and not answered yet.
    handed: HashSet<Box<[u8]>>,
    rate: Rate,
    boot: Option<String>,
    /// A write failed below SQLite: nothing is written any more, since a failed sync cannot be made good.
    broken: bool,
}

/// The connection; in memory it is made for the first failure, since a run without any has nothing to look up (and SQLite
/// takes 0.7 ms to begin). In a forked child it is abandoned instead of closed: closing would tidy up the parent's files.
struct Store {
    connection: ManuallyDrop<OnceCell<Connection>>,
    pid: u32,
}

impl Store {
    fn new(connection: OnceCell<Connection>) -> Store {
        Store { connection: ManuallyDrop::new(connection), pid: std::process::id() }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            // SAFETY: dropped here once, and not used after: `self` is going away.
            unsafe { ManuallyDrop::drop(&mut self.connection) }
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // SQLite removes its log by path. Where the directory was moved, another run's may lie there by now.
        if let (Some(files), Some(connection)) = (&self.files, self.made())
            && files.dir().check_unmoved().is_err()
        {
            let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

/// The rate history: evenly spaced, however long a run takes.
#[derive(Debug)]
struct Rate {
    /// Not written yet.
    pending: Vec<Sample>,
    stored: usize,
    last_ms: Option<u64>,
    spacing_ms: u64,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate { pending: Vec::new(), stored: 0, last_ms: None, spacing_ms: SPACING_MS }
    }
}

impl Journal {
    /// Opens the journal of a run, or starts a run.
    ///
    /// # Errors
    /// [`Kind::JournalLocked`] while another process uses it, [`Kind::JournalMismatch`] for other options or another
    /// format, [`Kind::Journal`] with a hint if it cannot be read.
    pub fn open(place: &Place, key: &RunKey, options: &OpenOptions) -> Result<(Journal, Standing)> {
        open::open(place, key, options)
    }

    /// Records that lanes may begin partitions below `seq`, which they may as soon as this returns.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn mark(&mut self, seq: u64) -> Result<()> {
        if seq <= self.progress.mark {
            return Ok(());
        }
        self.put_progress(Progress { mark: seq, ..self.progress.clone() })
    }

    /// Records that the listing has ended and all of it is committed.
    ///
    /// # Errors
    /// As [`Journal::commit`]; [`Kind::Internal`] while objects are deferred.
    pub fn complete(&mut self, now_s: u64) -> Result<()> {
        if self.deferred > 0 {
            let why = format!("a run with {} deferred objects cannot be complete", self.deferred);
            return Err(Error::new(Kind::Internal, why));
        }
        self.put_progress(Progress { completed: Some(now_s), ..self.progress.clone() })
    }

    /// Notes how many objects in flight `workers="auto"` has found. The next commit, mark or renewal stores it, or the
    /// end of the session. What an earlier session has found stays until then.
    pub fn note_learnt(&mut self, in_flight: u32) {
        self.progress.learnt = Some(in_flight);
    }

    /// Adds the counts so far to the rate history. The next commit writes it.
    pub fn sample(&mut self, now_ms: u64, objects: u64, bytes: u64) {
        let sample = Sample { at_ms: now_ms, objects, bytes };
        // A clock that was set back begins a new stretch.
        let spaced = self.rate.last_ms.is_none_or(|last| now_ms < last || now_ms - last >= self.rate.spacing_ms);
        if !spaced {
            return;
        }
        self.rate.last_ms = Some(now_ms);
        if self.rate.pending.len() >= PENDING_MAX {
            self.rate.pending.pop();
        }
        self.rate.pending.push(sample);
    }

    /// Returns the committed counts; `unfinished` counts the deferred objects.
    pub fn totals(&self) -> Counts {
        let prefix = &self.progress;
        let mut counts = Counts {
            listed: prefix.listed,
            written: prefix.written,
            skipped: prefix.skips.total(),
            bytes: prefix.bytes,
            failed: self.failed,
            unfinished: self.deferred,
        };
        for entry in self.window.values() {
            counts.listed += entry.listed;
            counts.written += entry.written;
            counts.skipped += entry.skips.total();
            counts.bytes += entry.bytes;
        }
        counts
    }

    /// Returns the committed counts of skipped objects, by reason.
    pub fn skips(&self) -> Skips {
        let mut skips = self.progress.skips;
        self.window.values().for_each(|entry| skips.join(&entry.skips));
        skips
    }

    /// The connection, made if it is not there yet.
    fn connection(&self) -> Result<&Connection, Trouble> {
        if let Some(connection) = self.made() {
            return Ok(connection);
        }
        let connection = open::memory(self)?;
        Ok(self.store.connection.get_or_init(|| connection))
    }

    /// The connection, if there is one: whatever is written without it lives in this struct alone.
    fn made(&self) -> Option<&Connection> {
        self.store.connection.get()
    }

    /// Whether everything that is committed is durable.
    pub fn is_durable(&self) -> bool {
        self.progress.boot.is_none()
    }

    fn put_progress(&mut self, next: Progress) -> Result<()> {
        if self.made().is_some() {
            self.write(|journal, transaction| Ok(next.write(transaction, journal.run)?))?;
        }
        self.progress = next;
        Ok(())
    }

    /// One transaction, durable when this returns, and the pending rate history with it. Where the disk is full, the ballast is thrown off and it is tried once more.
    fn write<T>(&mut self, work: impl Fn(&Journal, &Transaction<'_>) -> Result<T, Trouble>) -> Result<T> {
        if self.broken {
            let why = "the journal is closed: an earlier write failed";
            return Err(Trouble::Ours(Error::new(Kind::Journal, why)).explain(self.files.as_ref(), None));
        }
        let mut outcome = self.transact(&work);
        if let (Err(trouble), Some(files)) = (&outcome, &self.files)
            && trouble.is_full(self.made())
            && files.drop_ballast()
        {
            outcome = self.transact(&work);
        }
        match outcome {
            Ok((value, stored)) => {
                if stored < self.rate.stored {
                    self.rate.spacing_ms *= 2;
                }
                self.rate.stored = stored;
                self.rate.pending.clear();
                self.current.written();
                Ok(value)
            }
            Err(trouble) => {
                let full = trouble.is_full(self.made());
                self.broken |= trouble.is_io() && !full;
                Err(trouble.explain(self.files.as_ref(), self.made()))
            }
        }
    }

    fn transact<T>(
        &self,
        work: &impl Fn(&Journal, &Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<(T, usize), Trouble> {
        let transaction = Transaction::new_unchecked(self.connection()?, TransactionBehavior::Immediate)?;
        let value = work(self, &transaction)?;
        self.current.write(&transaction, self.run)?;
        for sample in &self.rate.pending {
            sample.write(&transaction, self.run)?;
        }
        let mut stored = self.rate.stored + self.rate.pending.len();
        if stored > SAMPLES_MAX {
            stored -= transaction.execute(rows::Sample::THIN, [self.run])?;
        }
        transaction.commit()?;
        Ok((value, stored))
    }
}
