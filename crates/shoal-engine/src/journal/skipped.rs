//! Names of what was left out without being asked for, each with its reason: at most so many rows for a run; the counts
//! by reason have all.
//!
//! Not here: the counts (`commit.rs`). A row that is damaged or missing harms no run, since nothing is decided by it.

use rusqlite::{Connection, Row, Statement, params};

use super::rows::{Sum, bytes, int, text};
use super::trouble::Trouble;
use crate::report::{Reason, Skipped};

/// Most names of skipped objects that the journal stores for a run.
pub const NAMES_MAX: u64 = 100_000;

/// Writes rows for one transaction.
pub(super) struct Names<'c> {
    writer: Statement<'c>,
    forgetter: Statement<'c>,
    run: i64,
    epoch: i64,
    /// Rows by now.
    count: u64,
}

impl<'c> Names<'c> {
    pub(super) fn new(connection: &'c Connection, run: i64, epoch: i64, count: u64) -> Result<Names<'c>, Trouble> {
        let writer =
            connection.prepare("INSERT INTO skipped (run, seq, name, reason, sum) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        let forgetter = connection.prepare("DELETE FROM skipped WHERE run = ?1 AND seq = ?2")?;
        Ok(Names { writer, forgetter, run, epoch, count })
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// One more, if its name is to be had and there is room for it.
    pub(super) fn put(&mut self, seq: u64, name: &[u8], reason: Reason) -> Result<(), Trouble> {
        if reason.is_listed() && self.count < NAMES_MAX {
            let sum = sum(self.run, self.epoch, seq, name, reason.as_str());
            self.writer.execute(params![self.run, seq as i64, name, reason.as_str(), sum])?;
            self.count += 1;
        }
        Ok(())
    }

    /// A partition is done anew.
    pub(super) fn forget(&mut self, seq: u64) -> Result<(), Trouble> {
        let gone = self.forgetter.execute([self.run, seq as i64])?;
        self.count = self.count.saturating_sub(gone as u64);
        Ok(())
    }
}

/// How many rows a run has.
pub(super) fn count(connection: &Connection, run: i64) -> Result<u64, Trouble> {
    let count: i64 = connection.query_row("SELECT count(*) FROM skipped WHERE run = ?1", [run], |row| row.get(0))?;
    Ok(count as u64)
}

/// The first `limit` rows, in the order of the listing. Damaged ones are left out: the counts have these objects too.
pub(super) fn read(connection: &Connection, run: i64, epoch: i64, limit: usize) -> Result<Vec<Skipped>, Trouble> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement =
        connection.prepare("SELECT seq, name, reason, sum FROM skipped WHERE run = ?1 ORDER BY seq, id LIMIT ?2")?;
    let mut rows = statement.query([run, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.extend(read_row(row, run, epoch));
    }
    Ok(found)
}

fn read_row(row: &Row<'_>, run: i64, epoch: i64) -> Option<Skipped> {
    let (seq, name, reason) = (int(row, 0)? as u64, bytes(row, 1)?, text(row, 2)?);
    let sound = sum(run, epoch, seq, name, reason) == int(row, 3)?;
    sound.then_some(Skipped { name: name.into(), reason: Reason::named(reason)? })
}

fn sum(run: i64, epoch: i64, seq: u64, name: &[u8], reason: &str) -> i64 {
    Sum::of("skipped").int(run).int(epoch).uint(seq).bytes(name).bytes(reason.as_bytes()).end()
}
