//! Opening a journal: its lock and database, which run it is, and what of it still counts.
//!
//! The order: whether a file that the user names is a journal, lock, ballast, database, tables, run and whether it
//! starts over (`Resume::Restart`, another boot), rows one by one. A damaged row of a partition is deleted, and the
//! partition is done again. If damage hides what is done, the journal is rejected. Not here: the paths (`files.rs`),
//! the SQL of the tables (`schema.rs`).

use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, ffi};

use super::error::JournalError;
use super::files::Files;
use super::journal::Journal;
use super::options::{DESTINATION, LAYOUT, Location, OF_FILES, OpenOptions, RunKey};
use super::parts;
use super::rate::Rate;
use super::rows::{Entry, Fault, Header, Progress};
use super::schema::{self, Log};
use super::session::PARTS;
use super::skipped;
use super::standing::{Before, Standing};
use super::store::Store;
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::fs::lock::Lock;
use crate::fs::private::boot_id;
use crate::fs::root::are_different;
use crate::options::{Pass, Resume};
use crate::report::is_of_archives;

/// Creates the ballast and the database file, and connects for writing.
fn writer(files: &Files, options: &OpenOptions, notes: &mut Vec<String>) -> Result<Connection> {
    match files.make_ballast() {
        Ok(()) => {}
        // The journal itself may still fit. If a commit does not, it reports that.
        Err(error) if error.kind() == Kind::DestinationFull => {
            notes.push("the disk is full: cannot reserve space for the last commit".to_owned());
        }
        Err(error) => return Err(error),
    }
    files.make_database()?;
    let shared = files.dir().shares_memory() && !options.machine.shares_no_memory;
    if shared && let Some(connection) = attempt(files, Log::Ahead)? {
        return Ok(connection);
    }
    attempt(files, Log::Rollback)?
        .ok_or_else(|| files.explain(JournalError::damaged("SQLite refuses to write it under an exclusive lock"), None))
}

/// A connection for writing. `None`: this kind of log does not work here.
fn attempt(files: &Files, log: Log) -> Result<Option<Connection>> {
    let connection = files.connect(OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|error| files.explain(error, None))?;
    match schema::prepare_writing(&connection, log) {
        Ok(true) => Ok(Some(connection)),
        Ok(false) => Ok(None),
        Err(error) if log == Log::Ahead && lacks_shared_memory(&error) => Ok(None),
        Err(error) => Err(files.explain(error.into(), Some(&connection))),
    }
}

fn lacks_shared_memory(error: &rusqlite::Error) -> bool {
    const SHARED: [i32; 4] =
        [ffi::SQLITE_IOERR_SHMOPEN, ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_SHMLOCK, ffi::SQLITE_IOERR_SHMMAP];
    error.sqlite_error().is_some_and(|error| SHARED.contains(&error.extended_code))
        || error.sqlite_error_code() == Some(ErrorCode::FileLockingProtocolFailed)
}

