//! The rows of the journal: how each is written, read and checked.
//!
//! A row that is not exactly what was written reads as `None`: its checksum covers the table, the run, the epoch (so that
//! nothing from before a reset counts after it) and every field. SQLite's own check misses flipped bits inside a row.

use std::collections::BTreeMap;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Statement, params};
use xxhash_rust::xxh3::Xxh3;

use super::Failed;
use crate::options::Pass;
use crate::partition::{Cursor, Key};
use crate::report::{Failure, Reason, Skips, archive_of};

/// A checksum under way. Lengths and kinds are hashed too, so that fields cannot run into each other.
pub(super) struct Sum(Xxh3);

impl Sum {
    pub(super) fn of(table: &str) -> Sum {
        Sum(Xxh3::new()).bytes(table.as_bytes())
    }
    pub(super) fn int(mut self, value: i64) -> Sum {
        self.0.update(b"i");
        self.0.update(&value.to_le_bytes());
        self
    }
    pub(super) fn uint(self, value: u64) -> Sum {
        self.int(value as i64)
    }
    pub(super) fn bytes(mut self, value: &[u8]) -> Sum {
        self.0.update(b"b");
        self.0.update(&(value.len() as u64).to_le_bytes());
        self.0.update(value);
        self
    }
    pub(super) fn maybe<T>(mut self, value: Option<T>, hash: impl FnOnce(Sum, T) -> Sum) -> Sum {
        match value {
            Some(value) => hash(self, value),
            None => {
                self.0.update(b"-");
                self
            }
        }
    }
    pub(super) fn end(self) -> i64 {
        self.0.digest() as i64
    }
}

pub(super) fn int(row: &Row<'_>, at: usize) -> Option<i64> {
    match row.get_ref(at) {
        Ok(ValueRef::Integer(value)) => Some(value),
        _ => None,
    }
}

/// Numbers are stored by their 64 bits: SQLite has no unsigned ones.
fn uint(row: &Row<'_>, at: usize) -> Option<u64> {
    int(row, at).map(|value| value as u64)
}

pub(super) fn bytes<'r>(row: &'r Row<'_>, at: usize) -> Option<&'r [u8]> {
    match row.get_ref(at) {
        Ok(ValueRef::Blob(value)) => Some(value),
        _ => None,
    }
}

pub(super) fn text<'r>(row: &'r Row<'_>, at: usize) -> Option<&'r str> {
    match row.get_ref(at) {
        Ok(ValueRef::Text(value)) => std::str::from_utf8(value).ok(),
        _ => None,
    }
}

fn key(row: &Row<'_>, at: usize) -> Option<Key> {
    let raw: [u8; 16] = bytes(row, at)?.try_into().ok()?;
    Some(Key(u128::from_be_bytes(raw)))
}

/// Counts by reason: `{"link":3}`.
fn counts(row: &Row<'_>, at: usize) -> Option<Skips> {
    let counts: BTreeMap<&str, u64> = serde_json::from_str(text(row, at)?).ok()?;
    counts.into_iter().map(|(name, count)| Some((Reason::named(name)?, count))).collect()
}

/// What [`counts`] reads.
fn counts_text(skips: &Skips) -> String {
    let each: Vec<String> = skips.iter().map(|(reason, count)| format!("\"{}\":{count}", reason.as_str())).collect();
    format!("{{{}}}", each.join(","))
}

/// `None` inside for NULL, `None` outside for what is neither NULL nor readable.
pub(super) fn nullable<'r, T>(
    row: &'r Row<'_>,
    at: usize,
    read: impl FnOnce(&'r Row<'_>, usize) -> Option<T>,
) -> Option<Option<T>> {
    match row.get_ref(at) {
        Ok(ValueRef::Null) => Some(None),
        Ok(_) => read(row, at).map(Some),
        Err(_) => None,
    }
}

/// A hash of values that bind a run but must not be read from its journal, such as tokens in addresses. Its key is random
/// and another one in each journal, so that hashes of two journals cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Secrets {
    pub salt: [u8; 16],
    pub hash: [u8; 32],
}

