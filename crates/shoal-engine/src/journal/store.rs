//! `Store`: the connection of a journal to its database.

use std::cell::OnceCell;
use std::mem::ManuallyDrop;

use rusqlite::Connection;

use super::error::JournalError;
use super::fork;
use super::rows::Progress;
use super::schema::{self, Log};

/// The connection. In memory it is made for the first failure, since a run without any has nothing to look up (and SQLite
/// takes 0.7 ms to begin). In a forked child it is abandoned, because closing would remove files that the parent uses.
pub(super) struct Store {
    connection: ManuallyDrop<OnceCell<Connection>>,
    pid: u32,
}

impl Store {
    /// Without a connection, for a journal in memory.
    pub(super) fn empty() -> Store {
        Store { connection: ManuallyDrop::new(OnceCell::new()), pid: std::process::id() }
    }

    /// The connection, if there is one: what is written without it is only in [`super::Journal`].
    pub(super) fn made(&self) -> Option<&Connection> {
        self.connection.get()
    }

    /// The connection. If there is none, one to a temporary file of SQLite's own, which it removes at once: memory stays
    /// flat even if a million objects fail. The file begins with what the journal says so far.
    pub(super) fn connection(&self, run: i64, progress: &Progress) -> Result<&Connection, JournalError> {
        if let Some(connection) = self.made() {
            return Ok(connection);
        }
        fork::prepare();
        let connection = Connection::open("")?;
        schema::harden(&connection)?;
        schema::prepare_writing(&connection, Log::Nothing)?;
        schema::make_or_check(&connection)?;
        progress.write(&connection, run)?;
        Ok(self.connection.get_or_init(|| connection))
    }
}

impl From<Connection> for Store {
    fn from(connection: Connection) -> Store {
        Store { connection: ManuallyDrop::new(OnceCell::from(connection)), pid: std::process::id() }
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