impl Journal {
    /// Opens the journal of a run, or starts a run.
    ///
    /// # Errors
    /// [`Kind::JournalLocked`] while another process uses it, [`Kind::JournalMismatch`] for other options or another
    /// format, [`Kind::Journal`] with a hint if it cannot be read.
    pub fn open(location: &Location, key: &RunKey, options: &OpenOptions) -> Result<(Journal, Standing)> {
        let mut notes = Vec::new();
        // Before this part's own journal is opened.
        let passes = match (location, options.resume.pass()) {
            (Location::Part(directory, _), Some(_)) => parts::passes(directory).unwrap_or_default(),
            _ => (0, 0),
        };
        let files = Files::create(location)?;
        let (store, lock) = match &files {
            None => (Store::empty(), None),
            Some(files) => {
                if matches!(location, Location::File(_)) {
                    files.check_ours()?;
                }
                let lock = Lock::take(files.dir(), files.lock())?;
                if matches!(location, Location::Directory(_)) {
                    files.dir().keep_out_of_parts()?;
                }
                (Store::from(writer(files, options, &mut notes)?), Some(lock))
            }
        };
        let mut journal = Journal {
            store,
            _lock: lock,
            files,
            run: 0,
            destination: key.destination(),
            of_archives: is_of_archives(&key.source),
            progress: Progress::default(),
            window: BTreeMap::new(),
            before: Before::default(),
            failed: 0,
            deferred: 0,
            left_out: 0,
            current: Default::default(),
            handed: Default::default(),
            handed_before: 0,
            in_turn: None,
            rate: Rate::default(),
            boot: options.machine.boot_id.clone().or_else(boot_id),
            root: options.root,
            broken: false,
        };
        if journal.files.is_none() {
            return Ok((journal, Standing { notes, ..Standing::default() }));
        }
        journal.connection().and_then(schema::make_or_check).map_err(|error| journal.explain(error))?;
        journal.choose_run(key, options, passes, &mut notes)?;
        journal.load(&mut notes)?;
        journal.forget_tries_of_deferred()?;
        if options.resume == Resume::Failed {
            journal.retry_all_failed()?;
        }
        let sessions = journal.earlier(&mut notes).map_err(|error| journal.explain(error))?;
        if options.resume == Resume::Relist {
            journal.progress.completed = None; // stored when the session begins: a kill must not leave the run complete
        }
        let mut standing = Standing { sessions, ..journal.standing(notes) };
        if options.resume == Resume::Relist {
            standing.cursor = None;
        }
        Ok((journal, standing))
    }

    /// Finds the run of this source, or starts one.
    /// `passes`: the numbers of the oldest and the newest pass of the parts of the job.
    fn choose_run(
        &mut self,
        key: &RunKey,
        options: &OpenOptions,
        passes: (u64, u64),
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let Some(Known { mut header, has_begun, differences, other_secrets }) = self.find_run(key, options)? else {
            return self.begin_run(key);
        };
        self.run = header.id;
        self.progress = self.load_progress(header.id)?;
        let rebooted = self.is_rebooted();
        let unfinished = self.progress.completed.is_none();
        let window = self.scan().map_err(|error| self.explain(error))?.window;
        let listed = self.progress.listed > 0 || !window.is_empty();
        self.before = self.before(&window);
        let pass = options.pass(&self.progress);
        // Before the options change: after a kill in between, what was done with the old ones must not count.
        match pass {
            Some(pass) => drop(self.begin_pass(pass, passes)?),
            None if rebooted => drop(self.reset_listing()?),
            None if unfinished && listed && self.progress.pass == Pass::Update => notes.push(
                "an interrupted update continues; what it has compared is not compared again until the next \
                `resume=\"update\"`"
                    .to_owned(),
            ),
            None => {}
        }
        if rebooted {
            let note = "the machine was rebooted after a run that did not sync its files: everything is copied again";
            notes.push(note.to_owned());
        } else if pass.is_none()
            && (unfinished || options.resume == Resume::Relist)
            && self.has_other_root().map_err(|error| self.explain(error))?
        {
            let note = "the source is another directory than before, with the same path: to compare what was copied \
                        from the other one, use `resume=\"update\"`";
            notes.push(note.to_owned());
        }
        if !differences.is_empty() {
            if has_begun {
                notes.push(format!("options differ from those of earlier sessions: {differences}"));
            }
            header.options = key.options.clone();
        }
        if other_secrets {
            header.set_secrets(&key.secrets);
        }
        if other_secrets || !differences.is_empty() {
            self.write(|_, transaction| Ok(header.write(transaction)?))?;
        }
        Ok(())
    }

    /// What was met before this session; `window`: what is committed above the frontier.
    pub(super) fn before(&self, window: &BTreeMap<u64, Entry>) -> Before {
        let mut sums = self.progress.clone();
        window.values().for_each(|entry| sums.add(entry));
        let (earlier, admitted) = (sums.before_pass > 0, sums.listed > sums.skips.not_admitted());
        let has_matched = earlier || admitted;
        Before {
            had_objects: sums.listed > 0 || !window.is_empty() || earlier && sums.completed.is_none(),
            has_matched,
            is_blank: !has_matched && (sums.mark == 0 || sums.completed.is_some()),
            has_succeeded: earlier || sums.written > 0 || sums.skips.total() > sums.skips.not_admitted(),
        }
    }

