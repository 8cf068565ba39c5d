//! `NullSink`: counts objects, adds up their hashes on request, and discards them.
//!
//! It does not store names, so it does not detect duplicates. It has no journal unless the user passes a path for one.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use xxhash_rust::xxh3::Xxh3;

use super::{
    Flush, Flushed, Mode, ObjectWriter, PartitionWriter, Put, Sealed, Sink, SinkProperties, SinkState, Start, Started,
    Wake, Writer,
};
use crate::error::Result;
use crate::key::ObjectKey;
use crate::object::{Modes, ObjectMeta, Payload};
use crate::partition::Partition;
use crate::poison::ignore_poison;

/// Objects of completed partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NullTotals {
    /// Number of objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The sum, modulo 2^64, of each object's xxh3 over name and bytes, which does not depend on their order. 0 without
    /// hashing.
    pub hash: u64,
}

/// Discards objects.
#[derive(Clone, Debug, Default)]
pub struct NullSink {
    hashing: bool,
    totals: Arc<Mutex<NullTotals>>,
}

impl NullSink {
    /// Returns a sink that only counts.
    pub fn new() -> NullSink {
        NullSink::default()
    }

    /// Returns a sink that counts and hashes.
    pub fn hashing() -> NullSink {
        NullSink { hashing: true, ..NullSink::default() }
    }

    /// Returns the totals so far. Clones share them.
    pub fn totals(&self) -> NullTotals {
        *ignore_poison(self.totals.lock())
    }
}

impl Sink for NullSink {
    fn identity(&self) -> String {
        "null:".into()
    }

    fn journal_dir(&self) -> Option<PathBuf> {
        None
    }

    fn start(&self, _start: &Start, _state: &dyn SinkState) -> Result<Started> {
        Ok(Started {
            durability: "none: nothing is kept".into(),
            publish: match self.hashing {
                true => "counted, hashed and discarded".into(),
                false => "counted and discarded".into(),
            },
            ..Started::default()
        })
    }

    fn properties(&self) -> SinkProperties {
        SinkProperties { blocks: false, ..SinkProperties::default() }
    }

    fn writer(&self, _lane: usize, _wake: Wake) -> Result<Box<dyn Writer>> {
        Ok(Box::new(NullWriter(self.clone())))
    }

    fn flush(&self, sealed: Vec<Sealed>, _reason: Flush) -> Result<Flushed> {
        Ok(Flushed::all(&sealed))
    }
}

struct NullWriter(NullSink);

impl Writer for NullWriter {
    fn open(&mut self, partition: &Partition, _mode: Mode, _modes: Modes) -> Result<Box<dyn PartitionWriter>> {
        Ok(Box::new(NullPartition { sink: self.0.clone(), seq: partition.seq, tally: Rc::default() }))
    }
}

/// Adds to the sink's totals when it is sealed: nothing is shared with other lanes for each object.
struct NullPartition {
    sink: NullSink,
    seq: u64,
    tally: Rc<Tally>,
}

#[derive(Default)]
struct Tally(RefCell<NullTotals>);

impl Tally {
    fn count(&self, bytes: u64, hash: u64) -> Put {
        let mut tally = self.0.borrow_mut();
        tally.objects += 1;
        tally.bytes += bytes;
        tally.hash = tally.hash.wrapping_add(hash);
        Put::Written
    }
}

impl PartitionWriter for NullPartition {
    fn put(&mut self, _index: u32, key: &ObjectKey, _meta: &ObjectMeta, payload: &mut Payload<'_>) -> Result<Put> {
        let bytes = payload.bytes()?;
        let hash = match self.sink.hashing {
            false => 0,
            true => {
                let mut hasher = begin_hash(key);
                hasher.update(bytes);
                hasher.digest()
            }
        };
        Ok(self.tally.count(bytes.len() as u64, hash))
    }

    fn begin(&mut self, _index: u32, key: &ObjectKey, _meta: &ObjectMeta) -> Result<Option<Box<dyn ObjectWriter>>> {
        let hasher = self.sink.hashing.then(|| Box::new(begin_hash(key)));
        Ok(Some(Box::new(Pieces { tally: self.tally.clone(), hasher, bytes: 0 })))
    }

    fn seal(self: Box<Self>) -> Result<Sealed> {
        let tally = *self.tally.0.borrow();
        let mut totals = ignore_poison(self.sink.totals.lock());
        totals.objects += tally.objects;
        totals.bytes += tally.bytes;
        totals.hash = totals.hash.wrapping_add(tally.hash);
        Ok(Sealed { seq: self.seq, objects: tally.objects, bytes: tally.bytes, sync_token: None })
    }
}

struct Pieces {
    tally: Rc<Tally>,
    hasher: Option<Box<Xxh3>>,
    bytes: u64,
}

impl ObjectWriter for Pieces {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(piece);
        }
        self.bytes += piece.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        Ok(self.tally.count(self.bytes, self.hasher.map_or(0, |hasher| hasher.digest())))
    }
}

/// A dry run: admits the keys that a sink admits, and writes nothing.
pub(crate) struct DryRun {
    sink: Arc<dyn Sink>,
    null: NullSink,
}

impl DryRun {
    pub fn new(sink: Arc<dyn Sink>) -> DryRun {
        DryRun { sink, null: NullSink::new() }
    }
}

impl Sink for DryRun {
    fn identity(&self) -> String {
        self.sink.identity()
    }
    fn properties(&self) -> SinkProperties {
        self.null.properties()
    }
    fn journal_dir(&self) -> Option<PathBuf> {
        None
    }
    fn admit(&self, raw: &[u8]) -> Result<ObjectKey> {
        self.sink.admit(raw)
    }
    fn start(&self, start: &Start, state: &dyn SinkState) -> Result<Started> {
        self.null.start(start, state)
    }
    fn writer(&self, lane: usize, wake: Wake) -> Result<Box<dyn Writer>> {
        self.null.writer(lane, wake)
    }
    fn flush(&self, sealed: Vec<Sealed>, reason: Flush) -> Result<Flushed> {
        self.null.flush(sealed, reason)
    }
}

/// The name's length goes first, so that `ab` with the bytes `c` differs from `a` with `bc`.
fn begin_hash(key: &ObjectKey) -> Xxh3 {
    let mut hasher = Xxh3::new();
    hasher.update(&(key.as_bytes().len() as u64).to_le_bytes());
    hasher.update(key.as_bytes());
    hasher
}
