//! `DigestSink`: passes on each object's checksum instead of its bytes. For manifests: the lanes compute the hashes.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::{
    Completed, Flush, Flushed, Left, Mode, ObjectWriter, PartitionWriter, Place, Put, Sealed, Sink, SinkProperties,
    SinkState, Start, Started, StateRow, Wake, WithdrawnObject, Writer,
};
use crate::error::{Error, Kind, Result};
use crate::key::ObjectKey;
use crate::object::{Modes, ObjectMeta, Payload, Takes};
use crate::partition::Partition;

crate::words! {
    /// A hash function.
    pub enum Checksum {
        /// 64 bits, as fast as memory; does not protect against forgery.
        #[default]
        Xxh3 = "xxh3",
        /// 256 bits; protects against forgery too.
        Sha256 = "sha256",
        /// 32 bits, as in zip and gzip.
        Crc32 = "crc32",
    }
}

enum Hasher {
    Xxh3(Box<Xxh3>),
    Sha256(Box<ring::digest::Context>),
    Crc32(crc32fast::Hasher),
}

impl Hasher {
    fn new(checksum: Checksum) -> Hasher {
        match checksum {
            Checksum::Xxh3 => Hasher::Xxh3(Box::default()),
            Checksum::Sha256 => Hasher::Sha256(Box::new(ring::digest::Context::new(&ring::digest::SHA256))),
            Checksum::Crc32 => Hasher::Crc32(crc32fast::Hasher::new()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Xxh3(hasher) => hasher.update(bytes),
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Crc32(hasher) => hasher.update(bytes),
        }
    }

    /// The most significant byte first, as tools print it.
    fn finish(self) -> Vec<u8> {
        match self {
            Hasher::Xxh3(hasher) => hasher.digest().to_be_bytes().to_vec(),
            Hasher::Sha256(hasher) => hasher.finish().as_ref().to_vec(),
            Hasher::Crc32(hasher) => hasher.finalize().to_be_bytes().to_vec(),
        }
    }
}

/// Passes checksums to another sink: the object's size in eight bytes (the least significant first), then the checksum.
pub struct DigestSink {
    inner: Arc<dyn Sink>,
    checksum: Checksum,
}

impl DigestSink {
    /// Returns a sink that passes checksums to `inner`.
    pub fn new(inner: Arc<dyn Sink>, checksum: Checksum) -> DigestSink {
        DigestSink { inner, checksum }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Sink for DigestSink {
    fn identity(&self) -> String {
        format!("{} of {}", self.checksum.as_str(), self.inner.identity())
    }
    fn properties(&self) -> SinkProperties {
        SinkProperties { blocks: true, takes: Takes::default(), ..self.inner.properties() } // hashing keeps a core busy
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
        self.inner.clock()
    }
    fn writer(&self, lane: usize, wake: Wake) -> Result<Box<dyn Writer>> {
        Ok(Box::new(DigestWriter { inner: self.inner.writer(lane, wake)?, checksum: self.checksum }))
    }
    fn flush(&self, sealed: Vec<Sealed>, reason: Flush) -> Result<Flushed> {
        self.inner.flush(sealed, reason)
    }
    fn publish(&self, state: &[StateRow]) -> Result<()> {
        self.inner.publish(state)
    }
    fn withdrawing(&self, objects: &[WithdrawnObject]) -> Vec<StateRow> {
        self.inner.withdrawing(objects)
    }
    fn mend(&self, state: &dyn SinkState, stop: &mut dyn FnMut() -> bool) -> Result<Vec<StateRow>> {
        self.inner.mend(state, stop)
    }
    fn withdraw(&self, object: &WithdrawnObject) {
        self.inner.withdraw(object);
    }
    fn directory(&self, _path: &[u8], _meta: &ObjectMeta, _make: bool) -> Result<()> {
        Ok(()) // a directory has no checksum
    }
    fn sync_directories(&self) -> Result<()> {
        Ok(())
    }
    fn finish(&self) -> Result<Option<String>> {
        self.inner.finish()
    }
}

struct DigestWriter {
    inner: Box<dyn Writer>,
    checksum: Checksum,
}

#[deny(clippy::missing_trait_methods)]
impl Writer for DigestWriter {
    fn open(&mut self, partition: &Partition, mode: Mode, modes: Modes) -> Result<Box<dyn PartitionWriter>> {
        let inner = Rc::new(RefCell::new(self.inner.open(partition, mode, modes)?));
        Ok(Box::new(DigestPartition { inner, checksum: self.checksum }))
    }
    fn has_room(&mut self, place: Place) -> bool {
        self.inner.has_room(place)
    }
}

/// Shared with the objects that are being written in pieces.
type Inner = Rc<RefCell<Box<dyn PartitionWriter>>>;

struct DigestPartition {
    inner: Inner,
    checksum: Checksum,
}

#[deny(clippy::missing_trait_methods)]
impl PartitionWriter for DigestPartition {
    fn put(&mut self, index: u32, key: &ObjectKey, _meta: &ObjectMeta, payload: &mut Payload<'_>) -> Result<Put> {
        let mut hasher = Hasher::new(self.checksum);
        hasher.update(payload.bytes()?);
        pass_on(&self.inner, index, key, payload.size(), hasher)
    }

    fn put_in_place(
        &mut self,
        _index: u32,
        _key: &ObjectKey,
        _read: &mut dyn FnMut(&mut Vec<u8>) -> bool,
    ) -> Result<Option<u64>> {
        Ok(None) // the bytes are hashed, not kept
    }

    fn begin(&mut self, index: u32, key: &ObjectKey, meta: &ObjectMeta) -> Result<Option<Box<dyn ObjectWriter>>> {
        let (inner, key, hasher) = (self.inner.clone(), key.clone(), Hasher::new(self.checksum));
        Ok(Some(Box::new(Pieces { inner, index, key, wanted: meta.size, size: 0, hasher })))
    }

    fn link(&mut self, _index: u32, _key: &ObjectKey, _to: &ObjectKey, _meta: &ObjectMeta) -> Result<Option<Put>> {
        Ok(None) // each name has its own line
    }

    fn completed(&mut self) -> Option<Completed> {
        // Of a write that failed, the inner sink has the checksum. The object must be fetched again.
        self.inner.borrow_mut().completed().map(|completed| Completed { bytes: None, ..completed })
    }

    fn skip(&mut self, index: u32) {
        self.inner.borrow_mut().skip(index);
    }

    fn has(&mut self, _key: &ObjectKey, _meta: &mut dyn FnMut() -> Option<ObjectMeta>) -> Result<Option<Left>> {
        Ok(None) // the destination has checksums, which say nothing of bytes that were not read
    }

    fn kept(&mut self, _key: &ObjectKey) -> Result<Option<ObjectMeta>> {
        Ok(None)
    }

    fn directory(&mut self, key: &ObjectKey) -> Result<()> {
        self.inner.borrow_mut().directory(key)
    }

    fn seal(self: Box<Self>) -> Result<Sealed> {
        let unfinished = || Error::new(Kind::Internal, "a partition was sealed while an object was being written");
        let inner = Rc::into_inner(self.inner).ok_or_else(unfinished)?;
        inner.into_inner().seal()
    }
}

fn pass_on(inner: &Inner, index: u32, key: &ObjectKey, size: u64, hasher: Hasher) -> Result<Put> {
    let line = [&size.to_le_bytes()[..], &hasher.finish()].concat();
    let meta = ObjectMeta { size: Some(line.len() as u64), ..ObjectMeta::default() };
    inner.borrow_mut().put(index, key, &meta, &mut Payload::Owned(line))
}

struct Pieces {
    inner: Inner,
    index: u32,
    key: ObjectKey,
    wanted: Option<u64>,
    size: u64,
    hasher: Hasher,
}

impl ObjectWriter for Pieces {
    fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.hasher.update(piece);
        self.size += piece.len() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Put> {
        let Pieces { inner, index, key, wanted, size, hasher } = *self;
        match wanted {
            Some(wanted) if wanted != size => {
                let why = format!("{size} bytes arrived, expected {wanted}");
                Err(Error::new(Kind::ShortBody, why).on(&key.to_string()))
            }
            _ => pass_on(&inner, index, &key, size, hasher),
        }
    }
}
