//! `DigestSink`: passes on each object's checksum instead of its bytes. For manifests: the lanes compute the hashes.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::{Mode, ObjectWriter, Place, Put, Sealed, Settled, Sink, Start, Started, Writer};
use crate::error::{Error, Kind, Result};
use crate::name::Name;
use crate::object::{Modes, ObjectMeta, Payload};
use crate::partition::Partition;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// 64 bits, as fast as memory; does not protect against forgery.
    Xxh3,
    /// 256 bits; protects against forgery too.
    Sha256,
    /// 32 bits, as in zip and gzip.
    Crc32,
}

impl Checksum {
    /// All hash functions.
    pub const ALL: [Checksum; 3] = [Checksum::Xxh3, Checksum::Sha256, Checksum::Crc32];

    /// The value of the option.
    pub fn as_str(self) -> &'static str {
        match self {
            Checksum::Xxh3 => "xxh3",
            Checksum::Sha256 => "sha256",
            Checksum::Crc32 => "crc32",
        }
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

impl Sink for DigestSink {
    fn identity(&self) -> String {
        format!("{} of {}", self.checksum.as_str(), self.inner.identity())
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
        self.inner.clock()
    }
    fn writer(&self, lane: usize) -> Result<Box<dyn Writer>> {
        let inner = Rc::new(std::cell::RefCell::new(self.inner.writer(lane)?));
        Ok(Box::new(DigestWriter { inner, checksum: self.checksum, index: 0 }))
    }
    fn sync(&self, sealed: Vec<Sealed>, last: bool) -> Result<Settled> {
        self.inner.sync(sealed, last)
    }
    fn blocks(&self) -> bool {
        true // hashing keeps a core busy
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

type Inner = Rc<std::cell::RefCell<Box<dyn Writer>>>;

struct DigestWriter {
    inner: Inner,
    checksum: Checksum,
    index: u32,
}

impl Writer for DigestWriter {
    fn open(&mut self, slot: u32, partition: &Partition, mode: Mode, modes: Modes) -> Result<()> {
        self.inner.borrow_mut().open(slot, partition, mode, modes)
    }

    fn directory(&mut self, slot: u32, name: &Name) -> Result<()> {
        self.inner.borrow_mut().directory(slot, name)
    }

    // Not forwarded: `has`. What is there is digests, which say nothing of bytes that were not read.

    fn expect(&mut self, slot: u32, index: u32, _size: Option<u64>) -> Result<bool> {
        self.index = index;
        self.inner.borrow_mut().expect(slot, index, Some(0))
    }

    fn left_out(&mut self, slot: u32, index: u32) {
        self.inner.borrow_mut().left_out(slot, index);
    }

    fn put(&mut self, slot: u32, name: &Name, _meta: &ObjectMeta, payload: Payload<'_>) -> Result<Put> {
        let mut hasher = Hasher::new(self.checksum);
        hasher.update(payload.bytes()?);
        hand_on(&self.inner, slot, self.index, name, payload.size(), hasher)
    }

    fn begin(&mut self, slot: u32, name: &Name, meta: &ObjectMeta) -> Result<Box<dyn ObjectWriter>> {
        Ok(Box::new(Pieces {
            inner: self.inner.clone(),
            slot,
            index: self.index,
            name: name.clone(),
            wanted: meta.size,
            size: 0,
            hasher: Hasher::new(self.checksum),
        }))
    }

    fn seal(&mut self, slot: u32) -> Result<Sealed> {
        self.inner.borrow_mut().seal(slot)
    }

    fn discard(&mut self, slot: u32) {
        self.inner.borrow_mut().discard(slot);
    }
}

fn hand_on(inner: &Inner, slot: u32, index: u32, name: &Name, size: u64, hasher: Hasher) -> Result<Put> {
    let line = [&size.to_le_bytes()[..], &hasher.finish()].concat();
    let meta = ObjectMeta { size: Some(line.len() as u64), ..ObjectMeta::default() };
    let mut inner = inner.borrow_mut();
    inner.expect(slot, index, meta.size)?;
    inner.put(slot, name, &meta, Payload::Owned(line))
}

struct Pieces {
    inner: Inner,
    slot: u32,
    index: u32,
    name: Name,
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
        let Pieces { inner, slot, index, name, wanted, size, hasher } = *self;
        match wanted {
            Some(wanted) if wanted != size => {
                let why = format!("{size} bytes arrived, expected {wanted}");
                Err(Error::new(Kind::ShortBody, why).on(&name.to_string()))
            }
            _ => hand_on(&inner, slot, index, &name, size, hasher),
        }
    }
}
