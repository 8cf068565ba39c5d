//! `Files`: the files of a journal, in `.shoal/` of a destination or beside a path that the user named.
//!
//! Not here: opening them without following links (`fs/private.rs`), their contents.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::error::JournalError;
use super::options::Location;
use super::{fork, schema};
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::fs::lock::{Lock, Owner};
use crate::fs::private::{PrivateDir, is_directory};
use crate::name::PARTS_DIR;

/// Space reserved for the last commit on a full disk, in bytes. The commit of a batch is much smaller.
const BALLAST: usize = 1 << 20;

/// The names of the files of a journal.
#[derive(Debug)]
pub(super) struct Files {
    dir: PrivateDir,
    database: OsString,
    lock: OsString,
    ballast: OsString,
    /// The path to move away to start without this journal, escaped.
    whole: String,
}

impl Files {
    /// The files at `location`, whose directory is created if it is missing. `None`: a journal in memory.
    pub(super) fn create(location: &Location) -> Result<Option<Files>> {
        match location {
            Location::Memory => Ok(None),
            Location::Directory(destination) => PrivateDir::create(destination).map(Files::inside).map(Some),
            Location::Part(destination, part) => {
                let parts = PrivateDir::create(destination)?.create_in(PARTS_DIR.as_ref())?;
                parts.create_in(part.index().to_string().as_ref()).map(Files::inside).map(Some)
            }
            Location::File(path) => Files::beside(path).map(Some),
        }
    }

    /// The files of the journal at `path`, which is a destination or a database.
    pub(super) fn find(path: &Path) -> Result<Option<Files>> {
        let files = match is_directory(path) {
            true => PrivateDir::open(path)?.map(Files::inside),
            false => Some(Files::beside(path)?),
        };
        match files {
            Some(files) if files.dir.has_file(&files.database)? => Ok(Some(files)),
            _ => Ok(None),
        }
    }

    /// The files of the journal of a part, if it has begun.
    pub(super) fn find_part(destination: &Path, index: u32) -> Result<Option<Files>> {
        let parts = match PrivateDir::open(destination)? {
            Some(private) => private.open_in(PARTS_DIR.as_ref())?,
            None => None,
        };
        let own = match parts {
            Some(parts) => parts.open_in(index.to_string().as_ref())?,
            None => None,
        };
        match own.map(Files::inside) {
            Some(files) if files.dir.has_file(&files.database)? => Ok(Some(files)),
            _ => Ok(None),
        }
    }

    fn inside(dir: PrivateDir) -> Files {
        let whole = escape(dir.path().as_os_str().as_bytes());
        Files { dir, database: "journal.db".into(), lock: "lock".into(), ballast: "ballast".into(), whole }
    }

    fn beside(path: &Path) -> Result<Files> {
        let shown = escape(path.as_os_str().as_bytes());
        let Some(name) = path.file_name() else {
            return Err(Error::new(Kind::Config, "is not a valid file name for a journal").on(&shown));
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let with = |suffix: &str| {
            let mut name = name.to_owned();
            name.push(suffix);
            name
        };
        Ok(Files {
            dir: PrivateDir::around(parent.unwrap_or(Path::new(".")))?,
            database: name.to_owned(),
            lock: with(".lock"),
            ballast: with(".ballast"),
            whole: shown,
        })
    }

    /// The database's path, for a message.
    pub(super) fn shown(&self) -> String {
        escape(self.dir.path().join(&self.database).as_os_str().as_bytes())
    }

    /// The error that a user sees. `connection`: where it comes from, if there is one.
    pub(super) fn explain(&self, error: JournalError, connection: Option<&Connection>) -> Error {
        let error = error.into_error(connection).on(&self.shown());
        match error.kind() {
            Kind::Journal if error.advice().is_none() => error.hint(format!(
                "move \"{}\" away and run again with `overwrite=\"always\"`: everything is fetched again",
                self.whole
            )),
            _ => error,
        }
    }

    pub(super) fn dir(&self) -> &PrivateDir {
        &self.dir
    }

    /// The lock's name in that directory.
    pub(super) fn lock(&self) -> &OsStr {
        &self.lock
    }

    /// Creates an empty database file, unless there is one.
    pub(super) fn make_database(&self) -> Result<()> {
        self.dir.ensure_file(&self.database)
    }

    /// Reserves the ballast's space.
    pub(super) fn make_ballast(&self) -> Result<()> {
        self.dir.reserve(&self.ballast, BALLAST)
    }

    /// Frees the ballast's space. Returns whether there was any.
    pub(super) fn drop_ballast(&self) -> bool {
        self.dir.remove(&self.ballast).unwrap_or(false)
    }

    /// The process that uses the journal now.
    pub(super) fn holder(&self) -> Result<Option<Owner>> {
        Lock::holder(&self.dir, &self.lock)
    }

    /// Whether a log that is not yet copied into the database is beside it.
    pub(super) fn has_log(&self) -> bool {
        let mut name = self.database.clone();
        name.push("-wal");
        self.dir.has_file(&name).unwrap_or(true)
    }

    /// Rejects a file that is not a journal, before it is changed or another file is made beside it. What cannot be told
    /// without its log, or a lock, is told later.
    pub(super) fn check_ours(&self) -> Result<()> {
        if !self.dir.has_file(&self.database)? {
            return Ok(());
        }
        let look = || {
            let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)?;
            match schema::is_empty(&connection)? {
                true => Ok(()),
                false => schema::check_ours(&connection),
            }
        };
        match look() {
            Err(JournalError::Sql(error)) if error.sqlite_error_code() != Some(ErrorCode::NotADatabase) => Ok(()),
            result => result.map_err(|error| self.explain(error, None)),
        }
    }

    /// Connects to the database, which must exist.
    pub(super) fn connect(&self, flags: OpenFlags) -> Result<Connection, JournalError> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let path = self.dir.path().join(&self.database);
        fork::prepare();
        let connection = match flags.contains(OpenFlags::SQLITE_OPEN_URI) {
            true => Connection::open_with_flags(immutable_uri(&path), flags)?,
            false => Connection::open_with_flags(&path, flags)?,
        };
        self.dir.check_unmoved()?;
        schema::harden(&connection)?;
        Ok(connection)
    }
}

/// The path as an address that tells SQLite to assume that nothing changes the file.
fn immutable_uri(path: &Path) -> OsString {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(*byte as char),
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    uri.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_odd_bytes_stays_one_path_in_an_address() {
        let uri = immutable_uri(Path::new(OsStr::from_bytes(b"/a b?c#d%\xff")));
        assert_eq!(uri, "file:/a%20b%3fc%23d%25%ff?immutable=1");
    }
}
