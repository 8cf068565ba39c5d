//! Commits: one transaction each, after a sync. Also the reset with which a listing starts over.
//!
//! A commit is staged beside the state in memory, which changes only when the transaction is durable. Partitions that are
//! folded in the same commit never become rows. Not here: syncs, and what belongs in a commit (`engine/`).

use std::collections::{BTreeMap, HashSet};

use rusqlite::{Connection, Statement, Transaction, params};

use super::commit::{Commit, Credited, Done, Durable, Failed, Fold, Retried, Withdrawn};
use super::error::JournalError;
use super::journal::Journal;
use super::rate::Rate;
use super::rows::{Entry, Fault, Progress};
use super::session::Session;
use super::skipped::Names;
use super::standing::{MARK_ALL, Standing};
use super::state;
use super::stored_cursor::StoredCursor;
use crate::error::{Error, Kind, Result};
use crate::options::Pass;
use crate::partition::Key;
use crate::report::{Reason, Settled, Skips};

/// The state in memory after the commit.
struct Staged {
    progress: Progress,
    /// Entries that differ from the window.
    changed: BTreeMap<u64, Entry>,
    failed: u64,
    deferred: u64,
    left_out: u64,
    credited: Credited,
}

impl Staged {
    fn count_failed(&mut self, failed: &Failed) {
        match failed.due_ms {
            Some(_) => self.deferred += 1,
            None => {
                self.failed += 1;
                self.credited.failed += 1;
            }
        }
    }
}

/// Counts of one partition, or of all below the frontier.
struct Counted<'s> {
    written: &'s mut u64,
    skips: &'s mut Skips,
    bytes: &'s mut u64,
}

/// The statements with which a commit writes rows.
struct Rows<'c> {
    connection: &'c Connection,
    faults: Statement<'c>,
    names: Names<'c>,
}

impl Journal {
    /// Records what a sync made durable. The record is durable when this returns. If a partition was committed before,
    /// its counts and failures are replaced; the last commit counts.
    ///
    /// # Errors
    /// [`Kind::DestinationFull`] if there is no space even without the ballast, [`Kind::Journal`] for other disk
    /// errors, and [`Kind::Internal`] for a commit that does not balance or leaves a gap. Then nothing of it is
    /// recorded.
    pub fn commit(&mut self, commit: &Commit, durable: Durable) -> Result<Credited> {
        for done in &commit.done {
            self.check(done)?;
        }
        let asks = !commit.retried.is_empty()
            || !commit.withdrawn.is_empty()
            || !commit.state.is_empty()
            || commit.done.iter().any(|done| !done.failures.is_empty());
        let staged = match self.made().is_some() || asks {
            true => self.write(|journal, connection| journal.stage(Some(connection), commit, durable))?,
            false => self.stage(None, commit, durable).map_err(|error| self.explain(error))?,
        };
        let frontier = staged.progress.frontier;
        self.window = self.window.split_off(&frontier);
        self.window.extend(staged.changed.into_iter().filter(|(seq, _)| *seq >= frontier));
        self.progress = staged.progress;
        (self.failed, self.deferred, self.left_out) = (staged.failed, staged.deferred, staged.left_out);
        for retried in &commit.retried {
            self.handed.remove(&retried.locator);
        }
        for locator in &commit.returned {
            self.handed.remove(locator);
            self.handed_before = 0; // it is not known when they were due
        }
        let failed = commit.done.iter().flat_map(|done| &done.failures);
        let again = commit.retried.iter().filter_map(|retried| retried.outcome.as_ref().err());
        let due = failed.chain(again).filter_map(|failed| failed.due_ms).min();
        self.handed_before = self.handed_before.min(due.unwrap_or(u64::MAX));
        Ok(staged.credited)
    }

