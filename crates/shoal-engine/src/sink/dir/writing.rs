//! `Writing`: the names whose files are being written at the moment, if several objects may have one name.
//!
//! A file that another lane has just created may have only the beginning of its object, or nothing. An empty object of
//! the same name would find its own bytes there. Names are counted by hash, so a lane may also wait for another name,
//! which does no harm.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::name::Name;

/// Counters. With 64 cores and a lane for each, one name in 16 shares a counter with another.
const COUNTS: usize = 1024;
/// One write of a small object takes some 10 µs.
const PAUSE: Duration = Duration::from_micros(50);

#[derive(Debug)]
pub(super) struct Writing(Box<[AtomicU32]>);

impl Writing {
    pub fn new() -> Writing {
        Writing((0..COUNTS).map(|_| AtomicU32::new(0)).collect())
    }

    /// Counts the name as being written until the result is dropped. Call it before the file is created.
    pub fn begin(&self, name: &Name) -> Written<'_> {
        let count = self.count(name);
        count.fetch_add(1, SeqCst);
        Written(count)
    }

    /// Waits until no file of this name is being written.
    pub fn wait(&self, name: &Name) {
        let count = self.count(name);
        while count.load(SeqCst) > 0 {
            std::thread::sleep(PAUSE);
        }
    }

    fn count(&self, name: &Name) -> &AtomicU32 {
        &self.0[xxh3_64(name.as_bytes()) as usize % COUNTS]
    }
}

pub(super) struct Written<'a>(&'a AtomicU32);

impl Drop for Written<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}
