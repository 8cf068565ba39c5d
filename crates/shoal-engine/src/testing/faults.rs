//! Sinks that fail: each wraps a real one and stops a run at a chosen operation, before or after it took effect.
//! What such a run leaves behind is what a kill at that point leaves.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::{Error, Kind, Result};
use crate::name::Name;
use crate::object::{Modes, ObjectMeta, Payload};
use crate::partition::Partition;
use crate::sink::{Mode, ObjectWriter, Place, Put, Sealed, Settled, Sink, Start, Started, Writer};

/// Counts operations; the chosen one fails, and every one after it.
#[derive(Clone)]
struct Fuse {
    left: Arc<AtomicU64>,
    /// The operation takes effect although it fails.
    after: bool,
}

impl Fuse {
    fn run<T>(&self, operation: impl FnOnce() -> Result<T>) -> Result<T> {
        let left = self.left.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(1))).unwrap_or(0);
        if left > 0 {
            return operation();
        }
        if self.after {
            operation()?;
        }
        Err(failed())
    }
}

fn failed() -> Error {
    Error::new(Kind::DestinationFailed, "failed on purpose")
}

/// A sink whose n-th operation (put, directory, piece, finish, seal, sync) fails with an error that ends the run. Its
/// clock cannot be read any more then.
pub struct FailingSink {
    inner: Arc<dyn Sink>,
    fuse: Fuse,
}

impl FailingSink {
    /// `operations` succeed; the next one fails, having taken effect if `after`.
    pub fn new(inner: Arc<dyn Sink>, operations: u64, after: bool) -> FailingSink {
        FailingSink { inner, fuse: Fuse { left: Arc::new(AtomicU64::new(operations)), after } }
    }
}

impl Sink for FailingSink {
    fn identity(&self) -> String {
        self.inner.identity()
    }
    fn journal_dir(&self) -> Option<PathBuf> {
        self.inner.journal_dir()
    }
    fn has_begun(&self) -> bool {
        self.inner.has_begun()
    }
    fn start(&self, start: &Start) -> Result<Started> {
        self.inner.start(start)
    }
    fn clock(&self) -> Result<Option<i64>> {
        match self.fuse.left.load(Relaxed) {
            0 => Err(failed()), // as that of a destination that is gone
            _ => self.inner.clock(),
        }
    }
    fn writer(&self, lane: usize) -> Result<Box<dyn Writer>> {
        Ok(Box::new(FailingWriter { inner: self.inner.writer(lane)?, fuse: self.fuse.clone() }))
    }
    fn sync(&self, sealed: Vec<Sealed>, last: bool) -> Result<Settled> {
        self.fuse.run(|| self.inner.sync(sealed, last))
    }
    fn blocks(&self) -> bool {
        self.inner.blocks()
    }
    fn has_room(&self, place: Place) -> bool {
        self.inner.has_room(place)
    }
    fn wake_with(&self, waker: Box<dyn Fn() + Send + Sync>) {
        self.inner.wake_with(waker);
    }
    fn withdraw(&self, seq: u64, name: &Name) {
        self.inner.withdraw(seq, name);
    }
    fn finish(&self) -> Result<()> {
        self.inner.finish()
    }
}

struct FailingWriter {
    inner: Box<dyn Writer>,
    fuse: Fuse,
}

impl Writer for FailingWriter {
    fn open(&mut self, slot: u32, partition: &Partition, mode: Mode, modes: Modes) -> Result<()> {
        self.inner.open(slot, partition, mode, modes)
    }
    fn put(&mut self, slot: u32, name: &Name, meta: &ObjectMeta, payload: Payload<'_>) -> Result<Put> {
        self.fuse.run(|| self.inner.put(slot, name, meta, payload))
    }
    fn has(&mut self, slot: u32, name: &Name, meta: &mut dyn FnMut() -> Option<ObjectMeta>) -> Result<Option<u64>> {
        self.inner.has(slot, name, meta)
    }
    fn begin(&mut self, slot: u32, name: &Name, meta: &ObjectMeta) -> Result<Box<dyn ObjectWriter>> {
        let inner = self.fuse.run(|| self.inner.begin(slot, name, meta))?;
        Ok(Box::new(FailingObject { inner, fuse: self.fuse.clone() }))
    }
    fn directory(&mut self, slot: u32, name: &Name) -> Result<()> {
        self.fuse.run(|| self.inner.directory(slot, name))
    }
    fn expect(&mut self, slot: u32, index: u32, size: Option<u64>) -> Result<bool> {
        self.inner.expect(slot, index, size)
    }
    fn left_out(&mut self, slot: u32, index: u32) {
        self.inner.left_out(slot, index);
    }
    fn seal(&mut self, slot: u32) -> Result<Sealed> {
        self.fuse.run(|| self.inner.seal(slot))
    }
    fn discard(&mut self, slot: u32) {
        self.inner.discard(slot);
    }
}

struct FailingObject {
    inner: Box<dyn ObjectWriter>,
    fuse: Fuse,
}

impl ObjectWriter for FailingObject {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.fuse.run(|| self.inner.write(piece))
    }
    fn finish(self: Box<Self>) -> Result<Put> {
        let FailingObject { inner, fuse } = *self;
        fuse.run(|| inner.finish())
    }
}
