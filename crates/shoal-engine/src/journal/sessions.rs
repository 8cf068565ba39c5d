//! The sessions of a run: when each may have written, on the destination's clock.
//!
//! Every transaction extends the lease of the session that runs. Not here: what follows from intervals (`session.rs`), when
//! a lease is extended without a commit (`engine/lease.rs`).

use rusqlite::{Connection, Row, params};

use super::Journal;
use super::rows::{Sum, int, nullable, text};
use super::trouble::Trouble;
use crate::error::Result;
use crate::session::{Interval, LEASE};

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Normally, whether complete or interrupted.
    Sound,
    /// A sync failed: objects written since the last one may be lost.
    BarrierFailed,
}

/// Not ended, or cut off.
const RUNNING: i64 = 0;
const SOUND: i64 = 1;
const BARRIER_FAILED: i64 = 2;

/// Parts that a session may have, each with a row of its own.
const PARTS: i64 = 1 << 16;
/// What a thread had begun when the machine fell asleep is made within this time after it has woken up, before the clock
/// is read again.
const WOKEN: i64 = 2_000_000_000;

/// One session, as its row has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    id: i64,
    low: i64,
    seen: i64,
    high: i64,
    barrier: Option<i64>,
    /// Boot id of the machine; empty where unknown.
    boot: String,
    /// It has no barriers that could fail.
    volatile: bool,
    state: i64,
}

impl Session {
    const SELECT: &str =
        "SELECT id, low, seen, high, barrier, boot, volatile, state, sum FROM session WHERE run = ?1 ORDER BY id";

    pub(super) fn read(row: &Row<'_>, run: i64) -> Option<Session> {
        let session = Session {
            id: int(row, 0)?,
            low: int(row, 1)?,
            seen: int(row, 2)?,
            high: int(row, 3)?,
            barrier: nullable(row, 4, int)?,
            boot: text(row, 5)?.to_owned(),
            volatile: int(row, 6)? != 0,
            state: int(row, 7)?,
        };
        (session.sum(run) == int(row, 8)?).then_some(session)
    }

    fn write(&self, connection: &Connection, run: i64) -> Result<(), rusqlite::Error> {
        let sql = "INSERT OR REPLACE INTO session (id, run, low, seen, high, barrier, boot, volatile, state, sum) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        connection.execute(
            sql,
            params![
                self.id,
                run,
                self.low,
                self.seen,
                self.high,
                self.barrier,
                self.boot,
                self.volatile,
                self.state,
                self.sum(run),
            ],
        )?;
        Ok(())
    }

    fn sum(&self, run: i64) -> i64 {
        let sum = Sum::of("session").int(run).int(self.id).int(self.low).int(self.seen).int(self.high);
        let sum = sum.maybe(self.barrier, Sum::int).bytes(self.boot.as_bytes());
        sum.int(self.volatile.into()).int(self.state).end()
    }

    /// `before_pass`: sessions before the pass that the run is in.
    fn interval(&self, boot: Option<&str>, before_pass: u64) -> Interval {
        Interval {
            low: self.low,
            seen: self.seen,
            high: self.high,
            barrier: self.barrier,
            same_boot: !self.boot.is_empty() && boot == Some(self.boot.as_str()),
            sound: self.state == SOUND || self.volatile && self.state != BARRIER_FAILED,
            volatile: self.volatile,
            superseded: self.id / PARTS <= before_pass as i64,
        }
    }
}

/// The session that runs.
#[derive(Debug, Default)]
pub(super) struct Current {
    /// As the journal has it.
    stored: Option<Session>,
    /// As the next transaction will store it.
    next: Option<Session>,
    /// Parts of it that ended when the clock went far ahead, and leases that ended when it began, until they are stored.
    ended: Vec<Session>,
}

impl Current {
    pub(super) fn write(&self, connection: &Connection, run: i64) -> Result<(), rusqlite::Error> {
        for session in &self.ended {
            session.write(connection, run)?;
        }
        match &self.next {
            Some(session) if self.stored.as_ref() != Some(session) => session.write(connection, run),
            _ => Ok(()),
        }
    }

    pub(super) fn written(&mut self) {
        self.stored = self.next.clone();
        self.ended.clear();
    }
}

