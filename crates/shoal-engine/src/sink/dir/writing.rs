//! Which names are being written under their final name right now, where several objects may have one name.
//!
//! A file that another lane has made a moment ago may hold the beginning of its object, or nothing yet: an empty object of
//! the same name would take that for its own bytes. Names are counted by hash, so that a lane may also wait for a name that
//! is not its own, which does no harm.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::name::Name;

/// Counters. With one lane for each of 64 cores, one name in 16 meets another.
const COUNTS: usize = 1024;
/// One write of a small object takes some 10 µs.
const PAUSE: Duration = Duration::from_micros(50);

#[derive(Debug)]
pub(super) struct Writing(Box<[AtomicU32]>);

impl Writing {
    pub fn new() -> Writing {
        Writing((0..COUNTS).map(|_| AtomicU32::new(0)).collect())
    }

    /// The name is being written until the answer is dropped. Begun before the file is made.
    pub fn begin(&self, name: &Name) -> Written<'_> {
        let count = self.count(name);
        count.fetch_add(1, SeqCst);
        Written(count)
    }

    /// Waits until a file of this name that was seen is written.
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
