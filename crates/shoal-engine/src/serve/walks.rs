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
use super::listings::{Ended, Found, WALK_FAILED};
use super::shared::{Held, Shared};
use super::snapshot::{Snapshot, Sorter};
use super::wire::Wire;
use hyper::StatusCode;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// Times that a directory is read again because others in it moved meanwhile, before they are given up.
const WALKS_AGAIN: usize = 3;
const LEFT: Refusal = (
    StatusCode::SERVICE_UNAVAILABLE,
    "the client has closed its side of the connection, and the directory is read only for one that waits",
);

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

    fn share(&self, may_be_older: bool) -> Option<Found> {
        self.shared.listings.lock().share(self.since, self.next, may_be_older)
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
pub(super) async fn snapshot(shared: &Arc<Shared>, waiting: &Waiting, may_be_older: bool) -> Found {
    if let Some(found) = waiting.share(may_be_older) {
        return found;
    }
    let permit = Arc::clone(&shared.listings.walking).acquire_owned().await.map_err(|_| WALK_FAILED)?;
    if waiting.wire.is_left() {
        return Err(LEFT);
    }
    if let Some(found) = waiting.share(may_be_older) {
        return found;
    }
    let for_walk = Arc::clone(shared);
    // The walk holds the permit and keeps its snapshot by itself: it outlives the request.
    let walk = move || {
        let _permit = permit;
        walk(&for_walk);
    };
    tokio::task::spawn_blocking(walk).await.map_err(|_| WALK_FAILED)?;
    waiting.share(may_be_older).unwrap_or(Err(WALK_FAILED))
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
        kept.keep(&shared.options, number, snapshot);
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
