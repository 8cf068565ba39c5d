//! Where the files of a journal are: in `.shoal/` of a destination, or beside a path the user gave.
//!
//! Not here: opening them without following links (`fs/private.rs`), what stands in them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::trouble::Trouble;
use super::{Place, fork, schema};
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::fs::lock::{Lock, Owner};
use crate::fs::private::{PrivateDir, is_directory};

/// Room kept for the last commit on a full disk, in bytes; a commit of a batch is far below it.
const BALLAST: usize = 1 << 20;

/// Where the files of a journal are.
#[derive(Debug)]
pub(super) struct Files {
    dir: PrivateDir,
    database: OsString,
    lock: OsString,
    ballast: OsString,
    /// What to move away to be rid of the journal, escaped.
    whole: String,
}

impl Files {
    /// The files at `place`, their directory made if it is missing; `None` for a journal in memory.
    pub(super) fn create(place: &Place) -> Result<Option<Files>> {
        match place {
            Place::Memory => Ok(None),
            Place::Directory(destination) => PrivateDir::create(destination).map(Files::inside).map(Some),
            Place::File(path) => Files::beside(path).map(Some),
        }
    }

    /// The files of the journal that `path` means: a destination, or a database of its own.
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

    /// What to do about a journal that cannot be used.
    pub(super) fn advice(&self) -> String {
        format!("move \"{}\" away and run again with `overwrite=\"always\"`: everything is fetched again", self.whole)
    }

    pub(super) fn dir(&self) -> &PrivateDir {
        &self.dir
    }

    /// The lock's name in that directory.
    pub(super) fn lock(&self) -> &OsStr {
        &self.lock
    }

    /// An empty database file, unless there is one.
    pub(super) fn make_database(&self) -> Result<()> {
        self.dir.ensure_file(&self.database)
    }

    /// Takes the ballast's room.
    pub(super) fn make_ballast(&self) -> Result<()> {
        self.dir.reserve(&self.ballast, BALLAST)
    }

    /// Frees the ballast's room; whether there was any.
    pub(super) fn drop_ballast(&self) -> bool {
        self.dir.remove(&self.ballast).unwrap_or(false)
    }

    /// Who works with the journal right now.
    pub(super) fn holder(&self) -> Result<Option<Owner>> {
        Lock::holder(&self.dir, &self.lock)
    }

    /// Whether a log lies beside the database that is not carried over yet.
    pub(super) fn has_log(&self) -> bool {
        let mut name = self.database.clone();
        name.push("-wal");
        self.dir.has_file(&name).unwrap_or(true)
    }

    /// Connects to the database, which must be there.
    pub(super) fn connect(&self, flags: OpenFlags) -> Result<Connection, Trouble> {
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

/// A path as SQLite reads it when it may take for granted that nothing changes the file.
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
