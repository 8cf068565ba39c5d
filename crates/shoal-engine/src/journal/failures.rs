//! Objects that failed: returning the deferred ones when they are due, and listing all.
//!
//! Not here: recording them and the outcome of a later retry (`stage.rs`).

use rusqlite::{Connection, params};

use super::commit::Due;
use super::error::JournalError;
use super::journal::Journal;
use super::rows::{Entry, Fault};
use crate::error::{Error, Result};
use crate::report::Failure;

/// Rows of one transaction of `forget_tries`. Its log is then smaller than the ballast.
const RETRY_ROWS: usize = 2_000;
/// In milliseconds. No retry is ever planned so far ahead (a host may ask for 120 s): a row that says so was written before
/// the clock was set back, and is due.
const AHEAD_MAX: u64 = 150_000;
/// Rows that [`Failures`] reads at a time.
const PAGE: usize = 256;

/// The state of an object that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not retried.
    Failed,
    /// Waits for a later retry.
    Deferred,
}

impl Journal {
    /// Returns at most `limit` deferred objects that are due, the longest waiting first. It returns each only once
    /// until a commit answers it; after a crash all are due again.
    ///
    /// # Errors
    /// [`crate::Kind::Journal`] if they cannot be read.
    pub fn take_due(&mut self, now_ms: u64, limit: usize) -> Result<Vec<Due>> {
        if let Some(after) = self.in_turn.take() {
            let taken = self.next_in_turn(&after, limit).map_err(|error| self.explain(error))?;
            if let Some(last) = taken.last() {
                self.in_turn = Some(last.locator.clone());
                self.handed.extend(taken.iter().map(|due| due.locator.clone()));
                return Ok(taken);
            }
        }
        let taken = self.waiting(now_ms, limit).map_err(|error| self.explain(error))?;
        self.handed.extend(taken.iter().map(|(due, _)| due.locator.clone()));
        if taken.len() < limit {
            self.handed_before = now_ms;
        } else if let Some((_, last_ms)) = taken.last() {
            self.handed_before = (*last_ms).min(now_ms);
        }
        Ok(taken.into_iter().map(|(due, _)| due).collect())
    }

    /// Returns when the next deferred object is due that `take_due` has not returned, in Unix milliseconds.
    ///
    /// # Errors
    /// As [`Journal::take_due`].
    pub fn next_due(&self) -> Result<Option<u64>> {
        let next = self.waiting(u64::MAX, 1).map_err(|error| self.explain(error))?;
        Ok(next.first().map(|(_, due_ms)| *due_ms))
    }

    /// Returns how many objects wait for a later retry, including those that `take_due` has returned.
    pub fn deferred(&self) -> u64 {
        self.deferred
    }

    /// Makes every object that failed for good a deferred one, due at once and with its attempts reset.
    ///
    /// # Errors
    /// As [`Journal::commit`]. What was changed before the error stays changed.
    pub fn retry_all_failed(&mut self) -> Result<()> {
        self.forget_tries(Fate::Failed)
    }

    /// Does the same for a source that passes its objects in turn: `take_due` first returns all of them in the order of
    /// their locators, whenever they are due. If the listing is not finished, the partitions that it passes again and that
    /// have failures are forgotten, because they are listed as a whole. False if there are such partitions and the sink
    /// does not replace what it has of them (`replaces`): then nothing is retried before the listing is finished.
    ///
    /// # Errors
    /// As [`Journal::commit`]. What was changed before the error stays changed.
    pub fn retry_in_turn(&mut self, replaces: bool) -> Result<bool> {
        if self.progress.completed.is_none() {
            let has_failures = |entry: &&Entry| entry.failures() != Some(0);
            let forgotten: Vec<u64> = self.window.values().filter(has_failures).map(|entry| entry.seq).collect();
            match (forgotten.is_empty(), replaces) {
                (true, _) => {}
                (false, true) => self.forget_partitions(&forgotten)?,
                (false, false) => return Ok(false),
            }
        }
        self.in_turn = Some(Box::default());
        self.retry_all_failed().map(|()| true)
    }