    /// Deletes all committed partitions, for a listing from the start, and sets the mark above all of them, because
    /// earlier sessions may have written any of them. Both happen in one transaction, so that a kill cannot separate
    /// them.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn reset_listing(&mut self) -> Result<Standing> {
        let Progress { pass, passes, before_pass, .. } = self.progress;
        self.reset(Progress { pass, passes, before_pass, ..Progress::default() })
    }

    /// Does the same as `reset_listing`, for a new pass over the source. `oldest`, `newest`: those of the parts of the job. A
    /// part begins another one only if no part is behind: parts that are begun anew after a kill must not drift apart.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub(super) fn begin_pass(&mut self, pass: Pass, (oldest, newest): (u64, u64)) -> Result<Standing> {
        let Progress { passes, completed, sessions: before_pass, pass: before, .. } = self.progress;
        let goes_on = completed.is_none() && before == pass;
        let joins = passes < newest || oldest < newest || goes_on;
        let passes = if joins { passes.max(newest) } else { passes + 1 };
        // An object that has failed may have left a part of its file.
        if completed.is_some() && self.made().is_some() && self.scan().is_ok_and(|found| found.failures() == 0) {
            let before = self.progress.before_pass;
            self.write(|journal, transaction| Ok(Session::all_is_done(transaction, journal.run, before)?))?;
        }
        self.reset(Progress { pass, passes, before_pass, ..Progress::default() })
    }

    /// Forgets what was listed, of a run that has never admitted an object: the next session begins it anew, also with other
    /// options.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn forget(&mut self) -> Result<()> {
        self.reset(Progress::default())?;
        self.put_progress(Progress { mark: 0, ..self.progress.clone() })
    }

    fn reset(&mut self, next: Progress) -> Result<Standing> {
        let old = &self.progress;
        let (epoch, sessions) = (old.epoch + 1, old.sessions);
        // How many objects in flight are good depends on the source and the destination, which stay.
        let learnt = old.learnt;
        let next = Progress { epoch, mark: MARK_ALL, sessions, learnt, ..next };
        self.rate.forget_pending();
        let forget = |journal: &Journal, connection: &Transaction<'_>| {
            for table in ["done", "failure", "skipped", "sample"] {
                connection.execute(&format!("DELETE FROM {table} WHERE run = ?1"), [journal.run])?;
            }
            Ok(next.write(connection, journal.run)?)
        };
        if self.made().is_some() {
            self.write(forget)?;
        }
        self.rate = Rate::default();
        self.progress = next;
        self.window.clear();
        self.handed.clear();
        (self.failed, self.deferred, self.left_out) = (0, 0, 0);
        Ok(self.standing(Vec::new()))
    }

    fn check(&self, done: &Done) -> Result<()> {
        let accounted = [done.skips.total(), done.failures.len() as u64]
            .iter()
            .try_fold(done.written, |sum, count| sum.checked_add(*count));
        if accounted != Some(done.listed) {
            let why = format!(
                "partition {} does not balance: listed {}, written {}, skipped {}, failed {}",
                done.seq,
                done.listed,
                done.written,
                done.skips.total(),
                done.failures.len()
            );
            return Err(Error::new(Kind::Internal, why));
        }
        if done.seq < self.progress.frontier {
            let why = format!("partition {} is below the frontier {}", done.seq, self.progress.frontier);
            return Err(Error::new(Kind::Internal, why));
        }
        Ok(())
    }

    fn stage(
        &self,
        connection: Option<&Connection>,
        commit: &Commit,
        durable: Durable,
    ) -> Result<Staged, JournalError> {
        let mut staged = Staged {
            progress: self.progress.clone(),
            changed: BTreeMap::new(),
            failed: self.failed,
            deferred: self.deferred,
            left_out: self.left_out,
            credited: Credited::default(),
        };
        let mut rows = match connection {
            None => None,
            Some(connection) => Some(Rows {
                connection,
                faults: Fault::writer(connection)?,
                names: Names::new(connection, self.run, self.progress.epoch, self.left_out)?,
            }),
        };
        for done in &commit.done {
            self.put_done(rows.as_mut(), &mut staged, done)?;
        }
        if let Some(rows) = rows.as_mut() {
            if !commit.retried.is_empty() {
                let mut finder = rows.connection.prepare("SELECT * FROM failure WHERE run = ?1 AND locator = ?2")?;
                for retried in &commit.retried {
                    self.settle(rows, &mut finder, &mut staged, retried)?;
                }
            }
            for withdrawn in &commit.withdrawn {
                self.withdraw(rows, &mut staged, withdrawn)?;
            }
            staged.left_out = rows.names.count();
            if !commit.state.is_empty() {
                state::write(rows.connection, &self.destination, &commit.state)?;
            }
        }
        if let Some(fold) = &commit.fold {
            self.fold(&mut staged, fold)?;
        }
        if let Some(connection) = connection {
            self.write_window(connection, &mut staged)?;
        }
        let progress = &mut staged.progress;
        if !commit.done.is_empty() {
            progress.completed = None; // the listing has continued
        }
        match durable {
            Durable::No => progress.boot = Some(self.boot.clone().unwrap_or_default()),
            Durable::These => {}
            // This also covers a write-back that failed before this process opened the destination: the kernel reports an
            // error that it has not reported yet to the next descriptor that syncs (errseq_t, Linux 5.8). We miss it only
            // if another program's sync was told in between.
            Durable::All => progress.boot = None,
        }
        if let Some(connection) = connection {
            progress.write(connection, self.run)?;
        }
        Ok(staged)
    }

    fn entry<'a>(&'a self, staged: &'a Staged, seq: u64) -> Option<&'a Entry> {
        staged.changed.get(&seq).or_else(|| self.window.get(&seq))
    }

    /// Replaces what was committed of a partition, with its failures and the names of skipped objects. Without `rows` it
    /// has no failures, and names are not stored.
    fn put_done(&self, rows: Option<&mut Rows<'_>>, staged: &mut Staged, done: &Done) -> Result<(), JournalError> {
        let old = self.entry(staged, done.seq).cloned();
        let mut entry = Entry {
            id: old.as_ref().and_then(|old| old.id),
            seq: done.seq,
            key: done.key,
            listed: done.listed,
            written: done.written,
            skips: done.skips,
            bytes: done.bytes,
            seen: done.seen.count,
            names: done.seen.sum,
        };
        staged.credited.written += done.written;
        staged.credited.skipped += done.skips.total();
        staged.credited.bytes += done.bytes;
        let Some(Rows { connection, faults, names }) = rows else {
            staged.changed.insert(done.seq, entry);
            return Ok(());
        };
        if old.as_ref().is_some_and(|old| old.failures() != Some(0)) {
            let of_this = [self.run, done.seq as i64];
            let (failed, deferred): (i64, i64) = connection.query_row(
                "SELECT count(*) - count(due_ms), count(due_ms) FROM failure WHERE run = ?1 AND seq = ?2",
                of_this,
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            connection.execute("DELETE FROM failure WHERE run = ?1 AND seq = ?2", of_this)?;
            staged.failed = staged.failed.saturating_sub(failed as u64);
            staged.deferred = staged.deferred.saturating_sub(deferred as u64);
            staged.credited.superseded += deferred as u64;
        }
        if !done.left_out.is_empty() || old.is_some_and(|old| old.skips.listed() > 0) {
            names.forget(done.seq)?;
        }
        for skipped in &done.left_out {
            names.put(done.seq, &skipped.name, skipped.reason)?;
        }
        let mut seen = HashSet::new();
        for failed in &done.failures {
            if !seen.insert(&failed.locator) {
                // The same object twice: one of the two is a duplicate.
                entry.skips.add(Reason::Duplicate);
                names.put(done.seq, &failed.name, Reason::Duplicate)?;
                staged.credited.skipped += 1;
                continue;
            }
            Fault::of(done.seq, failed).write(faults, self.run, self.progress.epoch, None)?;
            staged.count_failed(failed);
        }
        staged.changed.insert(done.seq, entry);
        Ok(())
    }

    /// The outcome of a later retry. The same object may have failed in several partitions: written once, it is a
    /// duplicate in the others. An object without a row was settled before.
    fn settle(
        &self,
        rows: &mut Rows<'_>,
        finder: &mut Statement<'_>,
        staged: &mut Staged,
        retried: &Retried,
    ) -> Result<(), JournalError> {
        let epoch = self.progress.epoch;
        let mut found = Vec::new();
        let mut answers = finder.query(params![self.run, &retried.locator[..]])?;
        while let Some(row) = answers.next()? {
            let (id, fault) = Fault::read(row, self.run, epoch).ok_or_else(JournalError::damaged_failure)?;
            found.push((id, fault.seq, fault.due_ms.is_some(), Box::<[u8]>::from(fault.name)));
        }
        drop(answers);
        // What was kept may have been withdrawn meanwhile. That failure stays, and is retried.
        found.retain(|(_, _, was_deferred, _)| *was_deferred || !retried.is_kept());
        found.sort_by_key(|(_, seq, ..)| *seq != retried.seq); // if it is withdrawn later, then from there
        for (turn, (id, seq, was_deferred, name)) in found.into_iter().enumerate() {
            match was_deferred {
                true => staged.deferred = staged.deferred.saturating_sub(1),
                false => {
                    staged.failed = staged.failed.saturating_sub(1);
                    staged.credited.again += 1;
                }
            }
            match &retried.outcome {
                Err(failed) => {
                    let fault = Fault { locator: &retried.locator, ..Fault::of(seq, failed) };
                    fault.write(&mut rows.faults, self.run, epoch, Some(id))?;
                    staged.count_failed(failed);
                }
                Ok(settled) => {
                    rows.connection.execute("DELETE FROM failure WHERE id = ?1", [id])?;
                    let settled = match settled {
                        Settled::Written { .. } if turn > 0 => Settled::Skipped(Reason::Duplicate),
                        settled => *settled,
                    };
                    if let Settled::Skipped(reason) = settled {
                        rows.names.put(seq, &name, reason)?;
                    }
                    self.credit(staged, seq, settled)?;
                }
            }
        }
        Ok(())
    }

    /// Counts one more object as written or skipped in the partition `seq`.
    fn credit(&self, staged: &mut Staged, seq: u64, settled: Settled) -> Result<(), JournalError> {
        let counted = self.counted(staged, seq)?;
        match settled {
            Settled::Written { bytes, kept } => {
                *counted.written += 1;
                *counted.bytes += bytes;
                if kept {
                    counted.skips.add(Reason::Kept);
                }
                staged.credited.written += 1;
                staged.credited.bytes += bytes;
            }
            Settled::Skipped(reason) => {
                counted.skips.add(reason);
                staged.credited.skipped += 1;
            }
        }
        Ok(())
    }

    /// Counts a written object of a partition as failed instead.
    fn withdraw(&self, rows: &mut Rows<'_>, staged: &mut Staged, withdrawn: &Withdrawn) -> Result<(), JournalError> {
        let Withdrawn { seq, was, ref failed } = *withdrawn;
        let counted = self.counted(staged, seq)?;
        let (written, bytes, reason) = match was {
            Settled::Written { bytes, kept } => (1, bytes, kept.then_some(Reason::Kept)),
            Settled::Skipped(reason) => (0, 0, Some(reason)),
        };
        let less = counted.written.checked_sub(written).zip(counted.bytes.checked_sub(bytes));
        let fits = reason.is_none_or(|reason| counted.skips.of(reason) > 0);
        let Some((left, left_bytes)) = less.filter(|_| fits) else {
            return Err(JournalError::internal(format!("partition {seq} has no written object to withdraw")));
        };
        (*counted.written, *counted.bytes) = (left, left_bytes);
        if let Some(reason) = reason {
            counted.skips.remove(reason);
            if reason.is_listed() {
                rows.names.remove(seq, &failed.name, reason)?;
            }
        }
        Fault::of(seq, failed).write(&mut rows.faults, self.run, self.progress.epoch, None)?;
        staged.failed += 1;
        staged.credited.failed += 1;
        staged.credited.withdrawn += written;
        staged.credited.withdrawn_skipped += 1 - written;
        staged.credited.withdrawn_bytes += bytes;
        Ok(())
    }

    /// The counts that include the partition `seq`.
    fn counted<'s>(&self, staged: &'s mut Staged, seq: u64) -> Result<Counted<'s>, JournalError> {
        if seq < staged.progress.frontier {
            let prefix = &mut staged.progress;
            return Ok(Counted { written: &mut prefix.written, skips: &mut prefix.skips, bytes: &mut prefix.bytes });
        }
        let entry = self.entry(staged, seq).cloned().ok_or_else(JournalError::damaged_failure)?;
        let entry = staged.changed.entry(seq).or_insert(entry);
        Ok(Counted { written: &mut entry.written, skips: &mut entry.skips, bytes: &mut entry.bytes })
    }

    /// Moves the frontier and adds the partitions below it to the prefix.
    fn fold(&self, staged: &mut Staged, fold: &Fold) -> Result<(), JournalError> {
        if fold.frontier < staged.progress.frontier {
            let why = format!("the frontier cannot move back from {} to {}", staged.progress.frontier, fold.frontier);
            return Err(JournalError::internal(why));
        }
        for seq in staged.progress.frontier..fold.frontier {
            let Some(entry) = self.entry(staged, seq).cloned() else {
                let why = format!("the frontier cannot pass partition {seq}, which is not committed");
                return Err(JournalError::internal(why));
            };
            staged.progress.add(&entry);
        }
        staged.progress.frontier = fold.frontier;
        staged.progress.cursor = Some(StoredCursor::new(&fold.cursor));
        staged.progress.chain = fold.chain;
        Ok(())
    }

    fn write_window(&self, connection: &Connection, staged: &mut Staged) -> Result<(), JournalError> {
        let frontier = staged.progress.frontier;
        let mut delete = connection.prepare("DELETE FROM done WHERE id = ?1")?;
        for (_, entry) in self.window.range(..frontier) {
            delete.execute([entry.id])?;
        }
        let mut writer = Entry::writer(connection)?;
        for (_, entry) in staged.changed.range_mut(frontier..) {
            entry.id = Some(entry.write(&mut writer, self.run, staged.progress.epoch)?);
        }
        Ok(())
    }

    /// Returns the key with which a partition at or above the frontier is committed.
    pub fn committed(&self, seq: u64) -> Option<Key> {
        self.window.get(&seq).map(|entry| entry.key)
    }
}
