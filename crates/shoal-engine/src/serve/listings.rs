//! The snapshots of one service that are kept, and which of them a request can share.
//!
//! Not here: when the directory is read (`walks.rs`, which has the rules).

use super::dir::Refusal;
use super::marker::Identity;
use super::options::Options;
use super::snapshot::{Skipped, Snapshot};
use super::wire::Wire;
use crate::poison::ignore_poison;
use hyper::StatusCode;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Bytes of names kept in memory for all snapshots together; the least recently used go first.
const KEEP_BYTES: usize = 256 * 1024 * 1024;
/// How long a snapshot can be shared after its walk, where the walk itself did not take longer; and the time of a walk
/// from which on it is worth sharing although it was given to the clients that it was for.
const SHARE: Duration = Duration::from_secs(5);
/// Markers of earlier services that are remembered with the snapshots that go on for them.
const RESUMED_MAX: usize = 1024;

pub(super) const WALK_FAILED: Refusal = (
    StatusCode::INTERNAL_SERVER_ERROR,
    "the directory cannot be listed; see the server's disk and the free space for temporary files",
);

/// The number of a snapshot and the snapshot, or why there is none.
pub(super) type Found = Result<(u64, Arc<Snapshot>), Refusal>;

/// The snapshots of one service.
#[derive(Debug)]
pub(super) struct Listings {
    pub(super) instance: u64,
    kept: Mutex<Kept>,
    /// One walk at a time: a second one would only fight the first for the disk.
    pub(super) walking: Arc<Semaphore>,
}

#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The number of the next walk, and of its snapshot.
    pub(super) next: u64,
    /// Least recently used first. The newest is always among them.
    snapshots: Vec<(u64, Arc<Snapshot>)>,
    /// Which snapshot here goes on for which one of an earlier service, so that many markers of one listing that was
    /// cut by a restart share one walk.
    resumed: Vec<(Identity, u64)>,
    /// Requests that wait for a walk: the number that the next walk had when each came, and its connection.
    pub(super) waiting: Vec<(u64, Arc<Wire>)>,
    pub(super) ended: Option<Ended>,
    skipped: Skipped,
    walks: u64,
}

/// The latest walk that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) number: u64,
    pub(super) at: Instant,
    pub(super) took: Duration,
    pub(super) whole: bool,
    /// A client that waited when it began was still there at its end.
    pub(super) awaited: bool,
}

impl Listings {
    pub(super) fn new() -> Self {
        Self { instance: fastrand::u64(..), kept: Mutex::default(), walking: Arc::new(Semaphore::new(1)) }
    }

    /// How many walks have ended well, and what the latest left out.
    pub(super) fn walked(&self) -> (u64, Skipped) {
        let kept = self.lock();
        (kept.walks, kept.skipped)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Kept> {
        ignore_poison(self.kept.lock())
    }
}

impl Kept {
    /// A snapshot by its number; it counts as used.
    pub(super) fn used(&mut self, number: u64) -> Option<Arc<Snapshot>> {
        let at = self.snapshots.iter().position(|(one, _)| *one == number)?;
        let used = self.snapshots.remove(at);
        let snapshot = Arc::clone(&used.1);
        self.snapshots.push(used);
        Some(snapshot)
    }

    pub(super) fn newest(&mut self) -> Option<(u64, Arc<Snapshot>)> {
        let number = self.snapshots.iter().map(|(number, _)| *number).max()?;
        self.used(number).map(|snapshot| (number, snapshot))
    }

    /// The snapshot that goes on for one of an earlier service.
    pub(super) fn resumed(&mut self, identity: Identity) -> Option<(u64, Arc<Snapshot>)> {
        let number = self.resumed.iter().find(|(from, _)| *from == identity)?.1;
        self.used(number).map(|snapshot| (number, snapshot))
    }

    pub(super) fn resume(&mut self, identity: Identity, number: u64) {
        if self.resumed.iter().all(|(from, _)| *from != identity) {
            self.resumed.truncate(RESUMED_MAX - 1);
            self.resumed.insert(0, (identity, number));
        }
    }

    /// What a request that came at `since`, before the walk `next`, can take from the latest walk; `None` if it must wait
    /// for another.
    pub(super) fn share(&mut self, since: Instant, next: u64, may_be_older: bool) -> Option<Found> {
        let ended = self.ended?;
        let began_later = ended.number >= next;
        let lasting = since < ended.at + SHARE.max(ended.took);
        let older = may_be_older && ended.whole && lasting && (ended.took > SHARE || !ended.awaited);
        match ended.whole {
            _ if !began_later && !older => None,
            false => Some(Err(WALK_FAILED)),
            true => self.used(ended.number).map(|snapshot| Ok((ended.number, snapshot))),
        }
    }

    pub(super) fn keep(&mut self, options: &Options, number: u64, snapshot: Snapshot) {
        self.walks += 1;
        self.skipped = snapshot.skipped;
        let files_most = options.snapshot_file_bytes.max(snapshot.file().saturating_mul(2));
        self.snapshots.push((number, Arc::new(snapshot)));
        let most = options.snapshots_kept.max(1);
        let memory = |kept: &Self| kept.snapshots.iter().map(|(_, one)| one.memory()).sum::<usize>();
        let files = |kept: &Self| kept.snapshots.iter().map(|(_, one)| one.file()).sum::<u64>();
        while self.snapshots.len() > most
            || (self.snapshots.len() > 1 && (memory(self) > KEEP_BYTES || files(self) > files_most))
        {
            let (dropped, _) = self.snapshots.remove(0);
            self.resumed.retain(|(_, number)| *number != dropped);
        }
    }
}
