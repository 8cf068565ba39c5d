//! The SQL of the journal and its format version: tables, pragmas, and the check that a file is such a journal.
//!
//! Not here: the rows and their checksums (`rows.rs`, `columns.rs`), when they are written (`stage.rs`).

use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, TransactionBehavior};

use super::error::JournalError;
use crate::error::{Error, Kind};

/// Raised with every change of the tables or of what a checksum covers.
pub(super) const FORMAT: i64 = 7;
/// What to do with a journal of another version.
pub(super) const OTHER_VERSION: &str = "finish the run with the version of shoal that wrote it, or move the journal away \
    (`.shoal` in the destination) and run again with `overwrite=\"always\"`: everything is fetched again";
/// "Shoa": marks an SQLite file as a journal.
const APPLICATION: i64 = 0x5368_6f61;
/// Page cache of a connection, in KiB (which SQLite wants negative). It bounds the memory of a journal of any size.
const CACHE_KIB: i64 = -2048;
/// The log is copied into the database when it is this long, in pages of 4 KiB: 1 MiB. It is then overwritten in place, so
/// it takes no new space on a disk that fills up.
const CHECKPOINT_PAGES: i64 = 256;
/// A log that one huge commit made longer than this, in bytes, is truncated to it.
const LOG_MAX: i64 = 4 << 20;
/// How long to wait for an `sqlite3` that has the journal open, or for `shoal status`.
const BUSY: Duration = Duration::from_secs(1);

/// The tables. Each row ends with a checksum over its table, run, epoch and fields. `columns.rs` reads and writes columns by
/// their position.
///
/// - `run` binds a run. It changes only if everything is listed again with other options. Ids are random, so that a row
///   that outlived its run never counts for another.
/// - `progress` has the committed prefix in one row, and everything else that changes. `page_cursor` begins with a version
///   byte (`stored_cursor.rs`). `learnt` is how many objects in
///   flight `workers="auto"` had found last; null = nothing yet. `passes` is how often everything was listed anew.
/// - `seen` and `names` are of parts of a job, else 0: how many names the listing had before it was divided, and the sum of
///   their hashes (`Seen`).
/// - `session` has a row for each session: when it may have written. `root` identifies the root directory of the source,
///   if it has one.
/// - `done` has the partitions at or above the frontier, at most a window. It needs no index, because they are all in
///   memory as well. So a damaged row harms no other.
/// - `failure`: `due_ms` null = failed for good, else deferred.
/// - `skipped` has the names of the first objects that were skipped although no option excluded them. In `progress` and
///   `done`, the column with this name has the counts by reason, as JSON.
/// - `state` has what the destination's sink remembers of the files that it publishes. It belongs to no run. `destination` is empty if
///   the journal lies in it.
/// - `sample` has the rate history.
const TABLES: [(&str, &str); 12] = [
    (
        "run",
        "CREATE TABLE run (id INTEGER PRIMARY KEY, source TEXT, options TEXT, salt BLOB, \
         secrets BLOB, started INTEGER, sum INTEGER)",
    ),
    (
        "progress",
        "CREATE TABLE progress (run INTEGER PRIMARY KEY, epoch INTEGER, frontier INTEGER, page_cursor BLOB, chain BLOB, \
         listed INTEGER, written INTEGER, skipped TEXT, bytes INTEGER, mark INTEGER, sessions INTEGER, \
         pass TEXT, passes INTEGER, before_pass INTEGER, completed INTEGER, boot TEXT, learnt INTEGER, seen INTEGER, \
         names INTEGER, sum INTEGER)",
    ),
    (
        "session",
        "CREATE TABLE session (id INTEGER, run INTEGER, low INTEGER, seen INTEGER, high INTEGER, barrier INTEGER, \
         boot TEXT, volatile INTEGER, state INTEGER, root BLOB, sum INTEGER, PRIMARY KEY (run, id))",
    ),
    (
        "done",
        "CREATE TABLE done (id INTEGER PRIMARY KEY, run INTEGER, seq INTEGER, key BLOB, listed INTEGER, \
         written INTEGER, skipped TEXT, bytes INTEGER, seen INTEGER, names INTEGER, sum INTEGER)",
    ),
    (
        "failure",
        "CREATE TABLE failure (id INTEGER PRIMARY KEY, run INTEGER, seq INTEGER, locator BLOB, name BLOB, kind TEXT, \
         reason TEXT, tries INTEGER, tried_ms INTEGER, due_ms INTEGER, sum INTEGER)",
    ),
    ("failure_locator", "CREATE INDEX failure_locator ON failure (run, locator)"),
    ("failure_seq", "CREATE INDEX failure_seq ON failure (run, seq)"),
    ("failure_due", "CREATE INDEX failure_due ON failure (run, due_ms)"),
    (
        "skipped",
        "CREATE TABLE skipped (id INTEGER PRIMARY KEY, run INTEGER, seq INTEGER, name BLOB, reason TEXT, sum INTEGER)",
    ),
    ("skipped_seq", "CREATE INDEX skipped_seq ON skipped (run, seq)"),
    (
        "state",
        "CREATE TABLE state (destination TEXT, key BLOB, value BLOB, sum INTEGER, PRIMARY KEY (destination, key)) \
         WITHOUT ROWID",
    ),
    ("sample", "CREATE TABLE sample (run INTEGER, at_ms INTEGER, objects INTEGER, bytes INTEGER, sum INTEGER)"),
];

