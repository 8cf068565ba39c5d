//! What a journal says, for a run that only looks: read without a lock, and nothing is written.
//!
//! Not here: what a run that writes makes of it (`open.rs`), what a user is shown (`status.rs`).

use std::cell::OnceCell;

use super::files::Files;
use super::open::Known;
use super::rows::Progress;
use super::{Journal, MARK_ALL, OpenOptions, Place, RunKey, Standing, Store, status};
use crate::error::Result;
use crate::options::Resume;

impl Journal {
    /// As [`Journal::open`], for a run that writes nothing, this journal included: what is committed to it is in memory.
    /// Failures count as objects that failed; how many of them there are is the last value.
    ///
    /// # Errors
    /// As [`Journal::open`], but for locks.
    pub fn look(place: &Place, key: &RunKey, options: &OpenOptions) -> Result<(Journal, Standing, u64)> {
        let files = match place {
            Place::Memory => None,
            Place::Directory(path) | Place::File(path) => Files::find(path)?,
        };
        let Some(files) = files else {
            let (journal, standing) = Journal::open(&Place::Memory, key, options)?;
            return Ok((journal, standing, 0));
        };
        // Without a log no run is under way, and the journal is read without making files beside it.
        let alone = !files.has_log();
        let seen = Journal::look_through(&files, alone, key, options);
        match alone && files.has_log() {
            true => Journal::look_through(&files, false, key, options), // a run began meanwhile
            false => seen,
        }
    }

    fn look_through(
        files: &Files,
        alone: bool,
        key: &RunKey,
        options: &OpenOptions,
    ) -> Result<(Journal, Standing, u64)> {
        let (mut journal, standing) = Journal::open(&Place::Memory, key, options)?;
        let (connection, runs) = status::connect(files, alone).map_err(|trouble| trouble.explain(Some(files), None))?;
        if runs.is_empty() {
            return Ok((journal, standing, 0));
        }
        journal.store = Store::new(OnceCell::from(connection));
        let Some(Known { header, .. }) = journal.find_run(key, options)? else {
            journal.store = Store::new(OnceCell::new());
            return Ok((journal, standing, 0));
        };
        journal.run = header.id;
        journal.progress = journal.load_progress(header.id)?;
        let mut notes = Vec::new();
        let sessions = journal.earlier(&mut notes).map_err(|error| journal.explain(error.into()))?;
        let anew = options.resume.pass();
        let mut failures = 0;
        if anew.is_some() || journal.is_rebooted() {
            let pass = anew.unwrap_or(journal.progress.pass);
            let learnt = journal.progress.learnt;
            journal.progress = Progress { mark: MARK_ALL, pass, learnt, ..Progress::default() };
        } else {
            let found = journal.scan().map_err(|trouble| journal.explain(trouble))?;
            failures = found.failures();
            journal.window = found.window;
        }
        journal.failed = failures;
        journal.store = Store::new(OnceCell::new());
        let mut standing = Standing { sessions, ..journal.standing(notes) };
        if options.resume == Resume::Relist {
            (standing.cursor, standing.completed_at) = (None, None);
        }
        Ok((journal, standing, failures))
    }
}
