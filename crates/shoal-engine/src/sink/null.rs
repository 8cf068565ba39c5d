//! `NullSink`: counts objects, adds up their hashes on request, and discards them.
//!
//! It does not store names, so it does not detect duplicates. It has no journal unless the user passes a path for one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::Xxh3;

use super::{Mode, ObjectWriter, Put, Reach, Sealed, Settled, Sink, Start, Started, Writer};
use crate::error::{Error, Kind, Result};
use crate::name::Name;
use crate::object::{Modes, ObjectMeta, Payload};
use crate::partition::Partition;

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
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for NullSink {
    fn identity(&self) -> String {
        "null:".into()
    }

    fn journal_dir(&self) -> Option<PathBuf> {
        None
    }

    fn start(&self, _start: &Start) -> Result<Started> {
        Ok(Started {
            durability: "none: nothing is kept".into(),
            publish: match self.hashing {
                true => "counted, hashed and discarded".into(),
                false => "counted and discarded".into(),
            },
            ..Started::default()
        })
    }

    fn blocks(&self) -> bool {
        false
    }

    fn writer(&self, _lane: usize) -> Result<Box<dyn Writer>> {
        Ok(Box::new(NullWriter { sink: self.clone(), slots: HashMap::new() }))
    }

    fn sync(&self, sealed: Vec<Sealed>, _last: bool) -> Result<Settled> {
        let mut durable: Vec<u64> = sealed.iter().map(|part| part.seq).collect();
        durable.sort_unstable();
        durable.dedup();
        Ok(Settled { durable, reach: Reach::default() })
    }
}

struct Slot {
    seq: u64,
    /// Added to the sink's when the slot is sealed: nothing is shared with other lanes for each object.
    tally: RefCell<NullTotals>,
}

impl Slot {
    fn count(&self, bytes: u64, hash: u64) -> Put {
        let mut tally = self.tally.borrow_mut();
        tally.objects += 1;
        tally.bytes += bytes;
        tally.hash = tally.hash.wrapping_add(hash);
        Put::Written
    }
}

struct NullWriter {
    sink: NullSink,
    slots: HashMap<u32, Rc<Slot>>,
}

impl NullWriter {
    fn slot(&self, slot: u32) -> Result<&Rc<Slot>> {
        let unopened = || Error::new(Kind::Internal, format!("slot {slot} is not open"));
        self.slots.get(&slot).ok_or_else(unopened)
    }
}

impl Writer for NullWriter {
    fn open(&mut self, slot: u32, partition: &Partition, _mode: Mode, _modes: Modes) -> Result<()> {
        let fresh = Slot { seq: partition.seq, tally: RefCell::default() };
        match self.slots.insert(slot, Rc::new(fresh)) {
            None => Ok(()),
            Some(_) => Err(Error::new(Kind::Internal, format!("slot {slot} was opened twice"))),
        }
    }

    fn put(&mut self, slot: u32, name: &Name, _meta: &ObjectMeta, payload: Payload<'_>) -> Result<Put> {
        let bytes = payload.bytes()?;
        let hash = match self.sink.hashing {
            false => 0,
            true => {
                let mut hasher = begin_hash(name);
                hasher.update(bytes);
                hasher.digest()
            }
        };
        Ok(self.slot(slot)?.count(bytes.len() as u64, hash))
    }

    fn begin(&mut self, slot: u32, name: &Name, _meta: &ObjectMeta) -> Result<Box<dyn ObjectWriter>> {
        let hasher = self.sink.hashing.then(|| Box::new(begin_hash(name)));
        Ok(Box::new(Pieces { slot: self.slot(slot)?.clone(), hasher, bytes: 0 }))
    }

    fn seal(&mut self, slot: u32) -> Result<Sealed> {
        let closed = self.slot(slot)?.clone();
        self.slots.remove(&slot);
        let tally = *closed.tally.borrow();
        let mut totals = self.sink.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.objects += tally.objects;
        totals.bytes += tally.bytes;
        totals.hash = totals.hash.wrapping_add(tally.hash);
        Ok(Sealed { seq: closed.seq, objects: tally.objects, bytes: tally.bytes, held: None })
    }

    fn discard(&mut self, slot: u32) {
        self.slots.remove(&slot);
    }
}

struct Pieces {
    slot: Rc<Slot>,
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
        Ok(self.slot.count(self.bytes, self.hasher.map_or(0, |hasher| hasher.digest())))
    }
}

/// The name's length goes first, so that `ab` with the bytes `c` differs from `a` with `bc`.
fn begin_hash(name: &Name) -> Xxh3 {
    let mut hasher = Xxh3::new();
    hasher.update(&(name.as_bytes().len() as u64).to_le_bytes());
    hasher.update(name.as_bytes());
    hasher
}