impl Secrets {
    pub(super) fn new(values: &[u8]) -> Secrets {
        let mut salt = [0; 16];
        fastrand::fill(&mut salt);
        Secrets { salt, hash: Secrets::hash(&salt, values) }
    }

    pub(super) fn are(&self, values: &[u8]) -> bool {
        self.hash == Secrets::hash(&self.salt, values)
    }

    fn hash(salt: &[u8; 16], values: &[u8]) -> [u8; 32] {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, salt);
        let mut hash = [0; 32];
        hash.copy_from_slice(ring::hmac::sign(&key, values).as_ref());
        hash
    }
}

/// What binds a run.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub id: i64,
    pub source: String,
    pub options: Vec<(String, String)>,
    /// Values that must not be stored, hashed with a key of this journal.
    pub secrets: Secrets,
    /// Unix seconds.
    pub started: u64,
}

impl Header {
    pub(super) const SELECT: &str =
        "SELECT id, source, options, salt, secrets, started, sum FROM run ORDER BY started, id";

    pub(super) fn read(row: &Row<'_>) -> Option<Header> {
        let options = text(row, 2)?;
        let header = Header {
            id: int(row, 0)?,
            source: text(row, 1)?.to_owned(),
            options: serde_json::from_str(options).ok()?,
            secrets: Secrets { salt: bytes(row, 3)?.try_into().ok()?, hash: bytes(row, 4)?.try_into().ok()? },
            started: uint(row, 5)?,
        };
        (header.sum(options) == int(row, 6)?).then_some(header)
    }

    pub(super) fn write(&self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let options = serde_json::to_string(&self.options)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        let sum = self.sum(&options);
        connection.execute(
            "INSERT OR REPLACE INTO run (id, source, options, salt, secrets, started, sum) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                self.id,
                self.source,
                options,
                &self.secrets.salt[..],
                &self.secrets.hash[..],
                self.started as i64,
                sum
            ],
        )?;
        Ok(())
    }

    fn sum(&self, options: &str) -> i64 {
        let sum = Sum::of("run").int(self.id).bytes(self.source.as_bytes());
        let sum = sum.bytes(options.as_bytes()).bytes(&self.secrets.salt).bytes(&self.secrets.hash);
        sum.uint(self.started).end()
    }
}

/// The committed prefix, and what else changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Raised by every reset.
    pub epoch: i64,
    pub frontier: u64,
    pub cursor: Option<Cursor>,
    pub chain: Key,
    /// The four counts are of partitions below the frontier.
    pub listed: u64,
    pub written: u64,
    pub skips: Skips,
    pub bytes: u64,
    pub mark: u64,
    pub sessions: u64,
    pub pass: Pass,
    /// Sessions before this pass.
    pub before_pass: u64,
    /// Unix seconds.
    pub completed: Option<u64>,
    /// Something is committed that only the page cache of this boot may hold.
    pub boot: Option<String>,
    /// Objects in flight that `workers="auto"` had found last.
    pub learnt: Option<u32>,
}

impl Progress {
    const FIELDS: &str = "run, epoch, frontier, cursor, chain, listed, written, skipped, bytes, mark, sessions, \
                          pass, before_pass, completed, boot, learnt, sum";

    /// The row of a run; `None` inside: it is missing or damaged.
    pub(super) fn load(connection: &Connection, run: i64) -> Result<Option<Progress>, rusqlite::Error> {
        let sql = format!("SELECT {} FROM progress WHERE run = ?1", Self::FIELDS);
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([run])?;
        Ok(rows.next()?.and_then(|row| Self::read(row, run)))
    }

    fn read(row: &Row<'_>, run: i64) -> Option<Progress> {
        let progress = Progress {
            epoch: int(row, 1)?,
            frontier: uint(row, 2)?,
            cursor: nullable(row, 3, bytes)?.map(|raw| Cursor(raw.into())),
            chain: key(row, 4)?,
            listed: uint(row, 5)?,
            written: uint(row, 6)?,
            skips: counts(row, 7)?,
            bytes: uint(row, 8)?,
            mark: uint(row, 9)?,
            sessions: uint(row, 10)?,
            pass: Pass::named(text(row, 11)?)?,
            before_pass: uint(row, 12)?,
            completed: nullable(row, 13, uint)?,
            boot: nullable(row, 14, text)?.map(str::to_owned),
            learnt: nullable(row, 15, |row, at| u32::try_from(int(row, at)?).ok())?,
        };
        (progress.sum(run) == int(row, 16)?).then_some(progress)
    }