    pub(super) fn load_progress(&self, run: i64) -> Result<Progress> {
        let progress =
            self.connection().and_then(|store| Progress::load(store, run)).map_err(|error| self.explain(error))?;
        progress.ok_or_else(|| self.explain(JournalError::damaged("the row with the run's progress is damaged")))
    }

    /// The run of this source, and of this destination if the journal is elsewhere. It must have been started with the same
    /// options, unless everything is listed again.
    pub(super) fn find_run(&self, key: &RunKey, options: &OpenOptions) -> Result<Option<Known>> {
        let headers = self.connection().and_then(Header::load_all).map_err(|error| self.explain(error))?;
        let destination = |options: &[(String, String)]| options.iter().find(|(name, _)| name == DESTINATION).cloned();
        let is_it =
            |header: &Header| header.source == key.source && destination(&header.options) == destination(&key.options);
        let Some(header) = headers.into_iter().find(is_it) else { return Ok(None) };
        refuse_directories(&header.options).map_err(|error| self.explain(error.into()))?;
        let differences = differences(&header.options, &key.options).join(", ");
        let has_begun =
            self.connection().and_then(|store| header.has_begun(store)).map_err(|error| self.explain(error))?;
        let lists_all = || self.load_progress(header.id).map(|progress| options.pass(&progress).is_some());
        let is_update = differ_in_files(&header.options, &key.options) && lists_all()?;
        let binds = has_begun && options.resume.pass().is_none() && !is_update;
        let refused = |why: String, hint| Err(self.explain(Error::new(Kind::JournalMismatch, why).hint(hint).into()));
        if !differences.is_empty() && binds {
            let why = format!("a run from this source was started with other options: {differences}");
            return refused(why, "use the same options, or `resume=\"update\"` to continue with the new ones");
        }
        let other_secrets = !header.has_secrets(&key.secrets);
        if other_secrets && binds && options.resume != Resume::Relist {
            let why = "a query parameter of the source has another value than when this run started";
            let hint =
                "use the same value, or `resume=\"relist\"` to list again with the new one and skip what is committed";
            return refused(why.to_owned(), hint);
        }
        Ok(Some(Known { header, has_begun, differences, other_secrets }))
    }

    fn begin_run(&mut self, key: &RunKey) -> Result<()> {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let header = Header::new(key, started);
        self.run = header.id;
        self.write(|journal, transaction| {
            header.write(transaction)?;
            Ok(journal.progress.write(transaction, journal.run)?)
        })?;
        // Copied into the database itself, so that a lost log can never make a journal look new.
        self.connection()
            .and_then(|store| Ok(store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?))
            .map_err(|error| self.explain(error))
    }

    /// Whether a reboot may have lost what is committed.
    pub(super) fn is_rebooted(&self) -> bool {
        match self.progress.boot.as_deref() {
            None => false,
            Some("") => true,
            Some(then) => self.boot.as_deref() != Some(then),
        }
    }

    /// Whether the last session of this pass copied from another directory.
    fn has_other_root(&self) -> std::result::Result<bool, JournalError> {
        let sql = "SELECT root FROM session WHERE run = ? AND id / ? > ? AND root IS NOT NULL ORDER BY id DESC LIMIT 1";
        let parameters = (self.run, PARTS, self.progress.before_pass as i64);
        let last: Option<[u8; 32]> = self.connection()?.query_row(sql, parameters, |row| row.get(0)).optional()?;
        Ok(last.zip(self.root).is_some_and(|(last, now)| are_different(&last, &now)))
    }

