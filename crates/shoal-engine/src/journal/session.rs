//! The rows of sessions: when each may have written, on the destination's clock. `Current` is the session that runs.
//!
//! Not here: what follows from intervals (the crate's `session.rs`), when they are stored (`lease.rs`).

use rusqlite::Connection;

use super::columns::{Fields, Sum, fields, sealed};
use crate::session::{Interval, LEASE};

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Normally, whether complete or interrupted.
    Sound,
    /// A sync failed: objects written since the last one may be lost.
    BarrierFailed,
}

/// The state of a session that has not ended, or was killed.
const RUNNING: i64 = 0;
const SOUND: i64 = 1;
const BARRIER_FAILED: i64 = 2;
/// It was killed, and what it left undone was done before its pass was finished, without a failure.
const KILLED_AND_DONE: i64 = 3;

/// Parts that a session may have, each with a row of its own.
pub(super) const PARTS: i64 = 1 << 16;
/// In nanoseconds. A thread that had begun a file when the machine was suspended creates it within this time after the
/// machine has resumed, before the clock is read again.
const WOKEN: i64 = 2_000_000_000;

/// One session, as its row has it. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    /// `PARTS` times the number of the session, plus the number of the part.
    id: i64,
    low: i64,
    seen: i64,
    high: i64,
    barrier: Option<i64>,
    /// Boot id of the machine. Empty: not known.
    boot: String,
    /// It has no syncs that could fail.
    volatile: bool,
    state: i64,
    /// What identifies the root directory of the source, if it has one.
    root: Option<[u8; 32]>,
}

fields!(Session { id: 0 }: low, seen, high, barrier, boot, volatile, state, root);

impl Session {
    /// The sessions of a run in the order in which they began. A damaged row is `None`.
    pub(super) fn load(connection: &Connection, run: i64) -> Result<Vec<Option<Session>>, rusqlite::Error> {
        let mut statement = connection.prepare("SELECT * FROM session WHERE run = ?1 ORDER BY id")?;
        let sessions = statement.query_map([run], |row| {
            let Ok(id) = row.get(0) else { return Ok(None) };
            let session = Session::checked(row, 2, Sum::of("session", &[run, id]));
            Ok(session.map(|session| Session { id, ..session }))
        })?;
        sessions.collect()
    }

    fn write(&self, connection: &Connection, run: i64) -> Result<(), rusqlite::Error> {
        let row = sealed([Some(self.id), Some(run)], self.columns(), Sum::of("session", &[run, self.id]));
        let sql = "INSERT OR REPLACE INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        connection.execute(sql, row).map(drop)
    }

    /// Notes that what the killed sessions of a pass had left undone is done. `before_pass`: the sessions before it.
    pub(super) fn all_is_done(connection: &Connection, run: i64, before_pass: u64) -> Result<(), rusqlite::Error> {
        let of_pass = |one: &Session| one.state == RUNNING && one.id / PARTS > before_pass as i64;
        for session in Session::load(connection, run)?.into_iter().flatten().filter(of_pass) {
            Session { state: KILLED_AND_DONE, ..session }.write(connection, run)?;
        }
        Ok(())
    }

    /// `boot`: that of the machine now. `root`: that of the source now. `before_pass`: sessions before the pass that the
    /// run is in.
    pub(super) fn interval(&self, boot: Option<&str>, root: Option<[u8; 32]>, before_pass: u64) -> Interval {
        Interval {
            low: self.low,
            seen: self.seen,
            high: self.high,
            barrier: self.barrier,
            same_boot: !self.boot.is_empty() && boot == Some(self.boot.as_str()),
            sound: self.state == SOUND || self.volatile && self.state != BARRIER_FAILED,
            failed: self.state == BARRIER_FAILED,
            volatile: self.volatile,
            // Without barriers, a restart can tear what was whole.
            whole: matches!(self.state, SOUND | KILLED_AND_DONE)
                && (!self.volatile || !self.boot.is_empty() && boot == Some(self.boot.as_str())),
            superseded: self.id / PARTS <= before_pass as i64,
            same_root: self.root == root,
        }
    }

    /// This session with its lease ended before `now`, if it began earlier and its lease reaches further.
    pub(super) fn cut(self, now: i64) -> Option<Session> {
        (self.seen < now && self.high >= now).then(|| Session { high: now - 1, ..self })
    }
}

/// The session that runs.
#[derive(Debug, Default)]
pub(super) struct Current {
    /// As the journal has it.
    stored: Option<Session>,
    /// As the next transaction will store it.
    next: Option<Session>,
    /// Parts that ended when the clock went far ahead, and earlier sessions whose lease was cut, until they are stored.
    ended: Vec<Session>,
}

impl Current {
    /// `number`: how many sessions there are with this one. `cut`: earlier ones whose lease ends now.
    pub(super) fn begin(
        &mut self,
        number: u64,
        clock: Option<i64>,
        boot: Option<&str>,
        root: Option<[u8; 32]>,
        volatile: bool,
        cut: Vec<Session>,
    ) {
        self.next = clock.map(|now| Session {
            id: number as i64 * PARTS, // in the order in which they began
            low: now,
            seen: now,
            high: now.saturating_add(LEASE),
            barrier: None,
            boot: boot.unwrap_or_default().to_owned(),
            volatile,
            state: RUNNING,
            root,
        });
        self.ended.extend(cut);
    }

    pub(super) fn saw(&mut self, clock: i64) {
        let Some(session) = &mut self.next else { return };
        if clock > session.high && session.id % PARTS < PARTS - 1 {
            let low = clock.saturating_sub(WOKEN).max(session.high + 1);
            let part = Session { id: session.id + 1, low, seen: clock, high: clock, barrier: None, ..session.clone() };
            self.ended.push(std::mem::replace(session, part));
        }
        session.low = session.low.min(clock);
        session.seen = session.seen.max(clock);
        session.high = session.high.max(clock.saturating_add(LEASE));
    }

    pub(super) fn passed_barrier(&mut self, clock: i64) {
        if let Some(session) = &mut self.next {
            session.barrier = Some(clock);
        }
    }

    /// The lowest clock and the end of the lease, as in the journal or as it will be.
    pub(super) fn lease(&self, stored: bool) -> Option<(i64, i64)> {
        let session = if stored { &self.stored } else { &self.next };
        session.as_ref().map(|session| (session.low, session.high))
    }

    /// Whether there was a session to end. The lease ends now if the clock was read just before.
    pub(super) fn end(&mut self, ending: Ending, is_clock_read: bool) -> bool {
        let state = match ending {
            Ending::Sound => SOUND,
            Ending::BarrierFailed => BARRIER_FAILED,
        };
        let Some(session) = &mut self.next else { return false };
        self.ended.iter_mut().for_each(|part| part.state = state);
        session.state = state;
        if is_clock_read {
            session.high = session.seen;
        }
        true
    }

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
