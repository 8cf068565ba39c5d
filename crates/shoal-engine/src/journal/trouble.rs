//! What goes wrong with SQLite, told as an [`Error`]: which kind, and what to do next.

use rusqlite::{Connection, ErrorCode, ffi};
use rustix::io::Errno;

use super::files::Files;
use crate::error::{Error, Kind};
use crate::fs::private::plain;

/// SQLite's trouble, or one that we found.
#[derive(Debug)]
pub(super) enum Trouble {
    Sql(rusqlite::Error),
    Ours(Error),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Trouble {
        Trouble::Sql(error)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Ours(error)
    }
}

impl Trouble {
    /// The journal holds something that shoal did not write; `explain` adds the advice.
    pub(super) fn damaged(why: &str) -> Trouble {
        Trouble::Ours(Error::new(Kind::Journal, format!("the journal cannot be used: {why}")))
    }

    /// A caller asked for something that makes no sense.
    pub(super) fn internal(why: String) -> Trouble {
        Trouble::Ours(Error::new(Kind::Internal, why))
    }

    /// Whether there is no room left. SQLite knows only ENOSPC; a quota is an ordinary I/O error to it.
    pub(super) fn is_full(&self, connection: Option<&Connection>) -> bool {
        match self {
            Trouble::Ours(error) => error.kind() == Kind::DestinationFull,
            Trouble::Sql(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => true,
                Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
                    matches!(connection.and_then(os_error), Some(Errno::NOSPC | Errno::DQUOT))
                }
                _ => false,
            },
        }
    }

    /// Whether a write or sync failed below SQLite, so that nobody knows what reached the disk.
    pub(super) fn is_io(&self) -> bool {
        let code = match self {
            Trouble::Sql(error) => error.sqlite_error_code(),
            Trouble::Ours(_) => None,
        };
        code == Some(ErrorCode::SystemIoFailure)
    }

    /// The error a user sees. `connection` is where it came from, if there is one.
    pub(super) fn explain(self, files: Option<&Files>, connection: Option<&Connection>) -> Error {
        let full = connection.is_some() && self.is_full(connection);
        let errno = connection.and_then(os_error);
        let error = match self {
            Trouble::Ours(error) => error,
            Trouble::Sql(error) => told(&error, full, errno),
        };
        let Some(files) = files else {
            return error;
        };
        let lacks_advice = error.kind() == Kind::Journal && error.advice().is_none();
        let error = error.on(&files.shown());
        match lacks_advice {
            true => error.hint(files.advice()),
            false => error,
        }
    }
}

fn told(error: &rusqlite::Error, full: bool, errno: Option<Errno>) -> Error {
    let number = errno.map(Errno::raw_os_error);
    if full {
        return Error::new(Kind::DestinationFull, "no space left for the journal")
            .hint("free some space and run the same command again: it resumes")
            .errno(number.or(Some(Errno::NOSPC.raw_os_error())));
    }
    let extended = error.sqlite_error().map_or(0, |error| error.extended_code);
    match error.sqlite_error_code() {
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
            let system = errno.map_or(String::new(), |errno| format!(": {}", plain(&errno.into())));
            let why = format!("the journal cannot be read or written: {error}{system}");
            Error::new(Kind::Journal, why)
                .hint("check the disk, then run the same command again: it resumes")
                .errno(number)
        }
        _ => Error::new(Kind::Journal, format!("the journal cannot be used: {error}")),
    }
}

/// The system's number behind the last failure on this connection.
fn os_error(connection: &Connection) -> Option<Errno> {
    // SAFETY: the handle is open for as long as `connection` is borrowed, and this call only reads a field of it.
    let number = unsafe { ffi::sqlite3_system_errno(connection.handle()) };
    (number != 0).then(|| Errno::from_raw_os_error(number))
}
