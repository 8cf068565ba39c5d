//! What a run finds out about its source while it works. The run owns it and reads it; the listing and the fetchers, which
//! share it, report to it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// What a run has found out about its source so far.
#[derive(Debug)]
pub struct Findings {
    depth: AtomicUsize,
    late: AtomicU64,
    slow: AtomicUsize,
}

/// A connection that is being made for longer than is usual.
#[derive(Debug)]
pub struct SlowConnection<'a>(&'a AtomicUsize);

impl Drop for SlowConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Default for Findings {
    fn default() -> Findings {
        Findings { depth: AtomicUsize::new(1), late: AtomicU64::new(0), slow: AtomicUsize::new(0) }
    }
}

impl Findings {
    /// Reports how many objects one connection may have in flight (pipelining). Cheap where the number stays the same.
    pub fn report_depth(&self, depth: usize) {
        if self.depth() != depth {
            self.depth.store(depth, Relaxed);
        }
    }

    /// Reports that a connection was not made in time: the service may not accept as many as were asked for. To be called
    /// once for each, when it becomes late, which may be long before it is made or fails.
    pub fn report_late_connection(&self) {
        self.late.fetch_add(1, Relaxed);
    }

    /// Reports that a connection takes long, well before it is late. It counts until what is returned is dropped.
    pub fn slow_connection(&self) -> SlowConnection<'_> {
        self.slow.fetch_add(1, Relaxed);
        SlowConnection(&self.slow)
    }

    /// How many connections take long now.
    pub fn slow_connections(&self) -> usize {
        self.slow.load(Relaxed)
    }

    /// How many objects one connection may have in flight.
    pub fn depth(&self) -> usize {
        self.depth.load(Relaxed)
    }

    /// How many connections were late.
    pub fn late_connections(&self) -> u64 {
        self.late.load(Relaxed)
    }
}
