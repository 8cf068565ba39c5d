//! The sink state of the destination: rows of a key and a value that its sink chose, one for each file that it has
//! published or is about to. They belong to the destination, not to one run, and are read as a cursor.
//!
//! A damaged row is an error: what the sink does at its start depends on all of them.

use rusqlite::{Connection, params};

use super::columns::{Columns, Field, Sum, sealed};
use super::error::JournalError;
use super::journal::Journal;
use super::status::Status;
use crate::error::{Error, Result};
use crate::sink_state::{ReadRow, SinkState, StateRow};

/// Writes rows in the transaction of a commit; a row without a value is removed.
pub(super) fn write(
    connection: &Connection,
    destination: &str,
    rows: &[StateRow],
) -> std::result::Result<(), JournalError> {
    let mut put =
        connection.prepare("INSERT OR REPLACE INTO state (destination, key, value, sum) VALUES (?1, ?2, ?3, ?4)")?;
    let mut remove = connection.prepare("DELETE FROM state WHERE destination = ?1 AND key = ?2")?;
    for (key, value) in rows {
        match value {
            Some(value) => put.execute(sealed(
                [],
                vec![destination.column(), (&**key).column(), (&**value).column()],
                Sum::of("state", &[]),
            ))?,
            None => remove.execute(params![destination, &**key])?,
        };
    }
    Ok(())
}

impl SinkState for Journal {
    fn each(&self, read: &mut ReadRow<'_>) -> Result<()> {
        let Some(connection) = self.made() else { return Ok(()) };
        each(connection, &self.destination, read, &|error| self.explain(error))
    }
}

/// Of a destination in which the journal lies.
impl SinkState for Status {
    fn each(&self, read: &mut ReadRow<'_>) -> Result<()> {
        each(&self.connection, "", read, &|error| error.into_error(Some(&self.connection)))
    }
}

fn each(
    connection: &Connection,
    destination: &str,
    read: &mut ReadRow<'_>,
    explain: &dyn Fn(JournalError) -> Error,
) -> Result<()> {
    let sql = |error: rusqlite::Error| explain(error.into());
    let mut rows = connection
        .prepare("SELECT destination, key, value, sum FROM state WHERE destination = ?1 ORDER BY key")
        .map_err(sql)?;
    let mut rows = rows.query([destination]).map_err(sql)?;
    while let Some(row) = rows.next().map_err(sql)? {
        let sound = || {
            let mut columns = Columns::new(row, 0, Sum::of("state", &[]));
            let (_, key, value): (&str, &[u8], &[u8]) = (columns.next()?, columns.next()?, columns.next()?);
            columns.end().map(|()| (key, value))
        };
        let (key, value) =
            sound().ok_or_else(|| explain(JournalError::damaged("a row of the sink's state is damaged")))?;
        read(key, value)?;
    }
    Ok(())
}