    /// Reads every row of the run, deletes what does not count, and checks that the counts balance.
    pub(super) fn load(&mut self, notes: &mut Vec<String>) -> Result<()> {
        let mut found = self.scan().map_err(|error| self.explain(error))?;
        let prefix = &self.progress;
        let expected =
            prefix.listed.checked_sub(prefix.written).and_then(|left| left.checked_sub(prefix.skips.total()));
        if expected != Some(found.prefix.total()) {
            let why = format!(
                "{} records of failed objects are damaged or missing, so the failed objects are not known",
                expected.unwrap_or(0).abs_diff(found.prefix.total())
            );
            let error = self.explain(JournalError::damaged(&why));
            return Err(error.hint("list everything again with `resume=\"restart\"`"));
        }
        let unbalanced: Vec<u64> = found
            .window
            .iter()
            .filter(|(seq, entry)| {
                let there = found.faults.get(seq).map_or(0, |tally| tally.total());
                entry.failures() != Some(there)
            })
            .map(|(seq, _)| *seq)
            .collect();
        for seq in &unbalanced {
            found.bad_done.extend(found.window.remove(seq).and_then(|entry| entry.id));
        }
        let orphans: Vec<u64> = found.faults.keys().copied().filter(|seq| !found.window.contains_key(seq)).collect();
        let damaged = found.damaged + unbalanced.len();
        if damaged > 0 {
            self.progress.completed = None; // in the same transaction: a kill must not leave the run complete
            notes.push(format!("{damaged} damaged rows of the journal were discarded; their objects are copied again"));
        }
        if !found.bad_done.is_empty() || !found.bad_faults.is_empty() || !orphans.is_empty() {
            self.write(|journal, transaction| {
                journal.discard(transaction, &found, &orphans)?;
                Ok(journal.progress.write(transaction, journal.run)?)
            })?;
        }
        for seq in &orphans {
            found.faults.remove(seq);
        }
        let tallies = || found.faults.values().chain([&found.prefix]);
        self.failed = tallies().map(|tally| tally.failed).sum();
        self.deferred = tallies().map(|tally| tally.deferred).sum();
        self.left_out =
            self.connection().and_then(|store| skipped::count(store, self.run)).map_err(|error| self.explain(error))?;
        self.window = found.window;
        self.rate = self
            .connection()
            .and_then(|store| Ok(Rate::load(store, self.run)?))
            .map_err(|error| self.explain(error))?;
        Ok(())
    }

    pub(super) fn scan(&self) -> Result<Found, JournalError> {
        let mut found = Found::default();
        let epoch = self.progress.epoch;
        let mut statement = self.connection()?.prepare(Entry::SELECT)?;
        let mut rows = statement.query([self.run])?;
        while let Some(row) = rows.next()? {
            match Entry::read(row, self.run, epoch) {
                Some(entry) if entry.seq >= self.progress.frontier && !found.window.contains_key(&entry.seq) => {
                    found.window.insert(entry.seq, entry);
                }
                Some(entry) => found.bad_done.extend(entry.id), // folded already
                None => {
                    found.damaged += 1;
                    found.bad_done.extend(row.get::<_, i64>(0));
                }
            }
        }
        // In the order of the table: through an index, every row would be a seek.
        let mut statement = self.connection()?.prepare("SELECT * FROM failure NOT INDEXED WHERE run = ?1")?;
        let mut rows = statement.query([self.run])?;
        while let Some(row) = rows.next()? {
            let Some((_, fault)) = Fault::read(row, self.run, epoch) else {
                found.damaged += 1;
                found.bad_faults.extend(row.get::<_, i64>(0));
                continue;
            };
            let tally = match fault.seq < self.progress.frontier {
                true => &mut found.prefix,
                false => found.faults.entry(fault.seq).or_default(),
            };
            match fault.due_ms {
                Some(_) => tally.deferred += 1,
                None => tally.failed += 1,
            }
        }
        Ok(found)
    }

