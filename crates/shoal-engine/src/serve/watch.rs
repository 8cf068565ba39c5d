//! The connections of one thread, and which of them end because their clients take too long.
//!
//! Not here: where connections come from (`threads.rs`), what is known of each (`wire.rs`).

use super::connection;
use super::shared::{OpenConnection, Shared, Worker};
use super::wire::{Standing, Wire};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

/// The least idle time that is granted while no further connection can be taken.
const IDLE_WHEN_FULL: Duration = Duration::from_secs(1);
/// The same for a request that has begun and is not complete.
const PARTIAL_WHEN_FULL: Duration = Duration::from_secs(2);
/// Watched connections below which ended ones may stay until the next sweep; each holds a few KiB.
const PRUNE_FROM: usize = 256;

/// The connections of one thread.
pub(super) struct Connections {
    worker: Arc<Worker>,
    list: Vec<Watched>,
    /// The length of the list at which ended connections are taken out without waiting for the sweep.
    prune_at: usize,
}

/// One of them, for as long as it is open.
struct Watched {
    wire: Weak<Wire>,
    task: AbortHandle,
    /// When the client had last taken enough of its answer, or needed none, and how much it had taken then.
    since: u64,
    taken: u64,
}

impl Watched {
    /// Since when the client has taken less than `least` bytes of an answer that waits for it.
    fn slow_since(&mut self, wire: &Wire, is_stalled: bool, least: u64, now: u64) -> u64 {
        let taken = wire.taken();
        if !is_stalled || taken - self.taken >= least {
            (self.since, self.taken) = (now, taken);
        }
        self.since
    }
}

impl Connections {
    pub(super) fn new(worker: Arc<Worker>) -> Self {
        Self { worker, list: Vec::new(), prune_at: PRUNE_FROM }
    }

    pub(super) fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }

    pub(super) fn add(&mut self, stream: TcpStream, open: OpenConnection) {
        let wire = Wire::new(stream, self.worker.now());
        let watched = Arc::downgrade(&wire);
        let task = tokio::spawn(connection::serve(Arc::clone(&self.worker), wire, open)).abort_handle();
        self.list.push(Watched { wire: watched, task, since: self.worker.now(), taken: 0 });
        if self.list.len() >= self.prune_at {
            self.list.retain(|one| one.wire.strong_count() > 0);
            self.prune_at = PRUNE_FROM.max(self.list.len() * 2);
        }
    }

    /// Sets the clock, writes the log, and ends connections that have been silent for too long.
    pub(super) fn sweep(&mut self) {
        self.worker.tick();
        let shared = &self.worker.shared;
        if let Some(log) = &shared.log {
            self.worker.log.flush(log);
        }
        let now = self.worker.now();
        let options = &shared.options;
        let full = shared.open.load(Ordering::Relaxed) >= shared.open_at_most;
        let idle = if full { options.idle_timeout.min(IDLE_WHEN_FULL) } else { options.idle_timeout };
        let header = if full { options.header_timeout.min(PARTIAL_WHEN_FULL) } else { options.header_timeout };
        let late = |since: u64, limit: Duration| u128::from(now.saturating_sub(since)) > limit.as_millis();
        self.list.retain_mut(|one| {
            let Some(wire) = one.wire.upgrade() else {
                return false;
            };
            let standing = wire.standing();
            let is_stalled = matches!(standing, Standing::Stalled(_));
            let slow_since = one.slow_since(&wire, is_stalled, options.taken_when_full, now);
            let task = &one.task;
            match standing {
                Standing::Busy if wire.is_left() => {
                    task.abort();
                    false
                }
                Standing::Busy => true,
                Standing::Stalled(_) if full && late(slow_since, options.write_timeout) => end(shared, task),
                // The client is told nothing: there is no request to answer, or it does not read.
                Standing::Stalled(since) if late(since, options.write_timeout) => end(shared, task),
                Standing::Partial(since) if late(since, header) => end(shared, task),
                Standing::Idle(since) if late(since, idle) => {
                    wire.drain();
                    true
                }
                Standing::Stalled(_) | Standing::Partial(_) | Standing::Idle(_) => true,
            }
        });
    }

    /// Lets requests in progress finish, and cuts what is left after `grace`.
    pub(super) async fn drain(mut self, grace: Duration) {
        let until = tokio::time::Instant::now() + grace;
        for one in &self.list {
            if let Some(wire) = one.wire.upgrade() {
                wire.drain();
            }
        }
        loop {
            self.worker.tick();
            self.list.retain(|one| one.wire.strong_count() > 0);
            if self.list.is_empty() || tokio::time::Instant::now() >= until {
                break;
            }
            // Often enough not to be noticed, seldom enough to cost nothing.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        for one in &self.list {
            end(&self.worker.shared, &one.task);
        }
    }
}

/// Cuts one connection; `false`, for it needs no watching any more.
fn end(shared: &Shared, task: &AbortHandle) -> bool {
    shared.cut.fetch_add(1, Ordering::Relaxed);
    task.abort();
    false
}