    pub(super) fn write(&self, connection: &Connection, run: i64) -> Result<(), rusqlite::Error> {
        let sql = format!(
            "INSERT OR REPLACE INTO progress ({}) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
            Self::FIELDS
        );
        connection.execute(
            &sql,
            params![
                run,
                self.epoch,
                self.frontier as i64,
                self.cursor.as_ref().map(|cursor| &cursor.0[..]),
                &self.chain.0.to_be_bytes()[..],
                self.listed as i64,
                self.written as i64,
                counts_text(&self.skips),
                self.bytes as i64,
                self.mark as i64,
                self.sessions as i64,
                self.pass.as_str(),
                self.before_pass as i64,
                self.completed.map(|at| at as i64),
                self.boot,
                self.learnt,
                self.sum(run),
            ],
        )?;
        Ok(())
    }

    fn sum(&self, run: i64) -> i64 {
        let sum = Sum::of("progress").int(run).int(self.epoch).uint(self.frontier);
        let sum = sum.maybe(self.cursor.as_ref(), |sum, cursor| sum.bytes(&cursor.0));
        let sum = sum.bytes(&self.chain.0.to_be_bytes()).uint(self.listed).uint(self.written);
        let sum = sum.bytes(counts_text(&self.skips).as_bytes()).uint(self.bytes).uint(self.mark).uint(self.sessions);
        let sum = sum.bytes(self.pass.as_str().as_bytes()).uint(self.before_pass);
        let sum = sum.maybe(self.completed, Sum::uint);
        let sum = sum.maybe(self.boot.as_ref(), |sum, boot| sum.bytes(boot.as_bytes()));
        sum.maybe(self.learnt.map(u64::from), Sum::uint).end()
    }
}

/// A committed partition at or above the frontier.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its row, once it has one.
    pub id: Option<i64>,
    pub key: Key,
    pub listed: u64,
    pub written: u64,
    pub skips: Skips,
    pub bytes: u64,
}

impl Entry {
    pub(super) const SELECT: &str =
        "SELECT id, seq, key, listed, written, skipped, bytes, sum FROM done WHERE run = ?1";
    const WRITE: &str = "INSERT OR REPLACE INTO done (id, run, seq, key, listed, written, skipped, bytes, sum) \
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

    pub(super) fn read(row: &Row<'_>, run: i64, epoch: i64) -> Option<(u64, Entry)> {
        let seq = uint(row, 1)?;
        let entry = Entry {
            id: Some(int(row, 0)?),
            key: key(row, 2)?,
            listed: uint(row, 3)?,
            written: uint(row, 4)?,
            skips: counts(row, 5)?,
            bytes: uint(row, 6)?,
        };
        (entry.sum(run, epoch, seq) == int(row, 7)?).then_some((seq, entry))
    }

