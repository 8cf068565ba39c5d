//! The rows of the journal: how each is written and read. Not here: how a field is stored and covered by the row's checksum
//! (`columns.rs`), the rows of sessions (`session.rs`) and of skipped objects (`skipped.rs`).

use rusqlite::{Connection, Row, Statement};

use super::columns::{Fields, Sum, fields, sealed};
use super::commit::{Due, Failed};
use super::error::JournalError;
use super::options::RunKey;
use super::stored_cursor::StoredCursor;
use crate::fs::random::random;
use crate::options::Pass;
use crate::part::Seen;
use crate::partition::Key;
use crate::report::{Counts, Failure, Skips, archive_of};

/// What binds a run.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub id: i64,
    pub source: String,
    pub options: Vec<(String, String)>,
    /// The key of the hash. It is random, so that the hashes of two journals cannot be compared.
    salt: [u8; 16],
    /// A hash of values that bind the run but must not be read from its journal, such as tokens in addresses.
    secrets: [u8; 32],
    /// Unix seconds.
    pub started: u64,
}

fields!(Header: id, source, options, salt, secrets, started);

impl Header {
    /// Of a new run. `started`: Unix seconds.
    pub(super) fn new(key: &RunKey, started: u64) -> Header {
        let id = i64::from_ne_bytes(random()) & i64::MAX;
        let (source, options) = (key.source.clone(), key.options.clone());
        let mut header = Header { id, source, options, salt: [0; 16], secrets: [0; 32], started };
        header.set_secrets(&key.secrets);
        header
    }

    pub(super) fn set_secrets(&mut self, values: &[u8]) {
        self.salt = random();
        self.secrets = self.hash(values);
    }

    pub(super) fn has_secrets(&self, values: &[u8]) -> bool {
        self.secrets == self.hash(values)
    }

    fn hash(&self, values: &[u8]) -> [u8; 32] {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.salt);
        let mut hash = [0; 32];
        hash.copy_from_slice(ring::hmac::sign(&key, values).as_ref());
        hash
    }

    /// All runs in a journal, the oldest first.
    pub(super) fn load_all(connection: &Connection) -> Result<Vec<Header>, JournalError> {
        let mut statement = connection.prepare("SELECT * FROM run ORDER BY started, id")?;
        let mut rows = statement.query([])?;
        let mut headers = Vec::new();
        while let Some(row) = rows.next()? {
            let header = Header::checked(row, 0, Sum::of("run", &[]));
            headers.push(header.ok_or_else(|| JournalError::damaged("the row that names a run is damaged"))?);
        }
        Ok(headers)
    }

    /// Whether anything was listed: no partition is handed out before the mark is above it. Otherwise the run is an attempt,
    /// such as one with a mistyped address. A damaged row counts as begun, so that it is reported.
    pub(super) fn has_begun(&self, connection: &Connection) -> Result<bool, JournalError> {
        let is_attempt = |progress: Progress| {
            progress.mark == 0 && progress.cursor.is_none() && progress.completed.is_none() && progress.listed == 0
        };
        let sql = "SELECT EXISTS (SELECT 1 FROM done WHERE run = ?1) OR EXISTS (SELECT 1 FROM failure WHERE run = ?1)";
        Ok(!Progress::load(connection, self.id)?.is_some_and(is_attempt)
            || connection.query_row(sql, [self.id], |row| row.get(0))?)
    }

    pub(super) fn write(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let row = sealed([], self.columns(), Sum::of("run", &[]));
        connection.execute("INSERT OR REPLACE INTO run VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", row).map(drop)
    }
}

/// The committed prefix, and what else changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Raised by every reset.
    pub epoch: i64,
    pub frontier: u64,
    pub cursor: Option<StoredCursor>,
    pub chain: Key,
    /// The four counts are of partitions below the frontier.
    pub listed: u64,
    pub written: u64,
    pub skips: Skips,
    pub bytes: u64,
    pub mark: u64,
    pub sessions: u64,
    pub pass: Pass,
    /// How often everything was listed anew on request.
    pub passes: u64,
    /// Sessions before this pass.
    pub before_pass: u64,
    /// Unix seconds.
    pub completed: Option<u64>,
    /// The boot whose page cache may be the only place of something that is committed.
    pub boot: Option<String>,
    /// Objects in flight that `workers="auto"` had found last.
    pub learnt: Option<u32>,
    /// `Seen::count` and `Seen::sum` below the frontier.
    pub seen: u64,
    pub names: u64,
}

fields!(Progress: epoch, frontier, cursor, chain, listed, written, skips, bytes, mark, sessions, pass, passes,
    before_pass, completed, boot, learnt, seen, names);