impl Journal {
    /// Begins a session. `clock` is that of the destination, if it has one; with `volatile`, it does not sync.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn begin_session(&mut self, clock: Option<i64>, volatile: bool) -> Result<()> {
        let mut next = self.progress.clone();
        next.sessions += 1;
        self.current.next = clock.map(|now| Session {
            id: next.sessions as i64 * PARTS, // in the order in which they began
            low: now,
            seen: now,
            high: now.saturating_add(LEASE),
            barrier: None,
            boot: self.boot.clone().unwrap_or_default(),
            volatile,
            state: RUNNING,
        });
        for session in self.open_leases(clock)? {
            self.current.ended.push(session);
        }
        self.put_progress(next)
    }

    /// Earlier sessions of this run with leases that reach beyond this moment. Nothing writes under them any more, so they end
    /// here: this session ends its own, and what another run makes after it is not this run's. Where the clock was set back,
    /// they stay: they began later.
    fn open_leases(&self, clock: Option<i64>) -> Result<Vec<Session>> {
        let (Some(now), Some(connection)) = (clock, self.made()) else { return Ok(Vec::new()) };
        let read = || -> Result<Vec<Session>, rusqlite::Error> {
            let mut statement = connection.prepare(Session::SELECT)?;
            let mut rows = statement.query([self.run])?;
            let mut open = Vec::new();
            while let Some(row) = rows.next()? {
                let session = Session::read(row, self.run).filter(|old| old.seen < now && old.high >= now);
                open.extend(session.map(|old| Session { high: now - 1, ..old }));
            }
            Ok(open)
        };
        read().map_err(|error| self.explain(Trouble::Sql(error)))
    }

    /// Notes the destination's clock: the next transaction extends the lease. If the lease had already ended (the clock
    /// went far ahead, or the machine slept), the session wrote nothing in between, and another part of it begins.
    /// Files that other programs created in between are not its own.
    pub fn saw(&mut self, clock: i64) {
        if let Some(session) = &mut self.current.next {
            if clock > session.high && session.id % PARTS < PARTS - 1 {
                let low = clock.saturating_sub(WOKEN).max(session.high + 1);
                let part =
                    Session { id: session.id + 1, low, seen: clock, high: clock, barrier: None, ..session.clone() };
                self.current.ended.push(std::mem::replace(session, part));
            }
            session.low = session.low.min(clock);
            session.seen = session.seen.max(clock);
            session.high = session.high.max(clock.saturating_add(LEASE));
        }
    }

    /// Notes the clock at which a durable sync began, for the next transaction.
    pub fn passed_barrier(&mut self, clock: i64) {
        if let Some(session) = &mut self.current.next {
            session.barrier = Some(clock);
        }
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
        let stored = match self.made().is_some() {
            true => self.current.stored.as_ref(),
            false => self.current.next.as_ref(), // a run that cannot be resumed needs no proof
        };
        stored.map(|session| (session.low, session.high))
    }

    /// Ends the session; nothing writes any more. `clock` is that of the destination, if it can still be read.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub fn end_session(&mut self, clock: Option<i64>, ending: Ending) -> Result<()> {
        if self.current.next.is_none() {
            return Ok(());
        }
        if let Some(now) = clock {
            self.saw(now);
        }
        let state = match ending {
            Ending::Sound => SOUND,
            Ending::BarrierFailed => BARRIER_FAILED,
        };
        let Current { next, ended, .. } = &mut self.current;
        for session in ended.iter_mut().chain(next) {
            session.state = state;
        }
        if let (Some(session), Some(_)) = (&mut self.current.next, clock) {
            session.high = session.seen;
        }
        self.put_progress(self.progress.clone())
    }

    /// The sessions that have ended. A damaged row is left out: the files of that session count as another program's.
    pub(super) fn earlier(&self, notes: &mut Vec<String>) -> Result<Vec<Interval>, rusqlite::Error> {
        let Some(connection) = self.made() else { return Ok(Vec::new()) };
        let mut statement = connection.prepare(Session::SELECT)?;
        let mut rows = statement.query([self.run])?;
        let (mut earlier, mut damaged) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            match Session::read(row, self.run) {
                Some(session) => earlier.push(session.interval(self.boot.as_deref(), self.progress.before_pass)),
                None => damaged += 1,
            }
        }
        if damaged > 0 {
            notes.push(format!(
                "{damaged} damaged rows of the journal describe earlier sessions: the files of these sessions count \
                as another program's"
            ));
        }
        Ok(earlier)
    }
}