/// How a database is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Log {
    /// Write-ahead log: `shoal status` may read along.
    Ahead,
    /// Rollback journal under an exclusive lock: where memory cannot be shared through files.
    Rollback,
    /// Rolled back from memory, for a temporary file that is never resumed.
    Nothing,
}

/// Settings of every connection: no content of a file may make SQLite run code. This does not read the file, because how
/// it may be read is decided later.
pub(super) fn harden(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.busy_timeout(BUSY)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "cell_size_check", true)
}

/// Settings of the connection that writes. `Ok(false)`: the log asked for does not work here.
pub(super) fn prepare_writing(connection: &Connection, log: Log) -> Result<bool, rusqlite::Error> {
    connection.pragma_update(None, "synchronous", if log == Log::Nothing { "OFF" } else { "FULL" })?;
    connection.pragma_update(None, "temp_store", "MEMORY")?; // never a file outside our directory
    if log == Log::Rollback {
        let set = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        connection.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", set)?;
    }
    let wanted = match log {
        Log::Ahead => "wal",
        Log::Rollback => "truncate",
        Log::Nothing => "memory", // rolled back from memory; "off" is refused by a defensive connection
    };
    let mode = connection.pragma_update_and_check(None, "journal_mode", wanted, |row| row.get::<_, String>(0))?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", CHECKPOINT_PAGES, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_MAX, |_| Ok(()))?;
    connection.pragma_update(None, "cache_size", CACHE_KIB)?;
    // With a memory map, an I/O error would be a signal.
    connection.query_row("PRAGMA mmap_size = 0", [], |_| Ok(())).or_else(|error| match error {
        rusqlite::Error::QueryReturnedNoRows => Ok(()), // SQLite was built without maps
        error => Err(error),
    })?;
    // If shared memory does not work, the first read of the file fails.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(mode == wanted)
}

/// Creates the tables in an empty database, or checks that they are those of this format.
pub(super) fn make_or_check(connection: &Connection) -> Result<(), JournalError> {
    if is_empty(connection)? {
        let transaction = rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        for (_, sql) in TABLES {
            transaction.execute_batch(sql)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", FORMAT)?;
        transaction.commit()?;
        return Ok(());
    }
    check(connection)?;
    let sound: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    match sound.as_str() {
        "ok" => Ok(()),
        what => Err(JournalError::damaged(&format!("its structure is damaged ({what})"))),
    }
}

/// Rejects a database of another program.
pub(super) fn check_ours(connection: &Connection) -> Result<(), JournalError> {
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    match application == APPLICATION {
        true => Ok(()),
        false => Err(Error::new(Kind::Journal, "is an SQLite database, but not a journal of shoal").into()),
    }
}

/// Rejects a database that is not a journal of this format.
pub(super) fn check(connection: &Connection) -> Result<(), JournalError> {
    check_ours(connection)?;
    let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if format != FORMAT {
        let why = format!("the journal has format {format}, but this version of shoal knows format {FORMAT}");
        return Err(Error::new(Kind::JournalMismatch, why).hint(OTHER_VERSION).into());
    }
    let mut statement = connection
        .prepare("SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY rowid")?;
    let mut rows = statement.query([])?;
    let mut expected = TABLES.iter();
    loop {
        match (rows.next()?, expected.next()) {
            (None, None) => return Ok(()),
            (Some(row), Some((name, sql)))
                if row.get_ref(0)?.as_str() == Ok(*name) && row.get_ref(1)?.as_str() == Ok(*sql) => {}
            _ => return Err(JournalError::damaged("its tables are not those of a journal of shoal")),
        }
    }
}

/// Whether nothing was ever written: a run has just created the file, or was killed when it had.
pub(super) fn is_empty(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    Ok(objects == 0 && version == 0 && application == 0)
}
