//! `status`: reads a journal from outside, even while a run is active. It takes no lock and changes nothing.
//!
//! Not here: how a user sees it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::error::JournalError;
use super::failures::{Failures, Fate};
use super::files::Files;
use super::rows::{Entry, Header, Progress, Sample};
use super::{schema, skipped};
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::fs::lock::Owner;
use crate::options::Pass;
use crate::part::Seen;
use crate::report::{Counts, Skipped, Skips, is_of_archives};

/// The contents of a journal.
pub struct Status {
    /// The process that uses it now.
    pub owner: Option<Owner>,
    /// Its runs that have listed something, the oldest first.
    pub runs: Vec<RunStatus>,
    pub(super) connection: Connection,
}

/// One run in a journal.
#[derive(Clone, Debug)]
pub struct RunStatus {
    /// `Source::identity`.
    pub source: String,
    /// Options that change the result.
    pub options: Vec<(String, String)>,
    /// Unix seconds of the first session.
    pub started: u64,
    /// How often it was started or resumed.
    pub sessions: u64,
    /// Unix seconds at which it was complete, if it is: not while failed objects are to be retried.
    pub completed_at: Option<u64>,
    /// Which pass over the source the listing belongs to.
    pub pass: Pass,
    /// How often everything was listed anew on request.
    pub passes: u64,
    /// Of a part: what of the whole listing is committed.
    pub seen: Seen,
    /// The committed counts; `unfinished` counts the deferred objects.
    pub totals: Counts,
    /// Committed counts of skipped and kept objects, by reason.
    pub skips: Skips,
    /// Objects that wait for a later retry.
    pub deferred: u64,
    /// A reboot can lose committed objects; they are copied again after one.
    pub until_reboot: bool,
    /// Objects and bytes over time, at most about 1,000 samples.
    pub samples: Vec<Sample>,
    id: i64,
    epoch: i64,
}

/// Reads the journal of a destination, or a journal file.
///
/// # Errors
/// [`Kind::Config`] if there is no journal; [`Kind::JournalLocked`] if the file system lets only the run itself read
/// it; else as [`super::Journal::open`].
pub fn status(path: &Path) -> Result<Status> {
    let Some(files) = Files::find(path)? else {
        return Err(Error::new(Kind::Config, "there is no journal here")
            .errno(Some(rustix::io::Errno::NOENT.raw_os_error()))
            .on(&escape(path.as_os_str().as_bytes()))
            .hint("name the destination of a run, or the file given with `journal`"));
    };
    read(files)
}

/// Reads the journal in these files.
pub(super) fn read(files: Files) -> Result<Status> {
    let owner = files.holder()?;
    let (connection, runs) = match connect(&files, false) {
        Ok(seen) => seen,
        Err(JournalError::Sql(error)) if is_busy(&error) && owner.is_some() => {
            let pid = owner.map_or(0, |owner| owner.pid);
            let why = format!("pid {pid} uses the journal, which only one process can read on this file system");
            return Err(Error::new(Kind::JournalLocked, why).on(&files.shown()).hint("try again when it has ended"));
        }
        Err(error) => return Err(files.explain(error, None)),
    };
    Ok(Status { owner, runs, connection })
}

impl Status {
    /// Returns at most `limit` failed objects of a run, in the order in which they failed.
    pub fn failures(&self, run: &RunStatus, fate: Fate, limit: usize) -> Failures<'_> {
        Failures::new(Some(&self.connection), (run.id, run.epoch), is_of_archives(&run.source), fate, limit)
    }

    /// Returns at most `limit` objects of a run that were skipped, although no option excluded them. The journal has at
    /// most [`super::NAMES_MAX`] names.
    ///
    /// # Errors
    /// [`Kind::Journal`] if they cannot be read.
    pub fn skipped(&self, run: &RunStatus, limit: usize) -> Result<Vec<Skipped>> {
        skipped::read(&self.connection, run.id, run.epoch, limit)
            .map_err(|error| error.into_error(Some(&self.connection)))
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// A connection for reading, and the runs in the journal. In a directory that cannot be written to, SQLite can read a
/// database of this kind only if it is told that the file does not change. That is so if there is neither a log nor a run
/// (`alone`).
pub(super) fn connect(files: &Files, alone: bool) -> Result<(Connection, Vec<RunStatus>), JournalError> {
    let look_through = |flags| {
        let connection = files.connect(OpenFlags::SQLITE_OPEN_READ_ONLY | flags)?;
        let runs = look(&connection)?;
        Ok((connection, runs))
    };
    if alone {
        return look_through(OpenFlags::SQLITE_OPEN_URI);
    }
    match look_through(OpenFlags::empty()) {
        Err(JournalError::Sql(error))
            if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) && !files.has_log() =>
        {
            look_through(OpenFlags::SQLITE_OPEN_URI)
        }
        seen => seen,
    }
}

fn look(connection: &Connection) -> Result<Vec<RunStatus>, JournalError> {
    // One transaction, so that all rows are of the same moment. It writes nothing.
    let moment = rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?;
    if schema::is_empty(&moment)? {
        return Ok(Vec::new()); // a run has just created it
    }
    schema::check(&moment)?;
    let runs = Header::load_all(&moment)?.into_iter().map(|header| look_at(&moment, header));
    runs.filter_map(Result::transpose).collect()
}

/// Nothing for an attempt that has listed nothing: nothing of it is left to do.
fn look_at(connection: &Connection, header: Header) -> Result<Option<RunStatus>, JournalError> {
    if !header.has_begun(connection)? {
        return Ok(None);
    }
    let progress = Progress::load(connection, header.id)?
        .ok_or_else(|| JournalError::damaged("the row with the run's progress is damaged"))?;
    let (failed, deferred) = connection.query_row(
        "SELECT count(*) - count(due_ms), count(due_ms) FROM failure WHERE run = ?1",
        [header.id],
        |row| Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64)),
    )?;
    let mut sums = progress.clone();
    let mut statement = connection.prepare(Entry::SELECT)?;
    let mut rows = statement.query([header.id])?;
    while let Some(row) = rows.next()? {
        match Entry::read(row, header.id, progress.epoch) {
            Some(entry) if entry.seq < progress.frontier => {}
            Some(entry) => sums.add(&entry),
            None => sums.completed = None, // damaged: its objects will be copied again
        }
    }
    let samples = Sample::load(connection, header.id)?.into_iter().flatten().collect();
    Ok(Some(RunStatus {
        source: header.source,
        options: header.options,
        started: header.started,
        sessions: progress.sessions,
        completed_at: sums.completed.filter(|_| deferred == 0),
        pass: progress.pass,
        passes: progress.passes,
        seen: sums.seen(),
        totals: sums.counts(failed, deferred),
        skips: sums.skips,
        deferred,
        until_reboot: progress.boot.is_some(),
        samples,
        id: header.id,
        epoch: progress.epoch,
    }))
}
