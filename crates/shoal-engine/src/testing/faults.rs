//! Sinks that fail: each wraps a real one and stops a run at a chosen operation, before or after it took effect.
//! What such a run leaves behind is what a kill at that point leaves.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::{Error, Kind, Result};
use crate::key::ObjectKey;
use crate::object::{Modes, ObjectMeta, Payload};
use crate::partition::Partition;
use crate::sink::{
    Completed, Flush, Flushed, Left, Mode, ObjectWriter, PartitionWriter, Place, Put, Sealed, Sink, SinkProperties,
    SinkState, Start, Started, StateRow, Wake, WithdrawnObject, Writer,
};

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

/// A sink of which the n-th operation (put, directory, piece, finish, seal, flush, mend, publish) fails with an error that ends
/// the run. Its clock cannot be read any more then.
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

#[deny(clippy::missing_trait_methods)]
impl Sink for FailingSink {
    fn identity(&self) -> String {
        self.inner.identity()
    }
    fn properties(&self) -> SinkProperties {
        self.inner.properties()
    }
    fn journal_dir(&self) -> Option<PathBuf> {
        self.inner.journal_dir()
    }
    fn has_begun(&self) -> bool {
        self.inner.has_begun()
    }
    fn admit(&self, raw: &[u8]) -> Result<ObjectKey> {
        self.inner.admit(raw)
    }
    fn start(&self, start: &Start, state: &dyn SinkState) -> Result<Started> {
        self.inner.start(start, state)
    }
    fn look_again(&self, state: &dyn SinkState) -> Result<Option<String>> {
        self.inner.look_again(state)
    }
    fn clock(&self) -> Result<Option<i64>> {
        match self.fuse.left.load(Relaxed) {
            0 => Err(failed()), // as that of a destination that is gone
            _ => self.inner.clock(),
        }
    }
    fn writer(&self, lane: usize, wake: Wake) -> Result<Box<dyn Writer>> {
        Ok(Box::new(FailingWriter { inner: self.inner.writer(lane, wake)?, fuse: self.fuse.clone() }))
    }
    fn flush(&self, sealed: Vec<Sealed>, reason: Flush) -> Result<Flushed> {
        self.fuse.run(|| self.inner.flush(sealed, reason))
    }
    fn publish(&self, state: &[StateRow]) -> Result<()> {
        self.fuse.run(|| self.inner.publish(state))
    }
    fn withdrawing(&self, objects: &[WithdrawnObject]) -> Vec<StateRow> {
        self.inner.withdrawing(objects)
    }
    fn mend(&self, state: &dyn SinkState, stop: &mut dyn FnMut() -> bool) -> Result<Vec<StateRow>> {
        self.fuse.run(|| self.inner.mend(state, stop))
    }
    fn withdraw(&self, object: &WithdrawnObject) {
        self.inner.withdraw(object);
    }
    fn directory(&self, path: &[u8], meta: &ObjectMeta, make: bool) -> Result<()> {
        self.fuse.run(|| self.inner.directory(path, meta, make))
    }
    fn sync_directories(&self) -> Result<()> {
        self.fuse.run(|| self.inner.sync_directories())
    }
    fn finish(&self) -> Result<Option<String>> {
        self.inner.finish()
    }
}

struct FailingWriter {
    inner: Box<dyn Writer>,
    fuse: Fuse,
}

#[deny(clippy::missing_trait_methods)]
impl Writer for FailingWriter {
    fn open(&mut self, partition: &Partition, mode: Mode, modes: Modes) -> Result<Box<dyn PartitionWriter>> {
        Ok(Box::new(FailingPartition { inner: self.inner.open(partition, mode, modes)?, fuse: self.fuse.clone() }))
    }
    fn has_room(&mut self, place: Place) -> bool {
        self.inner.has_room(place)
    }
}

struct FailingPartition {
    inner: Box<dyn PartitionWriter>,
    fuse: Fuse,
}

#[deny(clippy::missing_trait_methods)]
impl PartitionWriter for FailingPartition {
    fn put(&mut self, index: u32, key: &ObjectKey, meta: &ObjectMeta, payload: &mut Payload<'_>) -> Result<Put> {
        self.fuse.run(|| self.inner.put(index, key, meta, payload))
    }
    fn put_in_place(
        &mut self,
        _index: u32,
        _key: &ObjectKey,
        _read: &mut dyn FnMut(&mut Vec<u8>) -> bool,
    ) -> Result<Option<u64>> {
        Ok(None) // through `put`, which counts
    }
    fn has(&mut self, key: &ObjectKey, meta: &mut dyn FnMut() -> Option<ObjectMeta>) -> Result<Option<Left>> {
        self.inner.has(key, meta)
    }
    fn kept(&mut self, key: &ObjectKey) -> Result<Option<ObjectMeta>> {
        self.inner.kept(key)
    }
    fn begin(&mut self, index: u32, key: &ObjectKey, meta: &ObjectMeta) -> Result<Option<Box<dyn ObjectWriter>>> {
        let begun = self.fuse.run(|| self.inner.begin(index, key, meta))?;
        Ok(begun.map(|inner| Box::new(FailingObject { inner, fuse: self.fuse.clone() }) as Box<dyn ObjectWriter>))
    }
    fn link(&mut self, index: u32, key: &ObjectKey, to: &ObjectKey, meta: &ObjectMeta) -> Result<Option<Put>> {
        self.fuse.run(|| self.inner.link(index, key, to, meta))
    }
    fn completed(&mut self) -> Option<Completed> {
        self.inner.completed()
    }
    fn directory(&mut self, key: &ObjectKey) -> Result<()> {
        self.fuse.run(|| self.inner.directory(key))
    }
    fn skip(&mut self, index: u32) {
        self.inner.skip(index);
    }
    fn seal(self: Box<Self>) -> Result<Sealed> {
        let FailingPartition { inner, fuse } = *self;
        fuse.run(|| inner.seal())
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