impl Progress {
    /// Adds a partition to the prefix.
    pub(super) fn add(&mut self, entry: &Entry) {
        self.listed += entry.listed;
        self.written += entry.written;
        self.skips.join(&entry.skips);
        self.bytes += entry.bytes;
        let mut seen = self.seen();
        seen.join(Seen { count: entry.seen, sum: entry.names });
        self.set_seen(seen);
    }

    pub(super) fn seen(&self) -> Seen {
        Seen { count: self.seen, sum: self.names }
    }

    pub(super) fn set_seen(&mut self, seen: Seen) {
        (self.seen, self.names) = (seen.count, seen.sum);
    }

    pub(super) fn counts(&self, failed: u64, unfinished: u64) -> Counts {
        let (listed, written, skipped, bytes) = (self.listed, self.written, self.skips.total(), self.bytes);
        Counts { listed, written, skipped, failed, unfinished, bytes }
    }

    /// The row of a run. `None` inside: it is missing or damaged.
    pub(super) fn load(connection: &Connection, run: i64) -> Result<Option<Progress>, JournalError> {
        let mut statement = connection.prepare("SELECT * FROM progress WHERE run = ?1")?;
        let mut rows = statement.query([run])?;
        let progress = rows.next()?.and_then(|row| Progress::checked(row, 1, Sum::of("progress", &[run])));
        if let Some(cursor) = progress.as_ref().and_then(|progress| progress.cursor.as_ref()) {
            cursor.check()?;
        }
        Ok(progress)
    }

    pub(super) fn write(&self, connection: &Connection, run: i64) -> Result<(), rusqlite::Error> {
        let row = sealed([Some(run)], self.columns(), Sum::of("progress", &[run]));
        let sql = "INSERT OR REPLACE INTO progress \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)";
        connection.execute(sql, row).map(drop)
    }
}

/// A committed partition at or above the frontier.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its row, once it has one.
    pub id: Option<i64>,
    pub seq: u64,
    pub key: Key,
    pub listed: u64,
    pub written: u64,
    pub skips: Skips,
    pub bytes: u64,
    /// `Seen::count` and `Seen::sum`.
    pub seen: u64,
    pub names: u64,
}

fields!(Entry { id: None }: seq, key, listed, written, skips, bytes, seen, names);

impl Entry {
    pub(super) const SELECT: &str = "SELECT * FROM done WHERE run = ?1";

    pub(super) fn read(row: &Row<'_>, run: i64, epoch: i64) -> Option<Entry> {
        let entry = Entry::checked(row, 2, Sum::of("done", &[run, epoch]))?;
        Some(Entry { id: Some(row.get(0).ok()?), ..entry })
    }

    pub(super) fn writer(connection: &Connection) -> Result<Statement<'_>, rusqlite::Error> {
        connection.prepare("INSERT OR REPLACE INTO done VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")
    }

    /// Writes the row and returns its id. `writer` is a [`Entry::writer`].
    pub(super) fn write(&self, writer: &mut Statement<'_>, run: i64, epoch: i64) -> Result<i64, rusqlite::Error> {
        writer.insert(sealed([self.id, Some(run)], self.columns(), Sum::of("done", &[run, epoch])))
    }

    /// Objects in it that are neither written nor skipped. `None`: the counts are impossible.
    pub(super) fn failures(&self) -> Option<u64> {
        self.listed.checked_sub(self.written)?.checked_sub(self.skips.total())
    }
}

/// An object that failed or is deferred, borrowed from a row or from a commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault<'a> {
    pub seq: u64,
    pub locator: &'a [u8],
    pub name: &'a [u8],
    pub kind: &'a str,
    pub reason: &'a str,
    pub tries: u32,
    pub tried_ms: u64,
    pub due_ms: Option<u64>,
}

