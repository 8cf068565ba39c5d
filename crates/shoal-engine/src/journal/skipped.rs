//! Names of objects that were skipped although no option excluded them, each with its reason. The number of rows is
//! limited; the counts by reason include all.
//!
//! Not here: the counts (`stage.rs`). A damaged or missing row harms no run, because nothing depends on it.

use rusqlite::{Connection, Row, Statement, params};

use super::columns::{Columns, Field, Sum, sealed};
use super::error::JournalError;
use crate::report::{Reason, Skipped};

/// Most names of skipped objects that the journal stores for a run.
pub const NAMES_MAX: u64 = 100_000;

/// Writes rows for one transaction.
pub(super) struct Names<'c> {
    writer: Statement<'c>,
    forgetter: Statement<'c>,
    remover: Statement<'c>,
    run: i64,
    epoch: i64,
    /// Rows so far.
    count: u64,
}

impl<'c> Names<'c> {
    pub(super) fn new(connection: &'c Connection, run: i64, epoch: i64, count: u64) -> Result<Names<'c>, JournalError> {
        let writer = connection.prepare("INSERT INTO skipped VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
        let forgetter = connection.prepare("DELETE FROM skipped WHERE run = ?1 AND seq = ?2")?;
        let remover = connection.prepare(
            "DELETE FROM skipped WHERE id = (SELECT id FROM skipped WHERE run = ?1 AND seq = ?2 AND name = ?3 AND \
            reason = ?4 LIMIT 1)",
        )?;
        Ok(Names { writer, forgetter, remover, run, epoch, count })
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds a row, if the reason is one whose names are stored and there is room.
    pub(super) fn put(&mut self, seq: u64, name: &[u8], reason: Reason) -> Result<(), JournalError> {
        if reason.is_listed() && self.count < NAMES_MAX {
            let reason = reason.as_str();
            let fields = vec![seq.column(), name.column(), reason.column()];
            self.writer.execute(sealed([None, Some(self.run)], fields, sum(self.run, self.epoch)))?;
            self.count += 1;
        }
        Ok(())
    }

    /// Deletes the row of an object that was skipped and is a failure now.
    pub(super) fn remove(&mut self, seq: u64, name: &[u8], reason: Reason) -> Result<(), JournalError> {
        let gone = self.remover.execute(params![self.run, seq as i64, name, reason.as_str()])?;
        self.count = self.count.saturating_sub(gone as u64);
        Ok(())
    }

    /// Deletes the rows of a partition that is committed again.
    pub(super) fn forget(&mut self, seq: u64) -> Result<(), JournalError> {
        let gone = self.forgetter.execute([self.run, seq as i64])?;
        self.count = self.count.saturating_sub(gone as u64);
        Ok(())
    }
}

/// The number of rows of a run.
pub(super) fn count(connection: &Connection, run: i64) -> Result<u64, JournalError> {
    let count: i64 = connection.query_row("SELECT count(*) FROM skipped WHERE run = ?1", [run], |row| row.get(0))?;
    Ok(count as u64)
}

/// The first `limit` rows, in the order of the listing. Damaged ones are left out; the counts include these objects.
pub(super) fn read(connection: &Connection, run: i64, epoch: i64, limit: usize) -> Result<Vec<Skipped>, JournalError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare("SELECT * FROM skipped WHERE run = ?1 ORDER BY seq, id LIMIT ?2")?;
    let mut rows = statement.query([run, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.extend(read_row(row, run, epoch));
    }
    Ok(found)
}

fn read_row(row: &Row<'_>, run: i64, epoch: i64) -> Option<Skipped> {
    let mut columns = Columns::new(row, 2, sum(run, epoch));
    let (_seq, name, reason): (u64, &[u8], &str) = (columns.next()?, columns.next()?, columns.next()?);
    columns.end()?;
    Some(Skipped { name: name.into(), reason: Reason::named(reason)? })
}

fn sum(run: i64, epoch: i64) -> Sum {
    Sum::of("skipped", &[run, epoch])
}