    pub(super) fn writer(connection: &Connection) -> Result<Statement<'_>, rusqlite::Error> {
        connection.prepare(Self::WRITE)
    }

    /// Writes the row and returns its id. `writer` is a [`Entry::writer`].
    pub(super) fn write(
        &self,
        writer: &mut Statement<'_>,
        run: i64,
        epoch: i64,
        seq: u64,
    ) -> Result<i64, rusqlite::Error> {
        writer.insert(params![
            self.id,
            run,
            seq as i64,
            &self.key.0.to_be_bytes()[..],
            self.listed as i64,
            self.written as i64,
            counts_text(&self.skips),
            self.bytes as i64,
            self.sum(run, epoch, seq),
        ])
    }

    /// Objects in it that are neither written nor skipped; `None`: the counts are impossible.
    pub(super) fn failures(&self) -> Option<u64> {
        self.listed.checked_sub(self.written)?.checked_sub(self.skips.total())
    }

    fn sum(&self, run: i64, epoch: i64, seq: u64) -> i64 {
        let sum = Sum::of("done").int(run).int(epoch).uint(seq).bytes(&self.key.0.to_be_bytes());
        let sum = sum.uint(self.listed).uint(self.written).bytes(counts_text(&self.skips).as_bytes());
        sum.uint(self.bytes).end()
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

impl<'a> Fault<'a> {
    /// The columns that [`Fault::read`] expects, its row's id first.
    pub(super) const FIELDS: &'static str = "id, seq, locator, name, kind, reason, tries, tried_ms, due_ms, sum";
    const WRITE: &'static str = "INSERT OR REPLACE INTO failure \
                         (id, run, seq, locator, name, kind, reason, tries, tried_ms, due_ms, sum) \
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

    pub(super) fn of(seq: u64, failed: &'a Failed) -> Fault<'a> {
        Fault {
            seq,
            locator: &failed.locator,
            name: &failed.name,
            kind: failed.kind,
            reason: &failed.reason,
            tries: failed.tries,
            tried_ms: failed.tried_ms,
            // Times are compared by SQLite, whose numbers are signed; 2^63 ms is 292 million years.
            due_ms: failed.due_ms.map(|due| due.min(i64::MAX as u64)),
        }
    }

    pub(super) fn read(row: &'a Row<'_>, run: i64, epoch: i64) -> Option<(i64, Fault<'a>)> {
        let fault = Fault {
            seq: uint(row, 1)?,
            locator: bytes(row, 2)?,
            name: bytes(row, 3)?,
            kind: text(row, 4)?,
            reason: text(row, 5)?,
            tries: u32::try_from(int(row, 6)?).ok()?,
            tried_ms: uint(row, 7)?,
            due_ms: nullable(row, 8, uint)?,
        };
        (fault.sum(run, epoch) == int(row, 9)?).then_some((int(row, 0)?, fault))
    }

    pub(super) fn writer(connection: &Connection) -> Result<Statement<'_>, rusqlite::Error> {
        connection.prepare(Self::WRITE)
    }

    /// Writes the row, in place of the one with `id` if given. `writer` is a [`Fault::writer`].
    pub(super) fn write(
        &self,
        writer: &mut Statement<'_>,
        run: i64,
        epoch: i64,
        id: Option<i64>,
    ) -> Result<(), rusqlite::Error> {
        writer.execute(params![
            id,
            run,
            self.seq as i64,
            self.locator,
            self.name,
            self.kind,
            self.reason,
            self.tries,
            self.tried_ms as i64,
            self.due_ms.map(|due| due as i64),
            self.sum(run, epoch),
        ])?;
        Ok(())
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

    fn sum(&self, run: i64, epoch: i64) -> i64 {
        let sum = Sum::of("failure").int(run).int(epoch).uint(self.seq).bytes(self.locator);
        let sum = sum.bytes(self.name).bytes(self.kind.as_bytes()).bytes(self.reason.as_bytes());
        let sum = sum.int(self.tries.into()).uint(self.tried_ms);
        sum.maybe(self.due_ms, Sum::uint).end()
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

impl Sample {
    /// Every second row goes.
    pub(super) const THIN: &str = "DELETE FROM sample WHERE rowid IN (SELECT at FROM (SELECT rowid AS at, \
                                   row_number() OVER (ORDER BY rowid) AS place FROM sample WHERE run = ?1) \
                                   WHERE place % 2 = 0)";
    pub(super) const SELECT: &str = "SELECT at_ms, objects, bytes, sum FROM sample WHERE run = ?1 ORDER BY rowid";

    pub(super) fn read(row: &Row<'_>, run: i64) -> Option<Sample> {
        let sample = Sample { at_ms: uint(row, 0)?, objects: uint(row, 1)?, bytes: uint(row, 2)? };
        (sample.sum(run) == int(row, 3)?).then_some(sample)
    }

    pub(super) fn write(&self, connection: &Connection, run: i64) -> Result<(), rusqlite::Error> {
        connection.execute(
            "INSERT INTO sample (run, at_ms, objects, bytes, sum) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![run, self.at_ms as i64, self.objects as i64, self.bytes as i64, self.sum(run)],
        )?;
        Ok(())
    }

    fn sum(&self, run: i64) -> i64 {
        Sum::of("sample").int(run).uint(self.at_ms).uint(self.objects).uint(self.bytes).end()
    }
}
