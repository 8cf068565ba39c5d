//! `JournalError`: a failure of SQLite or one that shoal found, and the [`Error`] that it becomes. Not here: which journal
//! it is, and what to do with that (`Files::explain`).

use rusqlite::{Connection, ErrorCode, ffi};
use rustix::io::Errno;

use crate::error::{Error, Kind};
use crate::fs::error::plain;

/// Why a call of the journal failed.
#[derive(Debug)]
pub(super) enum JournalError {
    Sql(rusqlite::Error),
    Ours(Error),
}

impl From<rusqlite::Error> for JournalError {
    fn from(error: rusqlite::Error) -> JournalError {
        JournalError::Sql(error)
    }
}

impl From<Error> for JournalError {
    fn from(error: Error) -> JournalError {
        JournalError::Ours(error)
    }
}

impl JournalError {
    /// The journal has something that shoal did not write. `Files::explain` adds the hint.
    pub(super) fn damaged(why: &str) -> JournalError {
        JournalError::Ours(Error::new(Kind::Journal, format!("the journal cannot be used: {why}")))
    }

    pub(super) fn damaged_failure() -> JournalError {
        JournalError::damaged("the record of a failed object is damaged")
    }

    /// A defect of the caller.
    pub(super) fn internal(why: String) -> JournalError {
        JournalError::Ours(Error::new(Kind::Internal, why))
    }

    /// Whether no space is left. SQLite knows only ENOSPC, and reports a full quota as an ordinary I/O error.
    pub(super) fn is_full(&self, connection: Option<&Connection>) -> bool {
        match self {
            JournalError::Ours(error) => error.kind() == Kind::DestinationFull,
            JournalError::Sql(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => true,
                Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
                    matches!(connection.and_then(os_error), Some(Errno::NOSPC | Errno::DQUOT))
                }
                _ => false,
            },
        }
    }

    /// Whether a write or sync failed below SQLite, so that what reached the disk is unknown.
    pub(super) fn is_io(&self) -> bool {
        let code = match self {
            JournalError::Sql(error) => error.sqlite_error_code(),
            JournalError::Ours(_) => None,
        };
        code == Some(ErrorCode::SystemIoFailure)
    }

    /// `connection`: where it comes from, if there is one.
    pub(super) fn into_error(self, connection: Option<&Connection>) -> Error {
        let full = connection.is_some() && self.is_full(connection);
        match self {
            JournalError::Ours(error) => error,
            JournalError::Sql(error) => sqlite_error(&error, full, connection.and_then(os_error)),
        }
    }
}

fn sqlite_error(error: &rusqlite::Error, full: bool, errno: Option<Errno>) -> Error {
    let number = errno.map(Errno::raw_os_error);
    if full {
        return Error::new(Kind::DestinationFull, "no space left for the journal")
            .hint("free some space and run the same command again: it resumes")
            .errno(number.or(Some(Errno::NOSPC.raw_os_error())));
    }
    let extended = error.sqlite_error().map_or(0, |error| error.extended_code);
    match error.sqlite_error_code() {
        Some(ErrorCode::ReadOnly) if extended == ffi::SQLITE_READONLY_ROLLBACK => Error::new(
            Kind::Journal,
            "the last run was killed while it was writing to the journal, which is read after the next",
        )
        .hint("run the same command again: it resumes"),
        Some(ErrorCode::ReadOnly) => Error::new(Kind::DestinationReadOnly, "the journal is read-only").errno(number),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::new(Kind::Journal, format!("the journal cannot be used: it is damaged ({error})"))
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::new(Kind::Journal, "another program is using the journal").hint("close it and try again")
        }
        Some(ErrorCode::CannotOpen) if extended == ffi::SQLITE_CANTOPEN_SYMLINK => {
            Error::new(Kind::Journal, "is a symbolic link, but the journal must be a regular file").hint("remove it")
        }
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::FileLockingProtocolFailed) => {
            let system = errno.map_or(String::new(), |errno| format!(": {}", plain(errno)));
            let why = format!("the journal cannot be read or written: {error}{system}");
            Error::new(Kind::Journal, why)
                .hint("check the disk, then run the same command again: it resumes")
                .errno(number)
        }
        _ => Error::new(Kind::Journal, format!("the journal cannot be used: {error}")),
    }
}

/// The `errno` of the last failure on this connection.
fn os_error(connection: &Connection) -> Option<Errno> {
    // SAFETY: the handle is open for as long as `connection` is borrowed, and this call only reads a field of it.
    let number = unsafe { ffi::sqlite3_system_errno(connection.handle()) };
    (number != 0).then(|| Errno::from_raw_os_error(number))
}