    fn discard(&self, connection: &Connection, found: &Found, orphans: &[u64]) -> Result<(), JournalError> {
        for id in &found.bad_done {
            connection.execute("DELETE FROM done WHERE id = ?1", [id])?;
        }
        for id in &found.bad_faults {
            connection.execute("DELETE FROM failure WHERE id = ?1", [id])?;
        }
        for seq in orphans {
            connection.execute("DELETE FROM failure WHERE run = ?1 AND seq = ?2", [self.run, *seq as i64])?;
        }
        connection.execute(
            "DELETE FROM skipped WHERE run = ?1 AND seq >= ?2 AND seq NOT IN (SELECT seq FROM done WHERE run = ?1)",
            [self.run, self.progress.frontier as i64],
        )?;
        Ok(())
    }
}

/// A run in a journal.
pub(super) struct Known {
    pub header: Header,
    /// See [`Header::has_begun`].
    pub has_begun: bool,
    /// How its options differ from those given now.
    pub differences: String,
    pub other_secrets: bool,
}

/// What a scan found.
#[derive(Default)]
pub(super) struct Found {
    pub window: BTreeMap<u64, Entry>,
    /// Failures of partitions at or above the frontier, by `seq`: not more than a window.
    faults: HashMap<u64, Tally>,
    /// Failures below the frontier.
    prefix: Tally,
    damaged: usize,
    bad_done: Vec<i64>,
    bad_faults: Vec<i64>,
}

/// Failures by their fate.
#[derive(Clone, Copy, Default)]
struct Tally {
    failed: u64,
    deferred: u64,
}

impl Found {
    /// Objects that failed or are deferred.
    pub(super) fn failures(&self) -> u64 {
        self.faults.values().chain([&self.prefix]).map(Tally::total).sum()
    }
}

impl Tally {
    fn total(&self) -> u64 {
        self.failed + self.deferred
    }
}

/// Refuses a run that wrote a numbered directory for each partition, as earlier versions could.
pub(super) fn refuse_directories(options: &[(String, String)]) -> Result<()> {
    if options.iter().all(|(name, value)| name != LAYOUT || value != "partition") {
        return Ok(());
    }
    let why = "its run was started with layout \"partition\" (numbered directories), which shoal no longer has";
    let hint = "to pack objects into few files, use the destination \"parquet:DIR\"; to store each as a file, use another \
        directory";
    Err(Error::new(Kind::JournalMismatch, why).hint(hint))
}

/// Whether two sets of options differ in nothing but what belongs to files: an update compares that, too.
fn differ_in_files(old: &[(String, String)], new: &[(String, String)]) -> bool {
    let others = |options: &[(String, String)]| -> Vec<(String, String)> {
        options.iter().filter(|(name, _)| !OF_FILES.contains(&name.as_str())).cloned().collect()
    };
    differences(&others(old), &others(new)).is_empty()
}

/// How two sets of options differ, as `name: old -> new`.
pub(super) fn differences(old: &[(String, String)], new: &[(String, String)]) -> Vec<String> {
    fn value<'o>(options: &'o [(String, String)], name: &str) -> Option<&'o str> {
        options.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
    let shown = |value: Option<&str>| value.map_or("(not set)".to_owned(), |value| escape(value.as_bytes()));
    let added = new.iter().filter(|(name, _)| old.iter().all(|(other, _)| other != name));
    let mut texts = Vec::new();
    for (name, _) in old.iter().chain(added) {
        let (before, after) = (value(old, name), value(new, name));
        if before != after {
            let (before, after) = (shown(before), shown(after));
            let end = if before == after { " (they differ further on)" } else { "" };
            texts.push(format!("{}: {before} -> {after}{end}", escape(name.as_bytes())));
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_named() {
        let options = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        let old = options(&[("form", "file"), ("cut", "100"), ("include", "*.jpg")]);
        let new = options(&[("cut", "100"), ("form", "table"), ("exclude", "*.png")]);
        let expected = ["form: file -> table", "include: *.jpg -> (not set)", "exclude: (not set) -> *.png"];
        assert_eq!(differences(&old, &new), expected);
        assert!(differences(&old, &options(&[("include", "*.jpg"), ("cut", "100"), ("form", "file")])).is_empty());
    }
}
