//! When the directory is read, which requests share one reading, and which snapshots are kept.
//!
//! Reading a directory can take minutes, longer than a client waits for an answer. So one walk runs at a time, all
//! requests that wait when it begins share its snapshot, and it goes on when they have left: a client that tries again
//! finds what its first try has paid for. After its client has left, a request begins no walk.
//!
//! A snapshot is as old as its walk. A first page comes from a walk that began after its request, with two exceptions,
//! for as long as `max(5 s, the time of the walk)` after its end: where no client that had waited from the beginning was
//! left to get it (else one that always leaves too early would never get it), and where the walk took longer than 5 s.
//! Not here: pages (`list.rs`), the reading itself (`dir.rs`).

use super::dir::{Directory, Refusal};
use super::list::WALK_FAILED;
use super::marker::Identity;
use super::snapshot::{Skipped, Snapshot, Sorter};
use super::threads::{Held, Shared};
use super::wire::Wire;
use crate::poison::ignore_poison;
use hyper::StatusCode;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Bytes of names kept in memory for all snapshots together; the least recently used go first.
const KEEP_BYTES: usize = 256 * 1024 * 1024;
/// How long a snapshot can be shared after its walk, where the walk itself did not take longer; and the time of a walk
/// from which on it is worth sharing although it was given to the clients that it was for.
const SHARE: Duration = Duration::from_secs(5);
/// Times that a directory is read again because others in it moved meanwhile, before they are given up.
const WALKS_AGAIN: usize = 3;
/// Markers of earlier services that are remembered with the snapshots that go on for them.
const RESUMED_MAX: usize = 1024;

const LEFT: Refusal = (
    StatusCode::SERVICE_UNAVAILABLE,
    "the client has closed its side of the connection, and the directory is read only for one that waits",
);

/// The snapshots of one service.
#[derive(Debug)]
pub(super) struct Listings {
    pub(super) instance: u64,
    kept: Mutex<Kept>,
    /// One walk at a time: a second one would only fight the first for the disk.
    walking: Arc<Semaphore>,
}

#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The number of the next walk, and of its snapshot.
    next: u64,
    /// Least recently used first. The newest is always among them.
    snapshots: Vec<(u64, Arc<Snapshot>)>,
    /// Which snapshot here goes on for which one of an earlier service, so that many markers of one listing that was
    /// cut by a restart share one walk.
    resumed: Vec<(Identity, u64)>,
    /// Requests that wait for a walk: the number that the next walk had when each came, and its connection.
    waiting: Vec<(u64, Arc<Wire>)>,
    ended: Option<Ended>,
    skipped: Skipped,
    walks: u64,
}

/// The latest walk that has ended.
#[derive(Debug, Clone, Copy)]
struct Ended {
    number: u64,
    at: Instant,
    took: Duration,
    whole: bool,
    /// A client that waited when it began was still there at its end.
    awaited: bool,
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

    /// What a request that came then can take from the latest walk; `None` if it must wait for another.
    fn share(&mut self, waiting: &Waiting, may_be_older: bool) -> Option<Result<(u64, Arc<Snapshot>), Refusal>> {
        let ended = self.ended?;
        let began_later = ended.number >= waiting.next;
        let lasting = waiting.since < ended.at + SHARE.max(ended.took);
        let older = may_be_older && ended.whole && lasting && (ended.took > SHARE || !ended.awaited);
        match ended.whole {
            _ if !began_later && !older => None,
            false => Some(Err(WALK_FAILED)),
            true => self.used(ended.number).map(|snapshot| Ok((ended.number, snapshot))),
        }
    }

    fn keep(&mut self, shared: &Shared, number: u64, snapshot: Snapshot) {
        self.walks += 1;
        self.skipped = snapshot.skipped;
        let files_most = shared.options.snapshot_file_bytes.max(snapshot.file().saturating_mul(2));
        self.snapshots.push((number, Arc::new(snapshot)));
        let most = shared.options.snapshots_kept.max(1);
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

/// A request that waits for a walk; counted until it is dropped.
pub(super) struct Waiting {
    shared: Arc<Shared>,
    wire: Arc<Wire>,
    since: Instant,
    next: u64,
}

impl Waiting {
    pub(super) fn new(shared: &Arc<Shared>, wire: Arc<Wire>) -> Self {
        let mut kept = shared.listings.lock();
        let next = kept.next;
        kept.waiting.push((next, Arc::clone(&wire)));
        drop(kept);
        Self { shared: Arc::clone(shared), wire, since: Instant::now(), next }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut kept = self.shared.listings.lock();
        if let Some(at) = kept.waiting.iter().position(|(_, wire)| Arc::ptr_eq(wire, &self.wire)) {
            kept.waiting.swap_remove(at);
        }
    }
}

/// The snapshot for a request: that of the latest walk if it may be shared, else that of a walk that begins now.
pub(super) async fn snapshot(
    shared: &Arc<Shared>,
    waiting: &Waiting,
    may_be_older: bool,
) -> Result<(u64, Arc<Snapshot>), Refusal> {
    let listings = &shared.listings;
    if let Some(found) = listings.lock().share(waiting, may_be_older) {
        return found;
    }
    let permit = Arc::clone(&listings.walking).acquire_owned().await.map_err(|_| WALK_FAILED)?;
    if waiting.wire.is_left() {
        return Err(LEFT);
    }
    if let Some(found) = listings.lock().share(waiting, may_be_older) {
        return found;
    }
    let for_walk = Arc::clone(shared);
    // The walk holds the permit and keeps its snapshot by itself: it outlives the request.
    let walk = move || {
        let _permit = permit;
        walk(&for_walk);
    };
    tokio::task::spawn_blocking(walk).await.map_err(|_| WALK_FAILED)?;
    listings.lock().share(waiting, may_be_older).unwrap_or(Err(WALK_FAILED))
}

fn walk(shared: &Shared) {
    let began = Instant::now();
    let listings = &shared.listings;
    let number = {
        let mut kept = listings.lock();
        kept.next += 1;
        kept.next - 1
    };
    let taken = match &shared.held {
        Held::Directory(directory) => take_snapshot(shared, directory),
        Held::Synthetic(_) => Err(io::Error::other("nothing to walk")),
    };
    let mut kept = listings.lock();
    let awaited = kept.waiting.iter().any(|(next, wire)| *next <= number && !wire.is_left());
    let at = Instant::now();
    kept.ended = Some(Ended { number, at, took: at - began, whole: taken.is_ok(), awaited });
    if let Ok(snapshot) = taken {
        kept.keep(shared, number, snapshot);
    }
}

/// Reads the directory, and once more where directories that it had found were gone when it came to them: moved, most
/// likely, to a place that it had left behind already.
fn take_snapshot(shared: &Shared, directory: &Directory) -> io::Result<Snapshot> {
    let mut again = 0;
    loop {
        let mut sorter = Sorter::new(shared.options.names_in_memory, &shared.temp_dir);
        directory.walk(&mut sorter, &shared.stopping)?;
        if sorter.skipped().vanished == 0 || again == WALKS_AGAIN {
            return sorter.finish();
        }
        again += 1;
    }
}
