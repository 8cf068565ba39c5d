//! What a run records of its sessions. Every transaction extends the lease of the one that runs.
//!
//! Not here: the rows (`session.rs`), when a lease is extended without a commit (`engine/lease.rs`).

use super::error::JournalError;
use super::journal::Journal;
use super::session::{Ending, Session};
use crate::error::Result;
use crate::session::Interval;

impl Journal {
    /// Begins a session. `clock` is that of the destination, if it has one; with `volatile`, it does not sync.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn begin_session(&mut self, clock: Option<i64>, volatile: bool) -> Result<()> {
        let mut next = self.progress.clone();
        next.sessions += 1;
        let cut = clock.map_or(Ok(Vec::new()), |now| self.open_leases(now)).map_err(|error| self.explain(error))?;
        self.current.begin(next.sessions, clock, self.boot.as_deref(), self.root, volatile, cut);
        self.put_progress(next)
    }

    /// Earlier sessions of this run whose leases reach beyond `now`, cut there. Nothing writes under them any more: this
    /// session ends its own, and what another run creates after it is not this run's. If the clock was set back, they
    /// stay, because they began later.
    fn open_leases(&self, now: i64) -> Result<Vec<Session>, JournalError> {
        let Some(connection) = self.made() else { return Ok(Vec::new()) };
        let sessions = Session::load(connection, self.run)?;
        Ok(sessions.into_iter().flatten().filter_map(|session| session.cut(now)).collect())
    }

    /// Notes the destination's clock: the next transaction extends the lease. If the lease had already ended (the clock
    /// went far ahead, or the machine slept), the session wrote nothing in between, and another part of it begins.
    /// Files that other programs created in between are not its own.
    pub fn saw(&mut self, clock: i64) {
        self.current.saw(clock);
    }

    /// Notes the clock at which a durable sync began, for the next transaction.
    pub fn passed_barrier(&mut self, clock: i64) {
        self.current.passed_barrier(clock);
    }

    /// Extends the lease in a separate transaction.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn renew(&mut self, clock: i64) -> Result<()> {
        self.saw(clock);
        self.put_progress(self.progress.clone())
    }

    /// Returns the lowest clock and the end of the lease, as in the journal.
    pub fn lease(&self) -> Option<(i64, i64)> {
        self.current.lease(self.made().is_some()) // a run that cannot be resumed needs no proof
    }

    /// Ends the session; nothing writes any more. `clock` is that of the destination, if it can still be read.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn end_session(&mut self, clock: Option<i64>, ending: Ending) -> Result<()> {
        if let Some(now) = clock {
            self.saw(now);
        }
        if self.current.end(ending, clock.is_some()) { self.put_progress(self.progress.clone()) } else { Ok(()) }
    }

    /// The sessions that have ended. A damaged row is left out: the files of that session count as another program's.
    pub(super) fn earlier(&self, notes: &mut Vec<String>) -> Result<Vec<Interval>, JournalError> {
        let Some(connection) = self.made() else { return Ok(Vec::new()) };
        let sessions = Session::load(connection, self.run)?;
        let damaged = sessions.iter().filter(|session| session.is_none()).count();
        if damaged > 0 {
            notes.push(format!(
                "{damaged} damaged rows of the journal describe earlier sessions: the files of these sessions count \
                as another program's"
            ));
        }
        let interval = |session: Session| session.interval(self.boot.as_deref(), self.root, self.progress.before_pass);
        Ok(sessions.into_iter().flatten().map(interval).collect())
    }
}
