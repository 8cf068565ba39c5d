//! What the threads of one service share, and what each has for itself.
//!
//! Not here: what the threads do (`threads.rs`).

use super::access_log::{AccessLog, LogBuffer};
use super::dir::Directory;
use super::hosts::HostRule;
use super::listings::Listings;
use super::options::Options;
use super::stats::Stats;
use super::synthetic::Synthetic;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use tokio::sync::Notify;

/// What is served, opened.
#[derive(Debug)]
pub(super) enum Held {
    Directory(Directory),
    Synthetic(Synthetic),
}

/// What all threads of one service share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) held: Held,
    pub(super) listings: Listings,
    pub(super) hosts: HostRule,
    pub(super) temp_dir: PathBuf,
    pub(super) log: Option<AccessLog>,
    pub(super) stopping: AtomicBool,
    pub(super) open: AtomicUsize,
    pub(super) open_at_most: usize,
    pub(super) started: Instant,
    pub(super) accepted: AtomicU64,
    pub(super) cut: AtomicU64,
    /// A connection has ended while no further one could be taken.
    pub(super) freed: Notify,
}

/// One thread's own part: no other thread writes to it while requests are served.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    requests: AtomicU64,
    bytes: AtomicU64,
    pub(super) open: AtomicUsize,
    pub(super) log: LogBuffer,
    /// Milliseconds since the start, as of the last sweep: a clock that costs nothing to read.
    clock: AtomicU64,
    pub(super) stop: Notify,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            log: LogBuffer::default(),
            clock: AtomicU64::new(0),
            stop: Notify::new(),
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    pub(super) fn synthetic(&self) -> Option<&Synthetic> {
        match &self.shared.held {
            Held::Synthetic(objects) => Some(objects),
            Held::Directory(_) => None,
        }
    }

    /// Counts one answered request, and logs it.
    pub(super) fn record(&self, method: &str, target: &str, status: u16, bytes: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(log) = &self.shared.log {
            self.log.line(log, method, target, status, bytes);
        }
    }

    pub(super) fn stop(&self) {
        self.stop.notify_one();
    }

    pub(super) fn tick(&self) {
        let now = self.shared.started.elapsed().as_millis();
        self.clock.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Shared {
    pub(super) fn new(
        options: Options,
        held: Held,
        hosts: HostRule,
        log: Option<AccessLog>,
        open_at_most: usize,
    ) -> Self {
        let temp_dir = options.temp_dir.clone().unwrap_or_else(std::env::temp_dir);
        Self {
            options,
            held,
            listings: Listings::new(),
            hosts,
            temp_dir,
            log,
            stopping: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            open_at_most,
            started: Instant::now(),
            accepted: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            freed: Notify::new(),
        }
    }

    pub(super) fn stats(&self, workers: &[Arc<Worker>]) -> Stats {
        let sum = |of: fn(&Worker) -> &AtomicU64| workers.iter().map(|worker| of(worker).load(Ordering::Relaxed)).sum();
        let (walks, skipped) = self.listings.walked();
        Stats {
            requests: sum(|worker| &worker.requests),
            bytes: sum(|worker| &worker.bytes),
            connections: self.accepted.load(Ordering::Relaxed),
            open_connections: self.open.load(Ordering::Relaxed),
            cut_connections: self.cut.load(Ordering::Relaxed),
            unlistable_names: skipped.names,
            not_files: skipped.not_files,
            unreadable_directories: skipped.unreadable,
            vanished_directories: skipped.vanished,
            walks,
            lost_log_lines: self.log.as_ref().map_or(0, AccessLog::lost),
        }
    }
}

/// Counts a connection for as long as it is open.
pub(super) struct OpenConnection(Arc<Worker>);

impl OpenConnection {
    pub(super) fn new(worker: &Arc<Worker>) -> Self {
        worker.shared.open.fetch_add(1, Ordering::Relaxed);
        worker.open.fetch_add(1, Ordering::Relaxed);
        worker.shared.accepted.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(worker))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        let shared = &self.0.shared;
        if shared.open.fetch_sub(1, Ordering::Relaxed) >= shared.open_at_most {
            shared.freed.notify_one();
        }
    }
}