    /// Lists the finished run again, if parts of its source could not be listed: what was committed of them is forgotten.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn list_gaps_again(&mut self) -> Result<()> {
        let gaps = self.gaps().map_err(|error| self.explain(error))?;
        if !gaps.is_empty() {
            self.forget_partitions(&gaps)?;
            self.progress.completed = None; // stored when the session begins
        }
        Ok(())
    }

    /// The partitions with what could not be listed.
    fn gaps(&self) -> Result<Vec<u64>, JournalError> {
        let sql = "SELECT DISTINCT seq FROM failure WHERE run = ?1 AND kind = 'unlisted'";
        let mut statement = self.connection()?.prepare(sql)?;
        let rows = statement.query_map([self.run], |row| Ok(row.get::<_, i64>(0)? as u64))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn forget_partitions(&mut self, forgotten: &[u64]) -> Result<()> {
        self.write(|journal, connection| {
            let mut forget = connection.prepare("DELETE FROM done WHERE run = ?1 AND seq = ?2")?;
            forgotten.iter().try_for_each(|seq| Ok(forget.execute([journal.run, *seq as i64]).map(drop)?))
        })?;
        self.load(&mut Vec::new()) // which discards what belongs to them
    }

    /// Sets the attempts of deferred objects to zero: each session counts its own.
    ///
    /// # Errors
    /// As [`Journal::commit`]. What was changed before the error stays changed.
    pub(super) fn forget_tries_of_deferred(&mut self) -> Result<()> {
        if self.deferred == 0 { Ok(()) } else { self.forget_tries(Fate::Deferred) }
    }

    fn forget_tries(&mut self, fate: Fate) -> Result<()> {
        self.handed_before = 0;
        let mut after = 0;
        loop {
            let (changed, last) = self.write(|journal, connection| journal.forget_some(connection, fate, after))?;
            if fate == Fate::Failed {
                self.failed = self.failed.saturating_sub(changed);
                self.deferred += changed;
            }
            match last {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }

    /// Returns at most `limit` objects that failed for good, in the order in which they failed.
    pub fn failures(&self, limit: usize) -> Failures<'_> {
        Failures::new(self.made(), (self.run, self.progress.epoch), self.of_archives, Fate::Failed, limit)
    }

    /// The first `limit` deferred objects behind a locator, in the order of their locators.
    fn next_in_turn(&self, after: &[u8], limit: usize) -> Result<Vec<Due>, JournalError> {
        if self.deferred == 0 {
            return Ok(Vec::new());
        }
        let sql = "SELECT * FROM failure INDEXED BY failure_locator \
                   WHERE run = ?1 AND locator > ?2 AND due_ms IS NOT NULL ORDER BY locator LIMIT ?3";
        let mut statement = self.connection()?.prepare(sql)?;
        let mut rows = statement.query(params![self.run, after, limit as i64])?;
        let mut found: Vec<Due> = Vec::new();
        while let Some(row) = rows.next()? {
            let (_, fault) =
                Fault::read(row, self.run, self.progress.epoch).ok_or_else(JournalError::damaged_failure)?;
            found.push(fault.due());
        }
        found.dedup_by(|one, other| one.locator == other.locator);
        Ok(found)
    }

    /// The first `limit` rows due by `now_ms` that `take_due` has not returned, with their times.
    fn waiting(&self, now_ms: u64, limit: usize) -> Result<Vec<(Due, u64)>, JournalError> {
        let mut found: Vec<(Due, u64)> = Vec::new();
        if limit == 0 || self.deferred == 0 {
            return Ok(found);
        }
        let sql = "SELECT * FROM failure INDEXED BY failure_due \
                   WHERE run = ?1 AND due_ms >= ?4 AND (due_ms <= ?2 OR due_ms > ?3) ORDER BY due_ms";
        let signed = |ms: u64| ms.min(i64::MAX as u64) as i64;
        let mut statement = self.connection()?.prepare(sql)?;
        let far = signed(now_ms.saturating_add(AHEAD_MAX));
        let mut rows = statement.query(params![self.run, signed(now_ms), far, signed(self.handed_before)])?;
        let mut picked = std::collections::HashSet::new();
        while let Some(row) = rows.next()? {
            let (_, fault) =
                Fault::read(row, self.run, self.progress.epoch).ok_or_else(JournalError::damaged_failure)?;
            let Some(due_ms) = fault.due_ms else {
                return Err(JournalError::damaged_failure());
            };
            if self.handed.contains(fault.locator) || !picked.insert(Box::<[u8]>::from(fault.locator)) {
                continue;
            }
            found.push((fault.due(), due_ms));
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    /// Sets the attempts of the next objects with this fate to zero, those with a row after `after`, and makes the failed
    /// ones deferred. Returns how many, and the id of the last one if there may be more.
    fn forget_some(&self, connection: &Connection, fate: Fate, after: i64) -> Result<(u64, Option<i64>), JournalError> {
        let which = match fate {
            // If answers came out of order, others may be wrong too. A retry of this one would hide that.
            // What could not be listed is no object.
            Fate::Failed => "due_ms IS NULL AND kind NOT IN ('out-of-order', 'unlisted')",
            Fate::Deferred => "due_ms IS NOT NULL AND (tries > 0 OR tried_ms > 0)",
        };
        let sql = format!("SELECT * FROM failure WHERE run = ?1 AND {which} AND id > ?2 ORDER BY id LIMIT ?3");
        let epoch = self.progress.epoch;
        // Collected first, because the changes move rows within the index that the statement reads.
        let mut owned = Vec::new();
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query(params![self.run, after, RETRY_ROWS as i64])?;
        while let Some(row) = rows.next()? {
            let (id, fault) = Fault::read(row, self.run, epoch).ok_or_else(JournalError::damaged_failure)?;
            let (locator, name) = (Box::<[u8]>::from(fault.locator), Box::<[u8]>::from(fault.name));
            let due_ms = fault.due_ms.or(Some(0));
            owned.push((id, fault.seq, locator, name, fault.kind.to_owned(), fault.reason.to_owned(), due_ms));
        }
        drop(rows);
        let mut writer = Fault::writer(connection)?;
        for (id, seq, locator, name, kind, reason, due_ms) in &owned {
            let fault = Fault { seq: *seq, locator, name, kind, reason, tries: 0, tried_ms: 0, due_ms: *due_ms };
            fault.write(&mut writer, self.run, epoch, Some(*id))?;
        }
        let more = owned.len() == RETRY_ROWS;
        Ok((owned.len() as u64, owned.last().filter(|_| more).map(|(id, ..)| *id)))
    }
}

/// The number of a row, and its object.
type Located = (i64, Box<[u8]>, Failure);

/// An iterator over failures, which reads a few at a time to keep memory flat.
pub struct Failures<'a> {
    /// None: there are no failures.
    connection: Option<&'a Connection>,
    run: i64,
    epoch: i64,
    of_archives: bool,
    fate: Fate,
    left: usize,
    after: i64,
    page: std::vec::IntoIter<Located>,
    /// Of the last failure.
    locator: Box<[u8]>,
    ended: bool,
}

impl<'a> Failures<'a> {
    pub(super) fn new(
        connection: Option<&'a Connection>,
        (run, epoch): (i64, i64),
        of_archives: bool,
        fate: Fate,
        limit: usize,
    ) -> Failures<'a> {
        let page = Vec::new().into_iter();
        let (left, locator) = (limit, Box::default());
        Failures { connection, run, epoch, of_archives, fate, left, after: 0, page, locator, ended: false }
    }

    /// The locator of the failure that was returned last: what its source finds the object by.
    pub fn locator(&self) -> &[u8] {
        &self.locator
    }

    fn read_page(&self) -> Result<Vec<Located>, JournalError> {
        let fate = match self.fate {
            Fate::Failed => "due_ms IS NULL",
            Fate::Deferred => "due_ms IS NOT NULL",
        };
        let sql = format!("SELECT * FROM failure WHERE run = ?1 AND {fate} AND id > ?2 ORDER BY id LIMIT ?3");
        let Some(connection) = self.connection else { return Ok(Vec::new()) };
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query(params![self.run, self.after, self.left.min(PAGE) as i64])?;
        let mut page = Vec::new();
        while let Some(row) = rows.next()? {
            let (id, fault) = Fault::read(row, self.run, self.epoch).ok_or_else(JournalError::damaged_failure)?;
            page.push((id, fault.locator.into(), fault.to_failure(self.of_archives)));
        }
        Ok(page)
    }
}

impl Iterator for Failures<'_> {
    type Item = Result<Failure, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 || self.ended {
            return None;
        }
        if self.page.len() == 0 {
            match self.read_page() {
                Ok(page) => self.page = page.into_iter(),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error.into_error(self.connection)));
                }
            }
        }
        let Some((id, locator, failure)) = self.page.next() else {
            self.ended = true;
            return None;
        };
        (self.after, self.locator) = (id, locator);
        self.left -= 1;
        Some(Ok(failure))
    }
}
