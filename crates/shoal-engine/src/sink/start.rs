//! What a run and a sink tell each other before the first write.

use std::sync::Arc;

use crate::options::Pass;
use crate::session::{Interval, Lease, Twice};
use crate::sink_state::StateRow;

/// Whether an earlier attempt may have left files of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The partition was never written before.
    First,
    /// An interrupted session may have written a part of it, which is replaced.
    Redo,
    /// This session already passed it to a process, which died while it worked on it (`generate`).
    Reissued,
}

/// What a run tells a sink before the first write. The default is a new run without a journal.
#[derive(Clone, Debug)]
pub struct Start {
    /// The number of this run among those of its journal. Numbers of partitions repeat in other runs.
    pub run: u64,
    /// The first partition that can be listed again: those before it are committed, and their pages are complete.
    pub frontier: u64,
    /// Objects of earlier sessions that are retried in this one. A page that changed can list them, too.
    pub deferred: u64,
    /// Which pass over the source this session belongs to.
    pub pass: Pass,
    /// The earlier sessions of this run.
    pub sessions: Vec<Interval>,
    /// How to treat an object whose name is that of a file of this run.
    pub twice: Twice,
    /// Files get the timestamps of their source.
    pub keep_times: bool,
    /// Until when the sink may write.
    pub lease: Arc<Lease>,
}

impl Default for Start {
    fn default() -> Start {
        let (sessions, twice) = (Vec::new(), Twice::default());
        Start {
            run: 0,
            frontier: 0,
            deferred: 0,
            pass: Pass::First,
            sessions,
            twice,
            keep_times: false,
            lease: Arc::new(Lease::unbounded()),
        }
    }
}

/// What a sink tells a run.
#[derive(Clone, Debug, Default)]
pub struct Started {
    /// The destination's clock now, in nanoseconds since 1970. The journal records when each session may have written.
    /// `None` if the destination has no clock: then the files of earlier sessions cannot be recognized.
    pub began: Option<i64>,
    /// Nothing is synced, so written files may be lost in a reboot, and no sync can fail.
    pub volatile: bool,
    /// What the sink really syncs, for the report.
    pub durability: String,
    /// How objects are published, for the report.
    pub publish: String,
    /// State that is committed next, then passed to `publish`.
    pub state: Vec<StateRow>,
    /// Notes for the report.
    pub notes: Vec<String>,
}