fields!(Fault<'r>: seq, locator, name, kind, reason, tries, tried_ms, due_ms);

impl<'a> Fault<'a> {
    pub(super) fn of(seq: u64, failed: &'a Failed) -> Fault<'a> {
        Fault {
            seq,
            locator: &failed.locator,
            name: &failed.name,
            kind: failed.kind,
            reason: &failed.reason,
            tries: failed.tries,
            tried_ms: failed.tried_ms,
            // SQLite compares times, and its numbers are signed. 2^63 ms are 292 million years.
            due_ms: failed.due_ms.map(|due| due.min(i64::MAX as u64)),
        }
    }

    /// Reads a whole row, and its id.
    pub(super) fn read(row: &'a Row<'_>, run: i64, epoch: i64) -> Option<(i64, Fault<'a>)> {
        let fault = Fault::checked(row, 2, Sum::of("failure", &[run, epoch]))?;
        Some((row.get(0).ok()?, fault))
    }

    pub(super) fn writer(connection: &Connection) -> Result<Statement<'_>, rusqlite::Error> {
        connection.prepare("INSERT OR REPLACE INTO failure VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")
    }

    /// Writes the row, in place of the one with `id` if given. `writer` is a [`Fault::writer`].
    pub(super) fn write(
        &self,
        writer: &mut Statement<'_>,
        run: i64,
        epoch: i64,
        id: Option<i64>,
    ) -> Result<(), rusqlite::Error> {
        writer.execute(sealed([id, Some(run)], self.columns(), Sum::of("failure", &[run, epoch]))).map(drop)
    }

    pub(super) fn due(self) -> Due {
        let Fault { seq, locator, kind, tries, tried_ms, .. } = self;
        Due { locator: locator.into(), kind: kind.into(), tries, tried_ms, seq }
    }

    /// `of_archives`: the source of the run is archives.
    pub(super) fn to_failure(self, of_archives: bool) -> Failure {
        Failure {
            name: self.name.into(),
            archive: of_archives.then(|| archive_of(self.locator).into()),
            kind: self.kind.to_owned(),
            reason: self.reason.to_owned(),
            tries: self.tries,
        }
    }
}

/// A sample of the rate history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Unix milliseconds.
    pub at_ms: u64,
    /// Objects so far, since the run's first session.
    pub objects: u64,
    /// Bytes so far.
    pub bytes: u64,
}

fields!(Sample: at_ms, objects, bytes);

impl Sample {
    /// All samples of a run, the oldest first. Damaged ones are `None`.
    pub(super) fn load(connection: &Connection, run: i64) -> Result<Vec<Option<Sample>>, rusqlite::Error> {
        let mut statement = connection.prepare("SELECT * FROM sample WHERE run = ?1 ORDER BY rowid")?;
        let samples = statement.query_map([run], |row| Ok(Sample::checked(row, 1, Sum::of("sample", &[run]))))?;
        samples.collect()
    }

    pub(super) fn write(&self, connection: &Connection, run: i64) -> Result<(), rusqlite::Error> {
        let row = sealed([Some(run)], self.columns(), Sum::of("sample", &[run]));
        connection.execute("INSERT INTO sample VALUES (?1, ?2, ?3, ?4, ?5)", row).map(drop)
    }

    /// Deletes every second one, and returns how many.
    pub(super) fn thin(connection: &Connection, run: i64) -> Result<usize, rusqlite::Error> {
        let sql = "DELETE FROM sample WHERE rowid IN (SELECT at FROM (SELECT rowid AS at, \
                   row_number() OVER (ORDER BY rowid) AS place FROM sample WHERE run = ?1) WHERE place % 2 = 0)";
        connection.execute(sql, [run])
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;
    use crate::report::Reason;

    #[test]
    fn a_cursor_of_another_version_is_refused_by_name() {
        let connection = Connection::open_in_memory().unwrap();
        schema::make_or_check(&connection).unwrap();
        for (stored, error) in [(&[1, 7, 7][..], None), (&[2, 7, 7], Some("its cursor has version 2"))] {
            Progress { cursor: StoredCursor::of_stored(stored), ..Progress::default() }.write(&connection, 1).unwrap();
            match (Progress::load(&connection, 1), error) {
                (Ok(Some(progress)), None) => assert_eq!(progress.cursor.unwrap().cursor().0[..], [7, 7]),
                (Err(refused), Some(why)) => {
                    let refused = refused.into_error(None);
                    assert_eq!(refused.kind(), crate::error::Kind::JournalMismatch);
                    assert!(refused.why().contains(why), "{refused}");
                }
                (loaded, _) => panic!("{loaded:?}"),
            }
        }
    }

    #[test]
    fn rows_of_format_6_are_written_as_ever() {
        let connection = Connection::open_in_memory().unwrap();
        schema::make_or_check(&connection).unwrap();
        let run = 5_388_948_107_101_688_015;
        let progress =
            Progress { mark: 1024, sessions: 1, completed: Some(1_795_575_809), seen: 24, ..Progress::default() };
        progress.write(&connection, run).unwrap();
        let skips = [(Reason::Link, 1), (Reason::Pipe, 1)].into_iter().collect();
        let key = Key(113_324_943_198_321_497_437_772_791_146_057_029_075);
        let entry = Entry { id: None, seq: 0, key, listed: 6, written: 4, skips, bytes: 6, seen: 24, names: u64::MAX };
        entry.write(&mut Entry::writer(&connection).unwrap(), run, 0).unwrap();
        let sum = |table| connection.query_row(&format!("SELECT sum FROM {table}"), [], |row| row.get::<_, i64>(0));
        assert_eq!([sum("progress"), sum("done")], [Ok(-9_107_270_947_052_691_514), Ok(5_036_894_035_515_783_537)]);
    }
}
