//! `Journal`: the open journal of a run, and how it writes. Its other methods are in the files that `mod.rs` lists.

use std::collections::{BTreeMap, HashSet};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error::JournalError;
use super::files::Files;
use super::rate::Rate;
use super::rows::{Entry, Progress, Sample};
use super::session::Current;
use super::standing::Before;
use super::store::Store;
use crate::error::{Error, Kind, Result};
use crate::fs::lock::Lock;
use crate::part::Seen;
use crate::report::{Counts, Skips};

/// The journal of one run, open and locked. One thread writes it.
pub struct Journal {
    // Dropped in this order: the database is closed before the lock goes.
    pub(super) store: Store,
    pub(super) _lock: Option<Lock>,
    pub(super) files: Option<Files>,
    pub(super) run: i64,
    /// Where its objects go, if the journal is elsewhere; it may hold runs to several destinations. Else empty.
    pub(super) destination: String,
    /// The source of the run is archives.
    pub(super) of_archives: bool,
    pub(super) progress: Progress,
    /// Committed partitions at or above the frontier.
    pub(super) window: BTreeMap<u64, Entry>,
    pub(super) before: Before,
    pub(super) failed: u64,
    pub(super) deferred: u64,
    /// Rows in the table of skipped names.
    pub(super) left_out: u64,
    pub(super) current: Current,
    /// Locators of objects that `take_due` has returned and no commit has answered yet.
    pub(super) handed: HashSet<Box<[u8]>>,
    /// All that are due before this time are among them: they need not be read again. In Unix milliseconds.
    pub(super) handed_before: u64,
    /// While `take_due` returns objects in the order of their locators: the last one that it has returned.
    pub(super) in_turn: Option<Box<[u8]>>,
    pub(super) rate: Rate,
    pub(super) boot: Option<String>,
    /// What identifies the root directory of the source now.
    pub(super) root: Option<[u8; 32]>,
    /// A write failed below SQLite. Nothing is written any more, because a failed sync must not be retried.
    pub(super) broken: bool,
}

impl Drop for Journal {
    fn drop(&mut self) {
        // SQLite removes its log by path. If the directory was moved, another run's log may be at that path by now.
        if let (Some(files), Some(connection)) = (&self.files, self.made())
            && files.dir().check_unmoved().is_err()
        {
            let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

impl Journal {
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

    /// Records that the listing has ended and all of it is committed. `seen`: of a listing that counts what it has seen
    /// itself, not by partition.
    ///
    /// # Errors
    /// As [`Journal::commit`]; [`Kind::Internal`] while objects are deferred.
    pub fn complete(&mut self, now_s: u64, seen: Option<Seen>) -> Result<()> {
        if self.deferred > 0 {
            let why = format!("a run with {} deferred objects cannot be complete", self.deferred);
            return Err(Error::new(Kind::Internal, why));
        }
        let mut next = Progress { completed: Some(now_s), ..self.progress.clone() };
        next.set_seen(seen.unwrap_or(next.seen()));
        self.put_progress(next)
    }

    /// Notes how many objects in flight `workers="auto"` has found. The next commit, mark or renewal stores it, or the
    /// end of the session. What an earlier session has found stays until then.
    pub fn note_learnt(&mut self, in_flight: u32) {
        self.progress.learnt = Some(in_flight);
    }

    /// Whether it is time for `sample`: the counts take time where many partitions are committed above the frontier.
    pub fn wants_sample(&self, now_ms: u64) -> bool {
        self.rate.is_due(now_ms)
    }

    /// Adds the counts so far to the rate history, if it is time. The next commit writes it.
    pub fn sample(&mut self, now_ms: u64, objects: u64, bytes: u64) {
        self.rate.add(Sample { at_ms: now_ms, objects, bytes });
    }

    /// Returns the committed counts; `unfinished` counts the deferred objects.
    pub fn totals(&self) -> Counts {
        self.sums().counts(self.failed, self.deferred)
    }

    /// Returns the committed counts of skipped objects, by reason.
    pub fn skips(&self) -> Skips {
        self.sums().skips
    }

    /// The progress as if the frontier were above all that is committed.
    fn sums(&self) -> Progress {
        let mut sums = self.progress.clone();
        self.window.values().for_each(|entry| sums.add(entry));
        sums
    }

    /// Whether a later session can go on with it.
    pub fn is_kept(&self) -> bool {
        self.files.is_some()
    }

    /// The number of this run among those of the journal.
    pub fn run_number(&self) -> u64 {
        self.run as u64
    }

    /// Whether everything that is committed is durable.
    pub fn is_durable(&self) -> bool {
        self.progress.boot.is_none()
    }

    /// The connection, made if it is not there yet.
    pub(super) fn connection(&self) -> Result<&Connection, JournalError> {
        self.store.connection(self.run, &self.progress)
    }

    /// The connection, if there is one.
    pub(super) fn made(&self) -> Option<&Connection> {
        self.store.made()
    }

    /// The error that a user sees.
    pub(super) fn explain(&self, error: JournalError) -> Error {
        match &self.files {
            Some(files) => files.explain(error, self.made()),
            None => error.into_error(self.made()),
        }
    }

    pub(super) fn put_progress(&mut self, next: Progress) -> Result<()> {
        if self.made().is_some() {
            self.write(|journal, transaction| Ok(next.write(transaction, journal.run)?))?;
        }
        self.progress = next;
        Ok(())
    }

    /// One transaction, durable when this returns, with the pending rate history in it. If the disk is full, this deletes
    /// the ballast and tries once more.
    pub(super) fn write<T>(
        &mut self,
        work: impl Fn(&Journal, &Transaction<'_>) -> Result<T, JournalError>,
    ) -> Result<T> {
        if self.broken {
            return Err(
                self.explain(Error::new(Kind::Journal, "the journal is closed: an earlier write failed").into())
            );
        }
        let mut outcome = self.transact(&work);
        if let (Err(error), Some(files)) = (&outcome, &self.files)
            && error.is_full(self.made())
            && files.drop_ballast()
        {
            outcome = self.transact(&work);
        }
        match outcome {
            Ok((value, stored)) => {
                self.rate.written(stored);
                self.current.written();
                Ok(value)
            }
            Err(error) => {
                self.broken |= error.is_io() && !error.is_full(self.made());
                Err(self.explain(error))
            }
        }
    }

    fn transact<T>(
        &self,
        work: &impl Fn(&Journal, &Transaction<'_>) -> Result<T, JournalError>,
    ) -> Result<(T, usize), JournalError> {
        let transaction = Transaction::new_unchecked(self.connection()?, TransactionBehavior::Immediate)?;
        let value = work(self, &transaction)?;
        self.current.write(&transaction, self.run)?;
        let stored = self.rate.write(&transaction, self.run)?;
        transaction.commit()?;
        Ok((value, stored))
    }
}
