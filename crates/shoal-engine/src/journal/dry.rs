//! Reading a journal for a dry run, without a lock and without writing.
//!
//! Not here: opening it for a run that writes (`open.rs`), what `shoal status` reads (`status.rs`).

use super::files::Files;
use super::journal::Journal;
use super::open::Known;
use super::options::{Location, OpenOptions, RunKey};
use super::rows::Progress;
use super::standing::{MARK_ALL, Standing};
use super::status;
use super::store::Store;
use crate::error::Result;
use crate::options::Resume;

impl Journal {
    /// As [`Journal::open`], for a run that writes nothing, not even this journal: what is committed stays in memory.
    /// Failures count as objects that failed. The last value is their number.
    ///
    /// # Errors
    /// As [`Journal::open`], except for locks.
    pub fn look(location: &Location, key: &RunKey, options: &OpenOptions) -> Result<(Journal, Standing, u64)> {
        let files = match location {
            Location::Memory => None,
            Location::Directory(path) | Location::File(path) => Files::find(path)?,
            Location::Part(path, part) => Files::find_part(path, part.index())?,
        };
        let Some(files) = files else {
            let (journal, standing) = Journal::open(&Location::Memory, key, options)?;
            return Ok((journal, standing, 0));
        };
        // Without a log no run is active, and reading the journal creates no files beside it.
        let alone = !files.has_log();
        let seen = Journal::look_through(&files, alone, key, options);
        match alone && files.has_log() {
            true => Journal::look_through(&files, false, key, options), // a run has begun since
            false => seen,
        }
    }

    fn look_through(
        files: &Files,
        alone: bool,
        key: &RunKey,
        options: &OpenOptions,
    ) -> Result<(Journal, Standing, u64)> {
        let (mut journal, standing) = Journal::open(&Location::Memory, key, options)?;
        let (connection, runs) = status::connect(files, alone).map_err(|error| files.explain(error, None))?;
        if runs.is_empty() {
            return Ok((journal, standing, 0));
        }
        journal.store = Store::from(connection);
        let Some(Known { header, .. }) = journal.find_run(key, options)? else {
            journal.store = Store::empty();
            return Ok((journal, standing, 0));
        };
        journal.run = header.id;
        journal.progress = journal.load_progress(header.id)?;
        let found = journal.scan().map_err(|error| journal.explain(error))?;
        journal.before = journal.before(&found.window);
        let mut notes = Vec::new();
        let sessions = journal.earlier(&mut notes).map_err(|error| journal.explain(error))?;
        let anew = options.pass(&journal.progress);
        let mut failures = 0;
        if anew.is_some() || journal.is_rebooted() {
            let pass = anew.unwrap_or(journal.progress.pass);
            let learnt = journal.progress.learnt;
            journal.progress = Progress { mark: MARK_ALL, pass, learnt, ..Progress::default() };
        } else {
            failures = found.failures();
            journal.window = found.window;
        }
        journal.failed = failures;
        journal.store = Store::empty();
        let mut standing = Standing { sessions, ..journal.standing(notes) };
        if options.resume == Resume::Relist {
            (standing.cursor, standing.completed_at) = (None, None);
        }
        Ok((journal, standing, failures))
    }
}
