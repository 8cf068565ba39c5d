//! The lease of a run: until when its lanes may write, extended in time and held by the journal first.
//!
//! Every mark and every commit extends it. While neither comes (a slow barrier, one large object, nothing to do) a thread
//! of its own does, which never waits for the barrier. A lane past the lease waits. Not here: what intervals are for
//! (`session.rs`).

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::cancel::Cancel;
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::poison::ignore_poison;
use crate::session::{Lease, local_clock};
use crate::sink::Sink;

/// Longest time between two extensions: a lease lasts 5 s, and lanes stop 1 s before its end.
const EVERY: Duration = Duration::from_secs(2);

/// The journal of a run, and the lease it holds. The committer writes it, and the thread that extends the lease.
pub(crate) struct Keeper {
    journal: Mutex<Journal>,
    sink: Arc<dyn Sink>,
    lease: Arc<Lease>,
    /// When it was extended last.
    extended: Mutex<Instant>,
}

/// What the clocks showed before a transaction.
#[derive(Clone, Copy)]
struct Moment {
    clock: i64,
    local: i64,
}

impl Keeper {
    /// Takes over a journal in which a session has begun, and grants its first lease; `local`: this machine's clock before the
    /// destination's was read for it.
    pub fn new(journal: Journal, sink: Arc<dyn Sink>, lease: Arc<Lease>, began: Option<i64>, local: i64) -> Keeper {
        let keeper = Keeper { journal: Mutex::new(journal), sink, lease, extended: Mutex::new(Instant::now()) };
        match began {
            Some(clock) => keeper.grant(&keeper.journal(), Moment { clock, local }),
            None => keeper.lease.grant(0, i64::MAX, 0, 0),
        }
        keeper
    }

    /// The journal, to read it, or to write what needs no lease.
    pub fn journal(&self) -> MutexGuard<'_, Journal> {
        ignore_poison(self.journal.lock())
    }

    /// The destination's clock, where it has one.
    pub fn clock(&self) -> Result<Option<i64>> {
        self.sink.clock().map_err(Error::of_sink)
    }

    /// Runs a transaction, which extends the lease too.
    pub fn write<T>(&self, transaction: impl FnOnce(&mut Journal) -> Result<T>) -> Result<T> {
        let moment = self.moment()?;
        let mut journal = self.journal();
        if let Some(Moment { clock, .. }) = moment {
            journal.saw(clock);
        }
        let result = transaction(&mut journal)?;
        if let Some(moment) = moment {
            self.grant(&journal, moment);
        }
        Ok(result)
    }

    fn moment(&self) -> Result<Option<Moment>> {
        let local = local_clock();
        Ok(self.clock()?.map(|clock| Moment { clock, local }))
    }

    fn grant(&self, journal: &Journal, moment: Moment) {
        if let Some((low, high)) = journal.lease() {
            self.lease.grant(low, high, moment.clock, moment.local);
            *ignore_poison(self.extended.lock()) = Instant::now();
        }
    }

    /// Extends the lease until the run is over.
    pub fn extend(&self, cancel: &Cancel) {
        loop {
            let age = ignore_poison(self.extended.lock()).elapsed();
            if !self.lease.wait_until_wanted(EVERY.saturating_sub(age)) || cancel.is_raised() {
                return;
            }
            let age = ignore_poison(self.extended.lock()).elapsed();
            if age < EVERY && !self.lease.is_wanted() {
                continue; // a commit came first
            }
            let extended = match self.moment() {
                Ok(Some(moment)) => {
                    let mut journal = self.journal();
                    journal.renew(moment.clock).map(|()| self.grant(&journal, moment))
                }
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = extended {
                cancel.fail(error);
            }
        }
    }

    /// Nothing writes any more, or may.
    pub fn end(&self) {
        self.lease.end();
    }
}
